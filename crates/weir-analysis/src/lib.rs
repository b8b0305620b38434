//! Pure statistics over results: verdicts, intervals over repeats, comparison, conclusions.
//!
//! Nothing here measures, reads a clock, or draws. [`judge`] says what bounds one load of one cell and
//! whether its figures count; [`summarize`] turns the cells of a run into figures with intervals,
//! objective results and conclusions, each computed from the numbers.

mod baseline;
mod conclusions;
mod curve;
mod figure;
mod grouping;
pub mod interval;
mod judge;
mod measured;
mod noise;
mod objective;
mod problems;
pub mod quantity;
mod reasons;
mod stationary;
mod summary;
mod timeline;

pub use baseline::{ADDED, Added, RatioToDirect};
pub use curve::CurvePoint;
pub use figure::{Figure, HEADLINE_REPEATS, Noise, Repeated, Sample};
pub use judge::{Evidence, judge};
pub use measured::{data_usage, origin_usage, role_usage};
pub use objective::{Met, ObjectiveResult};
pub use reasons::{Metric, reason_name, voids};
pub use summary::{
    Axes, FailedCell, Gateway, LATENCIES, PartUse, Point, Row, Summary, axes_words, bound_name, summarize,
};
pub use timeline::{Timeline, timeline};
