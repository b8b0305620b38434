//! How the caller follows a load.

use weir_results::LoadSecond;

/// Hears how a load goes.
pub trait Progress {
    /// A second of the load has ended. Called on the coordinator's thread, never on a worker's.
    fn second(&self, second: &LoadSecond);
}

/// Nobody listens.
impl Progress for () {
    fn second(&self, _: &LoadSecond) {}
}
