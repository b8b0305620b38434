//! Options of a rig.

use std::path::PathBuf;

/// Options for [`crate::Rig::open_with`], which uses no defaults.
#[derive(Clone, Debug)]
pub struct RigOptions {
    /// The run ID: letters, digits and hyphens.
    pub run_id: String,
    /// The folder for the cleanup ledger and the host lock. Two rigs with the same folder cannot be open at once.
    pub state_dir: PathBuf,
    /// The folder in which the rig creates its work folder.
    pub temp_dir: PathBuf,
    /// The command that starts the guard process. The rig appends the ledger's path; the command must pass this path to
    /// [`crate::run_guard`].
    pub guard: Vec<String>,
    /// Whether to create cgroups, if the host and the user's permissions allow it.
    pub cgroups: bool,
    /// The database in which the run stores its cells. Other runs that find this host busy report its path.
    pub database: Option<PathBuf>,
    /// An abstract socket name. Two rigs with the same name cannot be open at once on this host, even if their
    /// `state_dir` differs. `None`: only `state_dir` excludes other rigs.
    pub host_name: Option<String>,
}
