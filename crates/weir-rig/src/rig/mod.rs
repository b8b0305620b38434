//! A run's hold on the host: the work folder, the control groups, the guard; and launching.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_results::Manifest;

use crate::cleanup::ProcessId;
use crate::cleanup::ledger::{self, Entry, Ledger};
use crate::launch::Launcher;
use crate::limits::GroupParent;
use crate::namespace::{Label, interface_prefix};
use crate::{CgroupVersion, Namespace, ProcessSpec, RigError, Running, host};

mod lock;
mod options;
mod trial;

use lock::{HOST_NAME, HostLock};
pub use options::RigOptions;
pub use trial::{disturbance, try_limits, try_namespaces};

/// What the files of a small cell take.
const ROOM_BYTES: usize = 1 << 20;

/// The hold of one run on this host. Nothing that it started or made outlives it.
#[derive(Debug)]
pub struct Rig {
    launcher: Launcher,
    networks: Networks,
    work_dir: PathBuf,
    guard: Guard,
    /// Held as long as the rig lives; the kernel releases it with the process.
    _lock: HostLock,
}

/// The network namespaces of a run.
#[derive(Debug)]
struct Networks {
    /// The beginning of the names of its interfaces.
    prefix: String,
    /// Whose they are, in words.
    alias: String,
    /// Links laid so far.
    links: AtomicU32,
}

#[derive(Debug)]
struct Guard {
    child: Child,
    /// Closing it tells the guard that the lab has ended.
    stdin: Option<ChildStdin>,
}

impl Rig {
    /// Takes hold of this host for the run `run_id`, after cleaning up what a killed run may have left.
    /// `database` keeps the run's cells.
    ///
    /// # Errors
    /// [`RigError::HostBusy`] while another run holds it; [`RigError::File`] or [`RigError::DiskFull`] where
    /// folders cannot be made; [`RigError::Launch`] where the guard cannot be started.
    pub fn open(run_id: &str, database: &Path) -> Result<Self, RigError> {
        let state_dir = ledger::state_dir().map_err(|error| RigError::file("the state folder", error))?;
        let own = std::env::current_exe().map_err(|error| RigError::file("weir's own executable", error))?;
        Self::open_with(&RigOptions {
            run_id: run_id.into(),
            state_dir,
            temp_dir: std::env::temp_dir(),
            guard: vec![own.display().to_string(), "guard".into(), "--ledger".into()],
            cgroups: true,
            database: std::path::absolute(database).ok(),
            host_name: (!ledger::is_state_dir_named()).then(|| HOST_NAME.into()),
        })
    }

    /// [`Rig::open`] with options.
    ///
    /// # Errors
    /// As [`Rig::open`].
    pub fn open_with(options: &RigOptions) -> Result<Self, RigError> {
        let lock = HostLock::take(options)?;
        ledger::clean_leftovers(&options.state_dir);
        let unique = unique_name(&options.run_id);
        let ledger_path = options.state_dir.join(format!("{unique}.ledger"));
        // Before anything else is made, the ledger too: where the rest fails, or the lab is killed, it cleans up.
        let guard = Guard::start(&options.guard, &ledger_path)?;
        let ledger =
            Ledger::create(ledger_path.clone()).map_err(|error| RigError::file(&ledger_path, error))?;
        let noted = |entry: &Entry| ledger.add(entry).map_err(|error| RigError::file(&ledger_path, error));
        if let Some(lab) = ProcessId::of(std::process::id() as i32) {
            noted(&Entry::Lab(lab))?;
        }
        if let Some(guard) = ProcessId::of(guard.child.id() as i32) {
            noted(&Entry::Guard(guard))?;
        }
        noted(&Entry::Mark(unique.clone()))?;
        let work_dir = options.temp_dir.join(format!("{}{unique}", ledger::WORK_DIR_PREFIX));
        noted(&Entry::WorkDir(work_dir.clone()))?;
        let groups = if options.cgroups {
            GroupParent::find(&format!("weir-{unique}"))
        } else {
            Err("control groups are disabled".into())
        };
        let networks = Networks {
            prefix: interface_prefix(&unique),
            alias: format!("weir {unique}"),
            links: AtomicU32::new(0),
        };
        noted(&Entry::Interfaces(networks.prefix.clone()))?;
        if let Ok(groups) = &groups {
            noted(&Entry::Groups(groups.directories(None)))?;
        }
        let launcher = Launcher::start(ledger, groups, unique)?;
        let mut rig = Self { launcher, networks, work_dir, guard, _lock: lock };
        // From here on, dropping the rig cleans up.
        fs::create_dir_all(&rig.work_dir).map_err(|error| RigError::file(&rig.work_dir, error))?;
        if let Ok(groups) = &rig.launcher.groups
            && let Err(why) = groups.make()
        {
            rig.launcher.groups = Err(why);
        }
        Ok(rig)
    }

