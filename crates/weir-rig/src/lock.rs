//! The host's lock: one run at a time, and who it is.
//!
//! The kernel holds the lock for the process and lets go of it with the process, so that none is ever stale. What
//! stands in the file only says whose it is.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::cleanup::{ProcessId, wait_until};
use crate::{RigError, RigOptions};

/// The lock's file in the state folder.
const LOCK_FILE: &str = "host.lock";

/// The run that holds this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// The process id of its lab.
    pub pid: u32,
    /// The run's id.
    pub run_id: String,
    /// Since when it holds the host, milliseconds since the Unix epoch.
    pub since_unix_ms: u64,
    /// The database that keeps its cells, where it has one.
    pub database: Option<PathBuf>,
}

impl Occupant {
    fn of(options: &RigOptions) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            pid: std::process::id(),
            run_id: options.run_id.clone(),
            since_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            database: options.database.clone(),
        }
    }

    /// Who the file says that holds the lock; nobody where that process is gone.
    fn read(path: &Path) -> Option<Self> {
        let occupant: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let process = ProcessId::of(i32::try_from(occupant.pid).ok()?);
        process.is_some_and(|process| process.is_alive()).then_some(occupant)
    }
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

/// Takes the lock for the run of `options`; it is held as long as the file is open.
///
/// # Errors
/// [`RigError::HostBusy`] while another run holds it.
pub(crate) fn lock_host(options: &RigOptions) -> Result<File, RigError> {
    let path = options.state_dir.join(LOCK_FILE);
    let failed = |error| RigError::file(&path, error);
    let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let mut taken = lock.try_lock();
    let mut occupant = None;
    // Who took it writes who it is a moment later; and a process between fork and exec of a lab that was killed
    // holds it a moment longer.
    wait_until(|| {
        if matches!(taken, Err(fs::TryLockError::WouldBlock)) {
            occupant = Occupant::read(&path);
            if occupant.is_none() {
                taken = lock.try_lock();
            }
        }
        occupant.is_some() || !matches!(taken, Err(fs::TryLockError::WouldBlock))
    });
    match taken {
        Ok(()) => write_whole(&lock, &Occupant::of(options)).map(|()| lock).map_err(failed),
        Err(fs::TryLockError::WouldBlock) => Err(RigError::HostBusy { occupant }),
        Err(fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn write_whole(mut lock: &File, occupant: &Occupant) -> io::Result<()> {
    let text = serde_json::to_vec(occupant)?;
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_occupant_says_who_since_when_and_into_which_database() {
        let mut occupant = Occupant {
            pid: 17,
            run_id: "20261121-0210-k3fz".into(),
            since_unix_ms: 1_795_227_005_000,
            database: Some("/data/weir.db".into()),
        };
        let told = "run 20261121-0210-k3fz (pid 17, since 2026-11-21 02:10:05 UTC, database /data/weir.db)";
        assert_eq!(occupant.to_string(), told);
        occupant.database = None;
        assert_eq!(occupant.to_string(), told.replace(", database /data/weir.db", ""));
    }
}
