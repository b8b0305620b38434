//! Timelines of all loads of all cells, which all formats use.

use weir_analysis::{Summary, Timeline, timeline};
use weir_results::{Cell, CellOutcome, Measurement};

/// Maximum number of steps of a timeline.
const STEPS_MAX: usize = 120;
/// Minimum number of steps of a timeline.
const STEPS_MIN: usize = 24;
/// Maximum number of steps of all timelines together. It keeps the page small if a run has hundreds of cells.
const STEPS_IN_ALL: usize = 24_000;

/// The timeline of one load in one cell.
pub(crate) struct CellTimeline<'a> {
    /// The index of the load point in the summary.
    pub(crate) point: usize,
    pub(crate) cell: &'a Cell,
    pub(crate) measurement: &'a Measurement,
    pub(crate) timeline: Timeline,
}

/// Computes the timelines of all loads of `cells`, in their order.
pub(crate) fn timelines<'a>(summary: &Summary, cells: &'a [Cell]) -> Vec<CellTimeline<'a>> {
    let measured = || cells.iter().flat_map(|cell| measurements(cell).iter().map(move |of| (cell, of)));
    let steps_max = (STEPS_IN_ALL / measured().count().max(1)).clamp(STEPS_MIN, STEPS_MAX);
    measured()
        .filter_map(|(cell, measurement)| {
            let point = summary
                .points
                .iter()
                .position(|point| point.axes == cell.key.axes && point.load == measurement.load)?;
            Some(CellTimeline { point, cell, measurement, timeline: timeline(cell, measurement, steps_max) })
        })
        .collect()
}

impl CellTimeline<'_> {
    /// Whether the throughput of the measurement is valid.
    pub(crate) fn counts(&self) -> bool {
        self.measurement.judgement.verdicts.throughput.is_empty()
    }
}

/// The measurements of a cell; empty if the cell failed.
pub(crate) fn measurements(cell: &Cell) -> &[Measurement] {
    match &cell.outcome {
        CellOutcome::Measured { measurements } => measurements,
        CellOutcome::Failed { .. } => &[],
    }
}
