//! Options of a rig.

use std::path::PathBuf;

/// Options to open a rig without the defaults.
#[derive(Clone, Debug)]
pub struct RigOptions {
    /// The run ID: letters, digits and hyphens.
    pub run_id: String,
    /// The folder for the ledger and the host lock: rigs with the same folder exclude each other.
    pub state_dir: PathBuf,
    /// The parent of the work folder.
    pub temp_dir: PathBuf,
    /// The command that runs [`crate::run_guard`] on the path appended to it.
    pub guard: Vec<String>,
    /// Whether to use control groups if this host has them.
    pub cgroups: bool,
    /// The database of the run's cells, reported to other runs that wait for the host.
    pub database: Option<PathBuf>,
    /// A socket name: rigs with the same name on this host exclude each other, whatever their folders.
    pub host_name: Option<String>,
}
