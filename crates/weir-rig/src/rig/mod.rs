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

/// Free disk space that [`Rig::check_room`] requires, bytes: enough for the files of a small cell.
const ROOM_BYTES: usize = 1 << 20;

/// Reserves this host for one run. Dropping the rig ends every process that it started, and removes every file, cgroup
/// and namespace that it created.
#[derive(Debug)]
pub struct Rig {
    launcher: Launcher,
    networks: Networks,
    work_dir: PathBuf,
    guard: Guard,
    /// The host lock, held until the rig is dropped. `None` for the rig of an agent.
    _lock: Option<HostLock>,
}

/// Names for the network interfaces of a run.
#[derive(Debug)]
struct Networks {
    /// The prefix of the interface names of this run.
    prefix: String,
    /// The alias of each interface: `weir` and the unique run name, which `ip link` shows.
    alias: String,
    /// Number of links created so far.
    links: AtomicU32,
}

#[derive(Debug)]
struct Guard {
    child: Child,
    /// A pipe to the guard. If this process ends, the pipe closes, and the guard cleans up.
    stdin: Option<ChildStdin>,
}

impl Rig {
    /// Takes the host lock for the run `run_id`, then cleans up leftovers of killed runs. The run stores its cells in
    /// `database`. Other runs that find the host busy report this path.
    ///
    /// # Errors
    /// [`RigError::HostBusy`] if another run holds the lock; [`RigError::File`] or [`RigError::DiskFull`] if folders
    /// cannot be created; [`RigError::Launch`] if the guard cannot be started.
    pub fn open(run_id: &str, database: &Path) -> Result<Self, RigError> {
        Self::open_with(&RigOptions {
            database: std::path::absolute(database).ok(),
            host_name: (!ledger::is_state_dir_named()).then(|| HOST_NAME.into()),
            ..own_options(run_id)?
        })
    }

    /// Opens the rig of an agent. It takes no host lock, because an agent shares this host with the run or with other
    /// agents. If `cgroups` is set, it creates its own cgroups.
    ///
    /// # Errors
    /// As [`Rig::open`], without [`RigError::HostBusy`].
    pub fn open_beside(name: &str, cgroups: bool) -> Result<Self, RigError> {
        Self::open_locked(&RigOptions { cgroups, ..own_options(name)? }, None)
    }

    /// Opens a rig like [`Rig::open`], with explicit options.
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
        // Start the guard before the ledger exists: the guard then cleans up even if a later step fails or weir is
        // killed.
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
        // If weir itself runs inside another run, extend the mark of that outer run: its cleanup then also finds and
        // kills the processes of this rig.
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

    /// Gives the cgroup of the run the highest CPU weight on this host. Use it if gateways and upstreams are remote, so
    /// that only the load runs here. By contrast, [`ProcessSpec::is_urgent`] gives a part priority only over other
    /// parts of the run. No effect without cgroups.
    pub fn put_first(&self) {
        self.launcher.groups.iter().for_each(GroupParent::put_first);
    }

    /// The work folder of the run. It is removed when the rig is dropped.
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// Checks that 1 MiB can be written in the work folder, where parts store their files.
    ///
    /// # Errors
    /// [`RigError::DiskFull`] if the disk is full.
    pub fn check_room(&self) -> Result<(), RigError> {
        let path = self.work_dir.join("room");
        let written = fs::write(&path, vec![0; ROOM_BYTES]);
        let _ = fs::remove_file(&path);
        // The error names the folder, because the user can free space there. The file `room` would mean nothing to the
        // user.
        written.map_err(|error| RigError::file(&self.work_dir, error))
    }

    /// The version of the cgroups that limit parts; the error is the reason why parts get no cgroups.
    pub fn cgroups(&self) -> Result<CgroupVersion, &str> {
        self.launcher.groups.as_ref().map(|groups| groups.version).map_err(String::as_str)
    }

    /// Creates a network namespace. Other namespaces reach it only over links ([`Rig::link`]). To connect to a part in
    /// it, the rig enters the namespace.
    ///
    /// # Errors
    /// [`RigError::Network`] if this user or kernel cannot create a namespace.
    pub fn namespace(&self) -> Result<Namespace, RigError> {
        Namespace::make(&self.networks.prefix)
            .map_err(|error| RigError::Network { message: format!("cannot create a namespace: {error}") })
    }

    /// Creates a link between two network namespaces; returns the addresses of `one` and `other` on this link.
    ///
    /// # Errors
    /// [`RigError::Network`] if the link cannot be created.
    pub fn link(&self, one: &Namespace, other: &Namespace) -> Result<[Ipv4Addr; 2], RigError> {
        let Networks { prefix, alias, links } = &self.networks;
        let number = links.fetch_add(1, Ordering::Relaxed);
        one.link(other, number, Label { prefix, alias })
            .map_err(|error| RigError::Network { message: format!("cannot link two namespaces: {error}") })
    }

    /// Creates a link from `one` to `other`, and a route over it: `one` then reaches `address`, which `other` already
    /// has on another link.
    ///
    /// # Errors
    /// [`RigError::Network`] if the link or the route cannot be created.
    pub fn link_to(&self, one: &Namespace, other: &Namespace, address: Ipv4Addr) -> Result<(), RigError> {
        let [_, end] = self.link(one, other)?;
        one.route(address, end)
            .map_err(|error| RigError::Network { message: format!("cannot link two namespaces: {error}") })
    }

    /// Starts a process under its limits and waits until it is ready.
    ///
    /// # Errors
    /// Before the process starts: [`RigError::PortTaken`], [`RigError::BinaryMissing`] or [`RigError::Launch`]. While
    /// weir waits until it is ready: [`RigError::Died`], [`RigError::OutOfMemory`], [`RigError::DiskFull`] or
    /// [`RigError::NeverReady`]. After an error, the process and its children are gone.
    pub fn launch(&self, spec: &ProcessSpec) -> Result<Running, RigError> {
        Running::launch(&self.launcher, spec)
    }

    /// Facts about this host for the manifest. A field keeps its default if the rig does not know the value (the
    /// command line, TLS), or if the value needs a trial, such as [`Rig::try_limits`].
    pub fn host_facts() -> Manifest {
        host::facts()
    }

    /// Kills the remaining processes of the run, and removes its folders, cgroups and interfaces.
    ///
    /// # Errors
    /// If something remains. The next run on this host tries to remove it again.
    pub fn close(mut self) -> Result<(), RigError> {
        match self.clean() {
            true => Ok(()),
            false => Err(RigError::file(
                self.launcher.ledger.path(),
                io::Error::other(
                    "some processes or files listed in this file still exist; the next run removes them",
                ),
            )),
        }
    }

    /// Cleans up; returns whether nothing is left.
    fn clean(&mut self) -> bool {
        let cleaned = ledger::clean(self.launcher.ledger.path());
        // The cleanup is done, so the guard can exit.
        self.guard.end();
        cleaned
    }
}

impl Running {
    /// Restarts the process after [`Running::crash`] under the same limits, and waits until it is ready. Does nothing
    /// if the process still runs.
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
        // The guard gets its own process group, so that Ctrl-C on the terminal does not end it.
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

/// The default options: the state folder of this user, the system's temporary folder, and `weir guard` as guard.
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
