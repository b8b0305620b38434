//! What a run tells while it goes on, and how long it still takes.

use std::time::Duration;

use weir_results::{Cell, CellKey, Measurement};

use crate::plan::takes::Takes;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Cells of the plan that are in the store.
    pub done: usize,
    /// Cells of the plan.
    pub planned: usize,
    /// What the cells that are missing will take.
    pub left: Takes,
}

/// Somebody who watches a run.
pub trait Observer {
    /// Something that the user should know and that stops nothing.
    fn note(&self, text: &str);
    /// A cell begins.
    fn cell_started(&self, key: &CellKey, standing: Standing);
    /// A load of the cell begins; this attempt takes at least so long.
    fn load_started(&self, key: &CellKey, load: &str, takes: Duration);
    /// A load of the cell was measured.
    fn load_measured(&self, key: &CellKey, measurement: &Measurement);
    /// A cell is in the store.
    fn cell_finished(&self, cell: &Cell, standing: Standing);
}

/// Time left: what the plan says, corrected where finished cells took less or more than planned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    planned: Takes,
    taken: Duration,
}

impl Pace {
    pub(crate) fn finished(&mut self, planned: Takes, taken: Duration) {
        self.planned = self.planned + planned;
        self.taken += taken;
    }

    /// As planned while finished cells stayed within their range, else stretched by as much as they left it.
    pub(crate) fn left(&self, planned: Takes) -> Takes {
        if self.planned.least.is_zero() {
            return planned;
        }
        let within = self.taken.clamp(self.planned.least, self.planned.most);
        planned.stretched(self.taken.as_secs_f64() / within.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_what_cells_took() {
        let seconds =
            |least, most| Takes { least: Duration::from_secs(least), most: Duration::from_secs(most) };
        let check = |taken, expected| {
            let mut pace = Pace::default();
            assert_eq!(pace.left(seconds(10, 30)), seconds(10, 30));
            pace.finished(seconds(2, 6), Duration::from_secs(taken));
            assert_eq!(pace.left(seconds(10, 30)), expected);
        };
        check(1, seconds(5, 15));
        check(2, seconds(10, 30));
        check(5, seconds(10, 30));
        check(6, seconds(10, 30));
        check(9, seconds(15, 45));
    }
}
