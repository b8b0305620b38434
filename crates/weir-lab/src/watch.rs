//! Reports values of loads while they run.

use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{CellKey, Measurement, Role};

/// Receives values of loads while they run. Its methods must return immediately, because a load waits for them.
pub trait Watcher {
    /// A load starts, or is re-measured.
    fn load_started(&self, load: &WatchedLoad<'_>, spec: &LoadSpec);
    /// Receives the values of one second of the load, after the second has ended. Agents may report a second late.
    /// `agent` is the name of the agent that generated this part of the load; `None` if one weir process on this host
    /// generates the load.
    fn second(&self, load: &WatchedLoad<'_>, agent: Option<&str>, second: &LiveSecond);
    /// Another second has passed; `parts` is the CPU and memory use of each part in that second.
    fn parts(&self, load: &WatchedLoad<'_>, parts: &[PartNow]);
    /// The load has ended. `measurement` is its result; `None` if the load failed or was stopped.
    fn load_ended(&self, load: &WatchedLoad<'_>, measurement: Option<&Measurement>);
}

/// The identity of a load.
#[derive(Clone, Copy, Debug)]
pub struct WatchedLoad<'a> {
    /// ID of the run.
    pub run: &'a str,
    /// The cell that runs the load.
    pub key: &'a CellKey,
    /// Name of the load.
    pub load: &'a str,
}

/// CPU and memory use of a part, such as a gateway, an upstream or the load generator.
#[derive(Clone, Debug, PartialEq)]
pub struct PartNow {
    /// Name of the part.
    pub name: String,
    /// Role of the part.
    pub role: Role,
    /// CPU time divided by wall time; `None` if the CPU time could not be read.
    pub cpu_cores: Option<f64>,
    /// Memory use without the page cache; `None` if it could not be read.
    pub memory_bytes: Option<u64>,
}
