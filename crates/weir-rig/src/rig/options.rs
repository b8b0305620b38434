//! Options of a rig.

use std::path::PathBuf;

/// How a rig is opened where the defaults do not fit.
#[derive(Clone, Debug)]
pub struct RigOptions {
    /// Names the run; letters, digits and hyphens.
    pub run_id: String,
    /// The folder for the ledger and the host's lock: two rigs with one folder exclude each other.
    pub state_dir: PathBuf,
    /// The folder in which the work folder is made.
    pub temp_dir: PathBuf,
    /// The command that runs [`crate::run_guard`] on the path appended to it.
    pub guard: Vec<String>,
    /// Whether to use control groups where this host has them.
    pub cgroups: bool,
    /// The database that keeps the run's cells, for a second run that asks who holds the host.
    pub database: Option<PathBuf>,
    /// A name that excludes every other rig with it on this host, whoever's folders that uses.
    pub host_name: Option<String>,
}
