//! The host lock: one run at a time.
//!
//! The kernel releases the lock when the process that holds it exits, so the lock is never stale. The content of the
//! lock file only names the holder.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use procfs::process::Process;
use rustix::net::sockopt::socket_peercred;

use super::options::RigOptions;
use crate::RigError;
use crate::cleanup::{ProcessId, wait_until};
use crate::holder::{Holder, Occupant};

/// The name of the lock file in the state folder.
const LOCK_FILE: &str = "host.lock";
/// The abstract socket name that a run of any user binds, so that only one run uses this host.
pub(crate) const HOST_NAME: &str = "weir-host-lock";

/// The host lock: a locked file and a bound socket name. The kernel releases both when the process exits.
#[derive(Debug)]
pub(crate) struct HostLock {
    _file: File,
    /// An abstract socket name, unique on the host for all users.
    _name: Option<UnixListener>,
}

impl HostLock {
    /// Takes the host lock for the run that `options` describes.
    ///
    /// # Errors
    /// [`RigError::HostBusy`] if another run holds the lock.
    pub(crate) fn take(options: &RigOptions) -> Result<Self, RigError> {
        let path = options.state_dir.join(LOCK_FILE);
        let file = lock_file(&path)?;
        let name = options.host_name.as_deref().map(bind_name).transpose()?.flatten();
        write_whole(&file, &occupant_of(options)).map_err(|error| RigError::file(&path, error))?;
        Ok(Self { _file: file, _name: name })
    }
}

fn occupant_of(options: &RigOptions) -> Occupant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Occupant {
        pid: std::process::id(),
        run_id: options.run_id.clone(),
        since_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        database: options.database.clone(),
    }
}

/// The occupant that the lock file names, if its process still runs.
fn read_occupant(path: &Path) -> Option<Occupant> {
    let occupant: Occupant = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let process = ProcessId::of(i32::try_from(occupant.pid).ok()?);
    process.is_some_and(|process| process.is_alive()).then_some(occupant)
}

fn lock_file(path: &Path) -> Result<File, RigError> {
    let failed = |error| RigError::file(path, error);
    let lock = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    let mut taken = lock.try_lock();
    let mut occupant = None;
    // Retry for a moment. For a short time, the lock can be held although the file names no running process: a new
    // holder has not written its name yet, or a child of a killed run is between fork and exec.
    wait_until(|| {
        if matches!(taken, Err(fs::TryLockError::WouldBlock)) {
            occupant = read_occupant(path);
            if occupant.is_none() {
                taken = lock.try_lock();
            }
        }
        occupant.is_some() || !matches!(taken, Err(fs::TryLockError::WouldBlock))
    });
    match taken {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(RigError::HostBusy { occupant, holder: None }),
        Err(fs::TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Binds an abstract socket name, which excludes runs of other users. The lock file excludes only runs of the same
/// user, because each user has a separate lock file. Returns `None` if this host does not support abstract sockets.
fn bind_name(name: &str) -> Result<Option<UnixListener>, RigError> {
    let Ok(address) = SocketAddr::from_abstract_name(name) else { return Ok(None) };
    let mut bound = UnixListener::bind_addr(&address);
    let mut holder = None;
    wait_until(|| {
        if matches!(&bound, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
            holder = listener_at(&address);
            if holder.is_none() {
                bound = UnixListener::bind_addr(&address);
            }
        }
        holder.is_some() || !matches!(&bound, Err(error) if error.kind() == io::ErrorKind::AddrInUse)
    });
    match bound {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(RigError::HostBusy { occupant: None, holder })
        }
        Err(_) => Ok(None),
    }
}

/// The process that listens on the socket name `address`.
fn listener_at(address: &SocketAddr) -> Option<Holder> {
    let stream = UnixStream::connect_addr(address).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid.as_raw_nonzero().get();
    let name = Process::new(pid).ok()?.stat().ok()?.comm;
    Some(Holder { pid: pid.try_into().ok()?, name })
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
    fn an_occupant_shows_run_start_and_database() {
        let mut occupant = Occupant {
            pid: 17,
            run_id: "20261121-0210-k3fz".into(),
            since_unix_ms: 1_795_227_005_000,
            database: Some("/data/weir.db".into()),
        };
        let text = "run 20261121-0210-k3fz (pid 17, since 2026-11-21 02:10:05 UTC, database /data/weir.db)";
        assert_eq!(occupant.to_string(), text);
        occupant.database = None;
        assert_eq!(occupant.to_string(), text.replace(", database /data/weir.db", ""));
    }

    #[test]
    fn users_with_different_folders_exclude_each_other_by_the_socket_name() {
        let options = |folder: &tempfile::TempDir, host_name: Option<String>| RigOptions {
            run_id: "first".into(),
            state_dir: folder.path().into(),
            temp_dir: folder.path().into(),
            guard: Vec::new(),
            cgroups: false,
            database: None,
            host_name,
        };
        let name = || Some(format!("weir-test-{}", std::process::id()));
        let (mine, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = HostLock::take(&options(&mine, name())).unwrap();
        let error = HostLock::take(&options(&theirs, name())).unwrap_err();
        assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
        assert!(matches!(error, RigError::HostBusy { occupant: None, holder: Some(_) }), "{error:?}");
        HostLock::take(&options(&theirs, None)).unwrap();
        drop(first);
        HostLock::take(&options(&theirs, name())).unwrap();
    }
}
