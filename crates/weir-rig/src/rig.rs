//! A run's hold on the host: the lock, the work folder, the control groups, the guard; and launching.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::cleanup::ProcessId;
use crate::ledger::{self, Entry, Ledger};
use crate::limits::GroupParent;
use crate::spawn::Launcher;
use crate::{CgroupVersion, Holder, ProcessSpec, RigError, Running};

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
}

/// The hold of one run on this host. Nothing that it started or made outlives it.
#[derive(Debug)]
pub struct Rig {
    pub(crate) launcher: Launcher,
    pub(crate) ledger: Ledger,
    pub(crate) groups: Result<GroupParent, String>,
    work_dir: PathBuf,
    guard: Guard,
    /// Set from outside when nobody waits for the run any more.
    stop: Option<Arc<AtomicBool>>,
    /// Held as long as the rig lives; the kernel lets go of it with the process.
    _lock: File,
}

#[derive(Debug)]
struct Guard {
    child: Child,
    /// Closing it tells the guard that the lab has ended.
    stdin: Option<ChildStdin>,
}

impl Rig {
    /// Takes hold of this host for the run `run_id`, after cleaning up what a killed run may have left.
    ///
    /// # Errors
    /// [`RigError::HostBusy`] while another run holds it; [`RigError::File`] or [`RigError::DiskFull`] where
    /// folders cannot be made; [`RigError::Launch`] where the guard cannot be started.
    pub fn open(run_id: &str) -> Result<Self, RigError> {
        let state_dir = ledger::state_dir().map_err(|error| RigError::file("the state folder", error))?;
        let own = std::env::current_exe().map_err(|error| RigError::file("weir's own executable", error))?;
        Self::open_with(&RigOptions {
            run_id: run_id.into(),
            state_dir,
            temp_dir: std::env::temp_dir(),
            guard: vec![own.display().to_string(), "guard".into(), "--ledger".into()],
            cgroups: true,
        })
    }

    /// [`Rig::open`] with options.
    ///
    /// # Errors
    /// As [`Rig::open`].
    pub fn open_with(options: &RigOptions) -> Result<Self, RigError> {
        let lock = lock_host(&options.state_dir)?;
        ledger::clean_leftovers(&options.state_dir);
        let unique = unique_name(&options.run_id);
        let ledger_path = options.state_dir.join(format!("{unique}.ledger"));
        let ledger =
            Ledger::create(ledger_path.clone()).map_err(|error| RigError::file(&ledger_path, error))?;
        let noted = |entry: &Entry| ledger.add(entry).map_err(|error| RigError::file(&ledger_path, error));
        if let Some(lab) = ProcessId::of(std::process::id() as i32) {
            noted(&Entry::Lab(lab))?;
        }
        let work_dir = options.temp_dir.join(format!("{}{unique}", ledger::WORK_DIR_PREFIX));
        noted(&Entry::WorkDir(work_dir.clone()))?;
        let groups = if options.cgroups {
            GroupParent::find(&format!("weir-{unique}"))
        } else {
            Err("control groups are not wanted".into())
        };
        if let Ok(groups) = &groups {
            noted(&Entry::Groups(groups.directories(None)))?;
        }
        let guard = Guard::start(&options.guard, ledger.path())?;
        if let Some(guard) = ProcessId::of(guard.child.id() as i32) {
            noted(&Entry::Guard(guard))?;
        }
        let launcher = Launcher::start().map_err(|error| RigError::file("the launcher's thread", error))?;
        let rig = Self { launcher, ledger, groups, work_dir, guard, stop: None, _lock: lock };
        // From here on, dropping the rig cleans up.
        fs::create_dir_all(&rig.work_dir).map_err(|error| RigError::file(&rig.work_dir, error))?;
        Ok(rig)
    }

    /// Lets [`Rig::launch`] give up waiting for readiness once `stop` is set.
    pub fn give_up_on(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// A folder of the run's own, removed with the rig.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// The control groups that parts get, or why they get none.
    pub fn cgroups(&self) -> Result<CgroupVersion, &str> {
        self.groups.as_ref().map(|groups| groups.version).map_err(String::as_str)
    }

    /// Starts a process under its limits and waits until it is ready.
    ///
    /// # Errors
    /// [`RigError::PortTaken`], [`RigError::BinaryMissing`], [`RigError::Launch`]; after its start
    /// [`RigError::Died`], [`RigError::OutOfMemory`], [`RigError::DiskFull`], [`RigError::NeverReady`]. Nothing
    /// of the process is left then.
    pub fn launch(&self, spec: &ProcessSpec) -> Result<Running, RigError> {
        Running::launch(self, spec)
    }

    /// Ends whatever of the run still runs, and removes what it made.
    ///
    /// # Errors
    /// When the work folder could not be removed.
    pub fn close(mut self) -> Result<(), RigError> {
        self.clean();
        match self.work_dir.exists() {
            false => Ok(()),
            true => {
                Err(RigError::file(&self.work_dir, io::Error::other("the work folder could not be removed")))
            }
        }
    }

    fn clean(&mut self) {
        ledger::clean(self.ledger.path());
        self.guard.end();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.clean();
    }
}

impl Guard {
    fn start(command: &[String], ledger: &Path) -> Result<Self, RigError> {
        use std::os::unix::process::CommandExt;
        let failed = |message: String| RigError::Launch { part: "guard".into(), message };
        let (program, arguments) = command.split_first().ok_or_else(|| failed("it has no command".into()))?;
        // A process group of its own, so that Ctrl-C on the terminal does not reach it.
        let mut child = Command::new(program)
            .args(arguments)
            .arg(ledger)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("{program}: {error}")))?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin })
    }

    fn end(&mut self) {
        self.stdin.take();
        let _ = self.child.wait();
    }
}

/// A name that no other rig on this host has, in this process or another.
fn unique_name(run_id: &str) -> String {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let count = OPENED.fetch_add(1, Ordering::Relaxed);
    format!("{run_id}-{}-{count}", std::process::id())
}

fn lock_host(state_dir: &Path) -> Result<File, RigError> {
    let path = state_dir.join("host.lock");
    let mut lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| RigError::file(&path, error))?;
    match lock.try_lock() {
        Ok(()) => {
            let own = format!("{}\n", std::process::id());
            lock.set_len(0)
                .and_then(|()| lock.rewind())
                .and_then(|()| lock.write_all(own.as_bytes()))
                .map_err(|error| RigError::file(&path, error))?;
            Ok(lock)
        }
        Err(fs::TryLockError::WouldBlock) => Err(RigError::HostBusy { holder: lock_holder(&mut lock) }),
        Err(fs::TryLockError::Error(error)) => Err(RigError::file(&path, error)),
    }
}

fn lock_holder(lock: &mut File) -> Option<Holder> {
    let mut text = String::new();
    lock.read_to_string(&mut text).ok()?;
    let pid: u32 = text.trim().parse().ok()?;
    let name = procfs::process::Process::new(i32::try_from(pid).ok()?).ok()?.stat().ok()?.comm;
    Some(Holder { pid, name })
}
