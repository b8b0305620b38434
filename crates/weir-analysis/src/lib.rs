//! Pure statistics over results: verdicts, intervals over repeats, comparison, conclusions.
//!
//! Nothing here measures, reads a clock, or draws. [`judge`] says what bounds one load of one cell and
//! whether its figures count; [`summarize`] turns the cells of a run into figures with intervals,
//! objective results and conclusions, each computed from the numbers.

mod judge;
pub mod quantity;
mod reasons;

pub use judge::{Evidence, judge};
pub use reasons::{Metric, reason_name, voids};
