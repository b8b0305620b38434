//! The rig of a run: host lock, work folder, control groups, guard, and launching.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weir_results::Manifest;

use crate::cleanup::ledger::{self, Entry, Ledger};
use crate::cleanup::{MARK_VARIABLE, ProcessId};
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

/// Disk space for the files of a small cell.
const ROOM_BYTES: usize = 1 << 20;

/// Holds this host for one run. Nothing that it started or created outlives it.
#[derive(Debug)]
pub struct Rig {
    launcher: Launcher,
    networks: Networks,
    work_dir: PathBuf,
    guard: Guard,
    /// Held as long as the rig lives; the kernel releases it with the process. An agent holds none.
    _lock: Option<HostLock>,
}

/// The network namespaces of a run.
#[derive(Debug)]
struct Networks {
    /// The prefix of interface names.
    prefix: String,
    /// The owner in words.
    alias: String,
    /// Number of links so far.
    links: AtomicU32,
}

#[derive(Debug)]
struct Guard {
    child: Child,
    /// Closing it signals the guard that the lab has ended.
    stdin: Option<ChildStdin>,
}

impl Rig {
    /// Takes the host lock for the run `run_id`, after cleaning up leftovers of killed runs. `database` stores the
    /// run's cells.
    ///
    /// # Errors
    /// [`RigError::HostBusy`] if another run holds it; [`RigError::File`] or [`RigError::DiskFull`] if folders cannot
    /// be created; [`RigError::Launch`] if the guard cannot be started.
    pub fn open(run_id: &str, database: &Path) -> Result<Self, RigError> {
        Self::open_with(&RigOptions {
            database: std::path::absolute(database).ok(),
            host_name: (!ledger::is_state_dir_named()).then(|| HOST_NAME.into()),
            ..own_options(run_id)?
        })
    }

    /// A rig of an agent, which shares this host with the run or other agents, so it takes no lock. `cgroups` enables
    /// its own control groups.
    ///
    /// # Errors
    /// As [`Rig::open`], without [`RigError::HostBusy`].
    pub fn open_beside(name: &str, cgroups: bool) -> Result<Self, RigError> {
        Self::open_locked(&RigOptions { cgroups, ..own_options(name)? }, None)
    }

    /// [`Rig::open`] with options.
    ///
    /// # Errors
    /// As [`Rig::open`].
    pub fn open_with(options: &RigOptions) -> Result<Self, RigError> {
        Self::open_locked(options, Some(HostLock::take(options)?))
    }

