//! The holder of a resource that a run needs: a process, or another run.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A process that holds something that the rig needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process ID.
    pub pid: u32,
    /// Its name in the kernel.
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
    /// The process ID of its lab.
    pub pid: u32,
    /// Its run ID.
    pub run_id: String,
    /// When it took the host lock, milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// The database of its cells, if any.
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
