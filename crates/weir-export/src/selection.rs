//! Selects a part of a run: one cell, one load, or both.

use weir_results::{Cell, CellOutcome};

/// The cell and the load to select; `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The cell's index in the plan, from 0.
    pub cell: Option<u32>,
    /// The load's name.
    pub load: Option<String>,
}

/// The selection matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The run has no finished cell with this index.
    #[error("the run has no finished cell {}", u64::from(*wanted) + 1)]
    Cell {
        /// Index of the selected cell, from 0.
        wanted: u32,
        /// Indexes of the finished cells.
        there: Vec<u32>,
    },
    /// No measured cell has a load with this name.
    #[error("the run has no load `{wanted}`")]
    Load {
        /// Name of the selected load.
        wanted: String,
        /// Names of the loads in the run.
        there: Vec<String>,
    },
}

impl SelectionError {
    /// How the user can fix the problem.
    pub fn remedy(&self) -> String {
        let there = match self {
            Self::Cell { there, .. } => {
                there.iter().map(|index| (u64::from(*index) + 1).to_string()).collect::<Vec<_>>()
            }
            Self::Load { there, .. } => there.clone(),
        };
        match there.is_empty() {
            true => "the run has no finished cell yet".into(),
            false => format!("use one of {}", there.join(", ")),
        }
    }
}

impl Selection {
    /// Returns the selected cells, with only the selected loads.
    ///
    /// # Errors
    /// When nothing matches.
    pub fn of(&self, cells: Vec<Cell>) -> Result<Vec<Cell>, SelectionError> {
        let mut cells = self.cells(cells)?;
        let Some(wanted) = &self.load else { return Ok(cells) };
        let (mut fits, mut there) = (false, Vec::new());
        for cell in &mut cells {
            let CellOutcome::Measured { measurements } = &mut cell.outcome else { continue };
            for measurement in &*measurements {
                if !there.contains(&measurement.load) {
                    there.push(measurement.load.clone());
                }
            }
            measurements.retain(|measurement| measurement.load == *wanted);
            fits |= !measurements.is_empty();
        }
        if fits { Ok(cells) } else { Err(SelectionError::Load { wanted: wanted.clone(), there }) }
    }

    fn cells(&self, mut cells: Vec<Cell>) -> Result<Vec<Cell>, SelectionError> {
        let Some(wanted) = self.cell else { return Ok(cells) };
        match cells.iter().position(|cell| cell.key.index == wanted) {
            Some(place) => Ok(vec![cells.swap_remove(place)]),
            None => {
                let there = cells.iter().map(|cell| cell.key.index).collect();
                Err(SelectionError::Cell { wanted, there })
            }
        }
    }
}
