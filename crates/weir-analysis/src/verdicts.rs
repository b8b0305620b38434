//! Verdicts: which values of a load are valid, bounded or invalid, and why.

pub(crate) mod effects;
pub(crate) mod estimate;
pub(crate) mod evidence;
pub(crate) mod host_noise;
pub(crate) mod judge;
pub(crate) mod missing;
pub(crate) mod reasons;
pub(crate) mod stationary;
