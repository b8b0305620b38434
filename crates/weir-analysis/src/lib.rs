//! Pure statistics over results: verdicts, intervals over repeats, comparison, conclusions.
//!
//! Nothing here measures, reads a clock, or draws. [`judge`] says what bounds one load of one cell and
//! whether its figures count; [`summarize`] turns the cells of a run into figures with intervals,
//! objective results and conclusions, each computed from the numbers.

mod added;
mod axes;
mod baseline;
pub mod capacity;
pub mod compare;
mod conclusions;
mod counts;
mod cpu_range;
mod curve;
mod errors;
mod experiments;
mod figure;
pub mod findings;
mod gateways;
mod grouping;
pub mod headroom;
mod heat;
mod host_noise;
pub mod interval;
mod judge;
mod measured;
mod missing;
mod noise;
mod objective;
mod part_use;
mod points;
mod problems;
pub mod quantity;
mod reasons;
mod rows;
mod scaling;
mod seconds;
pub mod sizing;
mod stationary;
mod summary;
mod timeline;

pub use added::{AddedCurve, AddedLatency, AuthenticationCost, Claim, CostRow, RepeatRow, RigBias, Side};
pub use axes::{Axes, at_axes, axes_words};
pub use baseline::{ADDED, Added, RatioToDirect};
pub use counts::RequestCounts;
pub use cpu_range::CpuRange;
pub use curve::{CurvePoint, curve};
pub use errors::ErrorShare;
pub use experiments::{DataLimit, Experiment, Maximum, PerCore, Saturation};
pub use figure::{Figure, HEADLINE_REPEATS, Noise, Repeated, Sample};
pub use gateways::{FailedCell, Gateway};
pub use heat::{HEAT_ROWS_MAX, Heat};
pub use host_noise::host_noise;
pub use judge::{Evidence, judge};
pub use measured::{data_usage, origin_usage, role_usage};
pub use objective::{Met, ObjectiveResult};
pub use part_use::PartUse;
pub use points::{LATENCIES, Point, Row, bound_name};
pub use problems::{Outcome, ProblemKind};
pub use reasons::{Metric, reason_name, voids};
pub use scaling::{Scaled, scaling};
pub use summary::{Summary, summarize};
pub use timeline::{PartTimeline, Timeline, timeline};