    fn open_locked(options: &RigOptions, lock: Option<HostLock>) -> Result<Self, RigError> {
        ledger::clean_leftovers(&options.state_dir);
        let unique = unique_name(&options.run_id);
        let ledger_path = options.state_dir.join(format!("{unique}.ledger"));
        // The guard is started first, even before the ledger exists: if the rest fails, or the lab is killed, it cleans
        // up.
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
        // A rig inside a run extends the mark of that run, so that the cleanup of the run also kills its processes.
        let mark = match std::env::var(MARK_VARIABLE) {
            Ok(outer) => format!("{outer}/{unique}"),
            Err(_) => unique.clone(),
        };
        noted(&Entry::Mark(mark.clone()))?;
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
        let launcher = Launcher::start(ledger, groups, mark, work_dir.clone())?;
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

    /// Makes [`Rig::launch`] stop waiting for readiness once `stop` is set.
    pub fn give_up_on(&mut self, stop: Arc<AtomicBool>) {
        self.launcher.stop = Some(stop);
    }

    /// Gives the run CPU priority over everything else on this host, for a run whose gateways and upstreams are remote.
    /// Parts with [`ProcessSpec::is_urgent`] have priority only over their siblings. No effect without control groups.
    pub fn put_first(&self) {
        self.launcher.groups.iter().for_each(GroupParent::put_first);
    }

    /// The work folder of the run, removed with the rig.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// Checks that the work folder has space for files of parts.
    ///
    /// # Errors
    /// [`RigError::DiskFull`] if it has no space.
    pub fn check_room(&self) -> Result<(), RigError> {
        let path = self.work_dir.join("room");
        let written = fs::write(&path, vec![0; ROOM_BYTES]);
        let _ = fs::remove_file(&path);
        // The error names the folder, because the user can free space there.
        written.map_err(|error| RigError::file(&self.work_dir, error))
    }

    /// The control groups of parts, or why they get none.
    pub fn cgroups(&self) -> Result<CgroupVersion, &str> {
        self.launcher.groups.as_ref().map(|groups| groups.version).map_err(String::as_str)
    }

    /// Creates a network namespace. Its addresses are reachable over [`Rig::link`], and for the rig.
    ///
    /// # Errors
    /// [`RigError::Network`] if this user or kernel cannot.
    pub fn namespace(&self) -> Result<Namespace, RigError> {
        Namespace::make(&self.networks.prefix)
            .map_err(|error| RigError::Network { message: format!("cannot create a namespace: {error}") })
    }

    /// Creates a link between two network namespaces; returns the address of each end.
    ///
    /// # Errors
    /// [`RigError::Network`].
    pub fn link(&self, one: &Namespace, other: &Namespace) -> Result<[Ipv4Addr; 2], RigError> {
        let Networks { prefix, alias, links } = &self.networks;
        let number = links.fetch_add(1, Ordering::Relaxed);
        one.link(other, number, Label { prefix, alias })
            .map_err(|error| RigError::Network { message: format!("cannot link two namespaces: {error}") })
    }

    /// Creates a link from `one` to `other`, over which `one` reaches the address `address` that `other` already has.
    ///
    /// # Errors
    /// [`RigError::Network`].
    pub fn link_to(&self, one: &Namespace, other: &Namespace, address: Ipv4Addr) -> Result<(), RigError> {
        let [_, end] = self.link(one, other)?;
        one.route(address, end)
            .map_err(|error| RigError::Network { message: format!("cannot link two namespaces: {error}") })
    }

    /// Starts a process under its limits and waits until it is ready.
    ///
    /// # Errors
    /// [`RigError::PortTaken`], [`RigError::BinaryMissing`], [`RigError::Launch`]; after its start [`RigError::Died`],
    /// [`RigError::OutOfMemory`], [`RigError::DiskFull`], [`RigError::NeverReady`]. After an error nothing of the
    /// process is left.
    pub fn launch(&self, spec: &ProcessSpec) -> Result<Running, RigError> {
        Running::launch(&self.launcher, spec)
    }

    /// This host's facts for the manifest. Fields that the rig does not know (the command line, TLS) keep their
    /// defaults, and so do those that need a trial ([`Rig::try_limits`]).
    pub fn host_facts() -> Manifest {
        host::facts()
    }

    /// Kills the remaining processes of the run, and removes its folders and groups.
    ///
    /// # Errors
    /// If something remains; the next run on this host tries again.
    pub fn close(mut self) -> Result<(), RigError> {
        match self.clean() {
            true => Ok(()),
            false => Err(RigError::file(
                self.launcher.ledger.path(),
                io::Error::other("some of the listed processes or files remain"),
            )),
        }
    }

    /// Cleans up; returns whether nothing is left.
    fn clean(&mut self) -> bool {
        let cleaned = ledger::clean(self.launcher.ledger.path());
        // The guard would only repeat the cleanup.
        self.guard.end();
        cleaned
    }
}

impl Running {
    /// Restarts it after [`Running::crash`], under the same limits, and waits until it is ready. Does nothing if it
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
        // Its own process group, which Ctrl-C on the terminal does not reach.
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

/// Options of this program and user.
fn own_options(run_id: &str) -> Result<RigOptions, RigError> {
    let own = std::env::current_exe().map_err(|error| RigError::file("weir's own executable", error))?;
    Ok(RigOptions {
        run_id: run_id.into(),
        state_dir: ledger::state_dir().map_err(|error| RigError::file("the state folder", error))?,
        temp_dir: std::env::temp_dir(),
        guard: vec![own.display().to_string(), "guard".into(), "--ledger".into()],
        cgroups: true,
        database: None,
        host_name: None,
    })
}

/// A name that is unique on this host, across rigs and processes.
fn unique_name(run_id: &str) -> String {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let count = OPENED.fetch_add(1, Ordering::Relaxed);
    format!("{run_id}-{}-{count}", std::process::id())
}
