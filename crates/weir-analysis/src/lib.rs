//! Pure statistics over results: verdicts, intervals over repeats, comparison, conclusions.
//!
//! Nothing here measures, reads a clock, or draws charts. [`judge`] reports what limits one load of one cell and which
//! of its values are valid. [`summarize`] turns the cells of a run into values with intervals, objective results and
//! conclusions.

mod added;
pub mod capacity;
pub mod compare;
mod control;
mod experiments;
mod figures;
pub mod findings;
pub mod headroom;
mod points;
mod problems;
pub mod sizing;
mod summary;
mod verdicts;

pub use added::{AddedCurve, AddedLatency, AuthenticationCost, Claim, CostRow, RepeatRow, RigBias, Side};
pub use control::summarize;
pub use experiments::{DataLimit, Experiment, Maximum, PerCore, Saturation};
pub use figures::counts::RequestCounts;
pub use figures::cpu_range::CpuRange;
pub use figures::curve::{CurvePoint, curve};
pub use figures::errors::ErrorShare;
pub use figures::figure::{Figure, HEADLINE_REPEATS, Noise, Range, Repeated, Sample};
pub use figures::heat::{HEAT_ROWS_MAX, Heat};
pub use figures::latencies::LATENCIES;
pub use figures::part_use::PartUse;
pub use figures::timeline::{PartTimeline, Timeline, timeline};
pub use figures::{interval, looks, quantity};
pub use points::axes::{Axes, at_axes, axes_words};
pub use points::baseline::{ADDED, Added, RatioToDirect};
pub use points::conclusions::{bounds_words, join, with_interval};
pub use points::gateways::{FailedCell, Gateway};
pub use points::measured::{data_usage, origin_usage, role_usage};
pub use points::objective::{Met, ObjectiveResult};
pub use points::scaling::{Scaled, scaling};
pub use points::tails::ShortTail;
pub use points::{Point, Row, bound_name};
pub use problems::{Outcome, ProblemKind};
pub use summary::Summary;
pub use verdicts::effects::cpu_us_per_request;
pub use verdicts::estimate::noise_margin;
pub use verdicts::evidence::Evidence;
pub use verdicts::host_noise::{busiest_words, host_noise};
pub use verdicts::judge::judge;
pub use verdicts::reasons::{Metric, reason_name, reason_times, reasons_and_range, value};
