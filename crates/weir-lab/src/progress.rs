//! Progress of a run, and the estimated remaining time.

use std::time::Duration;

use weir_results::{Cell, CellKey, Measurement};

use crate::plan::estimate::TimeEstimate;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of planned cells that are already in the store.
    pub done: usize,
    /// Number of planned cells.
    pub planned: usize,
    /// Estimated time for the remaining cells.
    pub left: TimeEstimate,
}

/// Receives the progress of a run.
pub trait Observer {
    /// A note for the user; the run continues.
    fn note(&self, text: &str);
    /// A cell begins.
    fn cell_started(&self, key: &CellKey, progress: Progress);
    /// A load of the cell begins; this attempt takes at least `takes`.
    fn load_started(&self, key: &CellKey, load: &str, takes: Duration);
    /// weir re-measures a load of the cell; `cause` describes what disturbed the previous attempt.
    fn load_retried(&self, key: &CellKey, load: &str, cause: &str);
    /// A load of the cell was measured.
    fn load_measured(&self, key: &CellKey, measurement: &Measurement);
    /// A cell is in the store.
    fn cell_finished(&self, cell: &Cell, progress: Progress);
}

/// Corrects the planned time of the remaining cells, based on the actual time of the finished cells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    planned: TimeEstimate,
    taken: Duration,
}

impl Pace {
    pub(crate) fn finished(&mut self, planned: TimeEstimate, taken: Duration) {
        self.planned = self.planned + planned;
        self.taken += taken;
    }

    /// Estimates the time of the remaining cells. Returns `planned` if the finished cells took between their planned
    /// minimum and their planned maximum. Otherwise, `planned` is scaled.
    pub(crate) fn left(&self, planned: TimeEstimate) -> TimeEstimate {
        if self.planned.min.is_zero() {
            return planned;
        }
        let within = self.taken.clamp(self.planned.min, self.planned.max);
        planned.stretched(self.taken.as_secs_f64() / within.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_duration_of_finished_cells() {
        let seconds =
            |min, max| TimeEstimate { min: Duration::from_secs(min), max: Duration::from_secs(max) };
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
