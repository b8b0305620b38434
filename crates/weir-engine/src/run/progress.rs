//! How a caller follows a load.

use weir_results::LoadSecond;

/// Receives the progress of a load.
pub trait Progress {
    /// A second of the load has ended. Called on the coordinator's thread, never on a worker's.
    fn second(&self, second: &LoadSecond);
}

/// Ignores progress.
impl Progress for () {
    fn second(&self, _: &LoadSecond) {}
}
