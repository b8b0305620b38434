//! Values of loads while they run.

use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{CellKey, Measurement, Role};

/// Receives values of loads while they run. Its methods must return immediately, because a load waits for them.
pub trait Watcher {
    /// A load starts, or is re-measured.
    fn load_started(&self, load: &WatchedLoad<'_>, spec: &LoadSpec);
    /// A second of the load has ended, or the late report of an agent has arrived; `agent` is the name of the agent,
    /// `None` for load from this host.
    fn second(&self, load: &WatchedLoad<'_>, agent: Option<&str>, second: &LiveSecond);
    /// CPU and memory of the parts over the last second.
    fn parts(&self, load: &WatchedLoad<'_>, parts: &[PartNow]);
    /// The load has ended and is judged; `None` if it failed or was stopped.
    fn load_ended(&self, load: &WatchedLoad<'_>, measurement: Option<&Measurement>);
}

/// The identity of a load.
#[derive(Clone, Copy, Debug)]
pub struct WatchedLoad<'a> {
    /// ID of the run.
    pub run: &'a str,
    /// The cell.
    pub key: &'a CellKey,
    /// Name of the load.
    pub load: &'a str,
}

/// CPU and memory of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct PartNow {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// CPU time over wall time; `None` if it could not be read.
    pub cpu_cores: Option<f64>,
    /// Memory without the page cache; `None` if it could not be read.
    pub memory_bytes: Option<u64>,
}
