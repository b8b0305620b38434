//! Whether a value counts: reasons against one load of one cell.

pub(crate) mod host_noise;
pub(crate) mod judge;
pub(crate) mod missing;
pub(crate) mod reasons;
pub(crate) mod stationary;
