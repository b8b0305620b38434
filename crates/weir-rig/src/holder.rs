//! The holder of a resource that a run needs: a process that holds a port, or another run that holds this host.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A process that holds a port or the host lock that the rig needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process ID.
    pub pid: u32,
    /// The name of the process in /proc/PID/stat, at most 15 characters.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The run that holds this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// The process ID of the weir process that executes the run.
    pub pid: u32,
    /// The run ID.
    pub run_id: String,
    /// When the run took the host lock, milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// The database in which the run stores its cells, if any.
    pub database: Option<PathBuf>,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} (pid {}", self.run_id, self.pid)?;
        let since = i64::try_from(self.since_unix_ms).ok();
        if let Some(since) = since.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) {
            write!(f, ", since {} UTC", since.strftime("%Y-%m-%d %H:%M:%S"))?;
        }
        if let Some(database) = &self.database {
            write!(f, ", database {}", database.display())?;
        }
        f.write_str(")")
    }
}
