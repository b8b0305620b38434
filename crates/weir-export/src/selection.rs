//! A part of a run: one cell, one load.

use weir_results::{Cell, CellOutcome};

/// Which cells and loads are wanted; `None` is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The cell's index in the plan, from 0.
    pub cell: Option<u32>,
    /// The load's name.
    pub load: Option<String>,
}

/// A selection that fits nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The run has no such finished cell.
    #[error("the run has no finished cell {}", u64::from(*wanted) + 1)]
    Cell {
        /// Index of the wanted cell.
        wanted: u32,
        /// Indices of the finished cells.
        there: Vec<u32>,
    },
    /// No measured cell has such a load.
    #[error("the run has no load `{wanted}`")]
    Load {
        /// The wanted load.
        wanted: String,
        /// The loads that are there.
        there: Vec<String>,
    },
}

impl SelectionError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        let there = match self {
            Self::Cell { there, .. } => {
                there.iter().map(|index| (u64::from(*index) + 1).to_string()).collect::<Vec<_>>()
            }
            Self::Load { there, .. } => there.clone(),
        };
        match there.is_empty() {
            true => "it has none so far".into(),
            false => format!("give one of {}", there.join(", ")),
        }
    }
}

impl Selection {
    /// The wanted cells, with the wanted loads.
    ///
    /// # Errors
    /// When nothing fits.
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