    /// Lets [`Rig::launch`] give up waiting for readiness once `stop` is set.
    pub fn give_up_on(&mut self, stop: Arc<AtomicBool>) {
        self.launcher.stop = Some(stop);
    }

    /// Has the run's parts come before all else that wants CPU time on this host, for a run whose gateways and upstreams
    /// are no parts of it: what is urgent comes before its siblings only, and there are none. Without control groups
    /// nothing comes of it.
    pub fn put_first(&self) {
        self.launcher.groups.iter().for_each(GroupParent::put_first);
    }

    /// A folder of the run's own, removed with the rig.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// Sees that files of parts find room in the work folder.
    ///
    /// # Errors
    /// [`RigError::DiskFull`] where they do not.
    pub fn check_room(&self) -> Result<(), RigError> {
        let path = self.work_dir.join("room");
        let written = fs::write(&path, vec![0; ROOM_BYTES]);
        let _ = fs::remove_file(&path);
        // The folder, and not this file, is what somebody can do something about.
        written.map_err(|error| RigError::file(&self.work_dir, error))
    }

    /// The control groups that parts get, or why they get none.
    pub fn cgroups(&self) -> Result<CgroupVersion, &str> {
        self.launcher.groups.as_ref().map(|groups| groups.version).map_err(String::as_str)
    }

    /// Makes a network namespace. What listens in it is reached over [`Rig::link`], and by the rig itself.
    ///
    /// # Errors
    /// [`RigError::Network`], where this user or kernel cannot.
    pub fn namespace(&self) -> Result<Namespace, RigError> {
        Namespace::make(&self.networks.prefix)
            .map_err(|error| RigError::Network { message: format!("cannot create a namespace: {error}") })
    }

    /// Lays a link between two network namespaces; gives the address of either at its end.
    ///
    /// # Errors
    /// [`RigError::Network`].
    pub fn link(&self, one: &Namespace, other: &Namespace) -> Result<[Ipv4Addr; 2], RigError> {
        let Networks { prefix, alias, links } = &self.networks;
        let number = links.fetch_add(1, Ordering::Relaxed);
        one.link(other, number, Label { prefix, alias })
            .map_err(|error| RigError::Network { message: format!("cannot link two namespaces: {error}") })
    }

    /// Starts a process under its limits and waits until it is ready.
    ///
    /// # Errors
    /// [`RigError::PortTaken`], [`RigError::BinaryMissing`], [`RigError::Launch`]; after its start
    /// [`RigError::Died`], [`RigError::OutOfMemory`], [`RigError::DiskFull`], [`RigError::NeverReady`]. Nothing
    /// of the process is left then.
    pub fn launch(&self, spec: &ProcessSpec) -> Result<Running, RigError> {
        Running::launch(&self.launcher, spec)
    }

    /// This host's facts for the manifest. Fields that the rig does not know (the command line, TLS) keep their
    /// defaults, and so do those that need a trial ([`Rig::try_limits`]).
    pub fn host_facts() -> Manifest {
        host::facts()
    }

    /// Ends whatever of the run still runs, and removes what it made.
    ///
    /// # Errors
    /// When something of it could not be ended or removed; the next run on this host tries again.
    pub fn close(mut self) -> Result<(), RigError> {
        match self.clean() {
            true => Ok(()),
            false => Err(RigError::file(
                self.launcher.ledger.path(),
                io::Error::other("some of the listed processes or files remain"),
            )),
        }
    }

    /// Whether nothing is left.
    fn clean(&mut self) -> bool {
        let cleaned = ledger::clean(self.launcher.ledger.path());
        // The guard would try the same once more.
        self.guard.end();
        cleaned
    }
}

impl Running {
    /// Starts it again after [`Running::crash`], under the same limits, and waits until it is ready. Does nothing if it
    /// runs.
    ///
    /// # Errors
    /// As [`Rig::launch`].
    pub fn start_again(&mut self, rig: &Rig) -> Result<(), RigError> {
        self.relaunch(&rig.launcher)
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
