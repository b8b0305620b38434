//! The ledger of a run lists everything that the run starts and creates. weir writes an entry before or while it starts
//! or creates something. So if the run is killed, the cleanup finds exactly the processes and files of this run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cleanup::{self, ProcessId};
use crate::engine::daemon::Daemon;
use crate::namespace::is_interface_prefix;

/// The environment variable that sets the folder for ledgers and the host lock.
pub(crate) const STATE_DIR_VARIABLE: &str = "WEIR_STATE_DIR";

/// An empty ledger younger than this is not a leftover, because its process is about to write the first entry.
const NEW: Duration = Duration::from_secs(10);

/// One line of a ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// The process that runs the lab.
    Lab(ProcessId),
    /// The process that cleans up if the lab dies.
    Guard(ProcessId),
    /// The mark in the environment of every process of the run.
    Mark(String),
    /// The first process of a part, which leads its session.
    Process(ProcessId),
    /// The folders of a cgroup, which may not exist yet.
    Groups(Vec<PathBuf>),
    /// All containers of this engine with the label of the run `run`.
    Containers { engine: Daemon, run: String },
    /// The work folder.
    WorkDir(PathBuf),
    /// The prefix of the interface names in the run's network namespaces. No other interface has this prefix.
    Interfaces(String),
}

/// An open ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl Ledger {
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let file = Mutex::new(OpenOptions::new().create_new(true).append(true).open(&path)?);
        Ok(Self { path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }
}

/// The entries of the ledger at `path`. Skips the last line if a crash truncated it.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Kills and removes everything in the ledger at `path`, then the ledger itself. Returns whether nothing is left;
/// otherwise the ledger stays for the next attempt.
pub(crate) fn clean(path: &Path) -> bool {
    let entries = read(path);
    let leaders = entries.iter().filter_map(|entry| match entry {
        Entry::Process(leader) => Some(*leader),
        _ => None,
    });
    let mut cleaned = cleanup::kill_sessions(&leaders.collect::<Vec<_>>());
    // Containers come first, because a container engine can restart a killed process. The engine also removes the
    // cgroups of its containers.
    for (engine, run) in containers(&entries) {
        cleaned &= engine.remove_containers(run);
    }
    for entry in &entries {
        cleaned &= match entry {
            Entry::Groups(directories) => cleanup::kill_group(directories),
            Entry::Mark(mark) => cleanup::kill_marked(mark),
            // A process that left its cgroup and lost its mark is still in a namespace of the run, and keeps the
            // namespace alive.
            Entry::Interfaces(prefix) if is_interface_prefix(prefix) => cleanup::kill_in_namespaces(prefix),
            _ => true,
        }
    }
    // The ledger lists a folder before the folders below it, so remove in reverse order.
    for entry in entries.iter().rev() {
        cleaned &= match entry {
            Entry::Groups(directories) => cleanup::remove_groups(directories),
            Entry::WorkDir(directory) if is_work_dir(directory) => {
                // An agent of this run has a ledger in its folder. It was killed above, together with its guard.
                let parts = fs::read_dir(directory).into_iter().flatten().flatten();
                parts.for_each(|part| clean_leftovers(&part.path()));
                cleanup::remove_folder(directory)
            }
            _ => true,
        }
    }
    if cleaned {
        let _ = fs::remove_file(path);
    }
    cleaned
}

/// The container engines that may have containers of the run, each once.
pub(crate) fn containers(entries: &[Entry]) -> Vec<(&Daemon, &str)> {
    let mut found: Vec<(&Daemon, &str)> = Vec::new();
    for entry in entries {
        if let Entry::Containers { engine, run } = entry
            && !found.contains(&(engine, run.as_str()))
        {
            found.push((engine, run));
        }
    }
    found
}

/// Cleans up after every run in `state_dir` whose lab no longer runs.
pub(crate) fn clean_leftovers(state_dir: &Path) {
    let Ok(files) = fs::read_dir(state_dir) else { return };
    let ledgers =
        files.flatten().map(|file| file.path()).filter(|path| path.extension() == Some("ledger".as_ref()));
    for path in ledgers {
        let entries = read(&path);
        if entries.is_empty() && is_new(&path) {
            // An agent on this host is about to write its first entry.
            continue;
        }
        let alive = |wanted: fn(&Entry) -> Option<&ProcessId>| {
            entries.iter().filter_map(wanted).any(ProcessId::is_alive)
        };
        if alive(|entry| if let Entry::Lab(lab) = entry { Some(lab) } else { None }) {
            continue;
        }
        let guarded = alive(|entry| if let Entry::Guard(guard) = entry { Some(guard) } else { None });
        // If the guard of the run is alive, it is already cleaning up: wait for it first. A second cleanup is harmless.
        if !guarded || !cleanup::wait_until(|| !path.exists()) {
            clean(&path);
        }
    }
}

/// Whether the file at `path` was modified less than [`NEW`] ago.
fn is_new(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|file| file.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < NEW))
}

/// The folder for ledgers and the lock: private to the user, and the same for all runs of the user on this host.
///
/// It is not in `XDG_RUNTIME_DIR`, which is removed at logout, and not in `TMPDIR`, because runs in different terminals
/// must use the same folder.
pub(crate) fn state_dir() -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let directory = match std::env::var_os(STATE_DIR_VARIABLE) {
        Some(named) => PathBuf::from(named),
        None => Path::new("/tmp").join(format!("weir-{uid}")),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    // A ledger names processes to kill, so no other user may write it.
    if fs::metadata(&directory)?.uid() != uid {
        let message = format!(
            "{} belongs to another user; set {STATE_DIR_VARIABLE} to another folder",
            directory.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(directory)
}

/// Whether the user sets the state folder. Then the host lock only excludes other runs with the same state folder.
pub(crate) fn is_state_dir_named() -> bool {
    std::env::var_os(STATE_DIR_VARIABLE).is_some()
}

/// The prefix of every work folder; folders without it are never removed.
pub(crate) const WORK_DIR_PREFIX: &str = "weir-work-";

fn is_work_dir(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WORK_DIR_PREFIX))
}
