//! What a run tells while it goes on, and how long it still takes.

use std::time::Duration;

use weir_results::{Cell, CellKey, Measurement};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Cells of the plan that are in the store.
    pub done: usize,
    /// Cells of the plan.
    pub planned: usize,
    /// What the cells that are missing will take.
    pub left: Duration,
}

/// Somebody who watches a run.
pub trait Observer {
    /// Something that the user should know and that stops nothing.
    fn note(&self, text: &str);
    /// A cell begins.
    fn cell_started(&self, key: &CellKey, standing: Standing);
    /// A load of the cell begins, and will take about so long.
    fn load_started(&self, key: &CellKey, load: &str, takes: Duration);
    /// A load of the cell was measured.
    fn load_measured(&self, key: &CellKey, measurement: &Measurement);
    /// A cell is in the store.
    fn cell_finished(&self, cell: &Cell, standing: Standing);
}

/// Time left: what the plan says, corrected by how the finished cells kept to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    planned: Duration,
    taken: Duration,
}

impl Pace {
    pub(crate) fn finished(&mut self, planned: Duration, taken: Duration) {
        self.planned += planned;
        self.taken += taken;
    }

    pub(crate) fn left(&self, planned: Duration) -> Duration {
        if self.planned.is_zero() {
            return planned;
        }
        planned.mul_f64(self.taken.as_secs_f64() / self.planned.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_what_cells_took() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.left(10 * second), 10 * second);
        pace.finished(2 * second, 3 * second);
        assert_eq!(pace.left(10 * second), 15 * second);
    }
}
