//! Every load of every cell over time, shared by all formats.

use weir_analysis::{Summary, Timeline, timeline};
use weir_results::{Cell, CellOutcome, Measurement};

/// The maximum number of steps of a timeline.
const STEPS_MAX: usize = 120;
/// The minimum number of steps of a timeline.
const STEPS_MIN: usize = 24;
/// The maximum number of steps of all timelines of a page, which keeps a page of hundreds of cells small.
const STEPS_IN_ALL: usize = 24_000;

/// One load of one cell over time.
pub(crate) struct CellTimeline<'a> {
    /// The index of its load point in the summary.
    pub(crate) point: usize,
    pub(crate) cell: &'a Cell,
    pub(crate) measurement: &'a Measurement,
    pub(crate) timeline: Timeline,
}

/// The timelines of `cells`, in order.
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
    /// Whether its throughput is valid.
    pub(crate) fn counts(&self) -> bool {
        self.measurement.judgement.verdicts.throughput.is_empty()
    }
}

/// The measurements of a cell.
pub(crate) fn measurements(cell: &Cell) -> &[Measurement] {
    match &cell.outcome {
        CellOutcome::Measured { measurements } => measurements,
        CellOutcome::Failed { .. } => &[],
    }
}
