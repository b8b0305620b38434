//! Values computed from the repeats of a load: means, intervals and curves, and how they are formatted.

pub(crate) mod counts;
pub(crate) mod cpu_range;
pub(crate) mod curve;
pub(crate) mod errors;
pub(crate) mod figure;
pub(crate) mod heat;
pub mod interval;
pub(crate) mod latencies;
pub mod looks;
pub(crate) mod noise;
pub(crate) mod part_use;
pub mod quantity;
pub(crate) mod seconds;
pub(crate) mod timeline;
