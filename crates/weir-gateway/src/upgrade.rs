//! Upgrade without downtime: this process takes over the sockets of an old process, and hands them to a new one.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_config::{ListenerId, Table};
use weir_dataplane::{Admin, Gateway, HandoverError, Passed, Predecessor, Successor, Successors};
use weir_document::Time;
use weir_io::inherited_sockets;

use crate::outlet::print_and_log;
use crate::signals::Request;
use crate::supervisor::Supervisor;

/// Delay after a failed handover, before the next process is accepted.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Interval between checks whether the new process has exited.
const EXIT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

const PID_1_OF_CONTAINER: &str = "cannot upgrade: this process is PID 1 of its container, so its exit would stop \
     the new process; start a new container";

/// Listening sockets that were open before this process started, and the old process that still accepts from them, if
/// there is one.
pub(crate) struct InheritedSockets {
    predecessor: Option<Predecessor>,
    taken: Vec<ListenerId>,
    pub(crate) sockets: Vec<Passed>,
    pub(crate) admin: Option<TcpListener>,
}

impl InheritedSockets {
    /// Collects sockets for the listeners of `table` and for the admin server at `admin`: from the process that serves
    /// the handover socket in `folder`, or from `LISTEN_FDS`. Leaves sockets for other listeners untouched.
    pub(crate) fn find(
        folder: Option<&Path>,
        table: &Table,
        admin: Option<SocketAddr>,
    ) -> Result<InheritedSockets, String> {
        if let Some(folder) = folder {
            check_folder(folder).map_err(|reason| format!("--runtime-dir {}: {reason}", folder.display()))?;
        }
        let asked = folder.map(Predecessor::ask).transpose().map_err(|error| error.to_string())?;
        let mut inherited = InheritedSockets {
            predecessor: asked.flatten(),
            taken: Vec::new(),
            sockets: Vec::new(),
            admin: None,
        };
        if let Some(predecessor) = &mut inherited.predecessor {
            let wanted = table.listener_ids();
            let sockets = std::mem::take(&mut predecessor.sockets);
            inherited.sockets = sockets.into_iter().filter(|s| wanted.contains(&s.listener)).collect();
            inherited.taken = inherited.sockets.iter().map(|socket| socket.listener).collect();
            inherited.taken.dedup();
            let of_admin = predecessor.admin.take().filter(|(address, _)| Some(*address) == admin);
            inherited.admin = of_admin.map(|(_, socket)| socket);
        }
        for socket in inherited_sockets().map_err(|error| error.to_string())? {
            inherited.add_from_systemd(socket, table, admin)?;
        }
        Ok(inherited)
    }

    /// If there is an old process, reports to it that this process serves. When this returns, the old process no longer
    /// accepts clients.
    pub(crate) fn take_over(self) -> Result<(), String> {
        match self.predecessor {
            Some(predecessor) => predecessor.announce_ready(&self.taken).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn add_from_systemd(
        &mut self,
        socket: TcpListener,
        table: &Table,
        admin: Option<SocketAddr>,
    ) -> Result<(), String> {
        let address = socket.local_addr().map_err(|error| error.to_string())?;
        let listener = ListenerId::from(address);
        if table.listener_ids().contains(&listener) {
            self.sockets.push(Passed { listener, socket, is_lent: true });
        } else if admin == Some(address) {
            self.admin = Some(socket);
        } else {
            log::warn!(
                "LISTEN_FDS has a socket for `{address}`, but no listener has this address; help: use the address of \
                 the socket unit in `listeners`"
            );
        }
        Ok(())
    }
}

/// Hands over the sockets of this process during an upgrade.
pub(crate) struct Upgrader {
    pub(crate) supervisor: Supervisor,
    folder: Option<PathBuf>,
    /// The admin server with its configured address.
    admin: Option<(SocketAddr, Admin)>,
    requests: Sender<Request>,
    /// Time limit for the new process to become ready.
    timeout: Time,
    /// The process that SIGUSR2 started, until it is ready or exits.
    new_process: Option<Arc<Mutex<Child>>>,
}

/// Options of upgrades.
pub(crate) struct UpgradeOptions {
    /// The runtime directory, if upgrades are possible.
    pub(crate) folder: Option<PathBuf>,
    /// Time limit for the new process to become ready.
    pub(crate) timeout: Time,
}

impl Upgrader {
    /// Accepts handover requests in `options.folder`, if set.
    pub(crate) fn begin(
        supervisor: Supervisor,
        options: UpgradeOptions,
        admin: Option<(SocketAddr, Admin)>,
        requests: Sender<Request>,
    ) -> Result<Upgrader, String> {
        let UpgradeOptions { folder, timeout } = options;
        if let Some(folder) = &folder {
            let successors = Successors::listen(folder).map_err(|error| error.to_string())?;
            let requests = requests.clone();
            let thread = std::thread::Builder::new().name("weir-handover".to_owned());
            thread
                .spawn(move || accept_successors(&successors, &requests))
                .map_err(|error| error.to_string())?;
        }
        Ok(Upgrader { supervisor, folder, admin, requests, timeout, new_process: None })
    }

    /// Starts the new process: the same program path and arguments, perhaps another version.
    pub(crate) fn start_new_process(&mut self) {
        let outcome = if self.folder.is_none() {
            Err("cannot upgrade: the gateway runs without --runtime-dir".to_owned())
        } else if is_pid_1() {
            Err(PID_1_OF_CONTAINER.to_owned())
        } else if self.new_process.is_some() {
            Err("cannot upgrade: the new process is still starting".to_owned())
        } else {
            self.try_start().map_err(|error| format!("cannot upgrade: cannot start the new process: {error}"))
        };
        match outcome {
            Ok(started) => self.new_process = Some(started),
            Err(reason) => log::error!("{reason}; this process keeps serving"),
        }
    }

    /// Logs that the new process exited before it was ready.
    pub(crate) fn new_process_exited(&mut self, status: ExitStatus) {
        self.new_process = None;
        log::error!("the new process exited before it was ready ({status}); this process keeps serving");
    }

    /// Stops a new process that is not ready in time, because it would block further upgrades.
    pub(crate) fn new_process_timed_out(&mut self) {
        if let Some(process) = &self.new_process {
            log::error!(
                "stopping the new process: it was not ready within {} (`--upgrade-timeout`)",
                self.timeout
            );
            // An error can be ignored: the process has just exited, and `watch_over` reports that.
            let _ = process.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }

    /// Hands the sockets to the new process. Returns false if this fails; then this process keeps serving.
    pub(crate) fn hand_over(&mut self, mut successor: Successor, gateway: &Gateway) -> bool {
        if is_pid_1() {
            log::error!("{PID_1_OF_CONTAINER}; this process keeps serving");
            return false;
        }
        match self.offer(&mut successor, gateway) {
            Ok(taken) => {
                gateway.hand_over(&taken);
                if let Some((_, admin)) = &self.admin {
                    admin.release();
                }
                if let Some(process) = successor.process {
                    self.supervisor.handed_over_to(process);
                }
                let name =
                    successor.process.map_or("another process".to_owned(), |id| format!("process {id}"));
                successor.conclude();
                print_and_log(&format!("sockets handed over to {name}"));
                true
            }
            Err(error) => {
                log::error!("cannot hand over the sockets: {error}; this process keeps serving");
                false
            }
        }
    }

    fn offer(&self, successor: &mut Successor, gateway: &Gateway) -> Result<Vec<ListenerId>, HandoverError> {
        let sockets = gateway.sockets().map_err(HandoverError::Copy)?;
        let admin = match &self.admin {
            Some((address, admin)) => {
                admin.socket().map_err(HandoverError::Copy)?.map(|socket| (*address, socket))
            }
            None => None,
        };
        successor.offer(&sockets, admin.as_ref().map(|(address, socket)| (*address, socket)))
    }

    fn try_start(&self) -> std::io::Result<Arc<Mutex<Child>>> {
        let mut words = std::env::args_os();
        let program = words.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(words);
        // The handover includes sockets that came from `LISTEN_FDS`, so the new process must not take them again.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            command.env_remove(variable);
        }
        let child = Arc::new(Mutex::new(command.spawn()?));
        let (requests, timeout, watched) = (self.requests.clone(), self.timeout.0, Arc::clone(&child));
        let thread = std::thread::Builder::new().name("weir-next".to_owned());
        let watching = thread.spawn(move || watch_over(&watched, timeout, &requests));
        if let Err(error) = watching {
            // The thread that reports the exit of the new process could not be started, so kill the new process.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
            return Err(error);
        }
        Ok(child)
    }
}

/// Rejects a directory that other users can write to: they could create `handover.sock` first and get the sockets.
fn check_folder(folder: &Path) -> Result<(), String> {
    let metadata = match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        _ => return Err("no such directory; create it first".to_owned()),
    };
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    let others = if mode & 0o022 != 0 {
        format!("other users can write to this directory (mode {mode:04o})")
    } else if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
        format!("another user (uid {owner}) owns this directory")
    } else {
        return Ok(());
    };
    Err(format!(
        "{others} and could take over the listening sockets; help: use a directory that only the gateway's user \
         may write to: `install -d -m 0700 DIR`"
    ))
}

/// Notifies the main thread when the new process has run for `timeout`, and when it exits. After a handover, the main
/// thread ignores these notifications.
fn watch_over(child: &Mutex<Child>, timeout: Duration, requests: &Sender<Request>) {
    let began = Instant::now();
    let mut is_late = false;
    loop {
        match child.lock().unwrap_or_else(PoisonError::into_inner).try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                let _ = requests.send(Request::NewProcessExited(status));
                return;
            }
            // The new process is no longer a child of this process.
            Err(_) => return,
        }
        if !is_late && began.elapsed() >= timeout {
            is_late = true;
            let _ = requests.send(Request::NewProcessTimedOut);
        }
        std::thread::sleep(EXIT_CHECK_INTERVAL);
    }
}

fn accept_successors(successors: &Successors, requests: &Sender<Request>) {
    loop {
        match successors.accept() {
            Ok(successor) => {
                if requests.send(Request::HandOver(successor)).is_err() {
                    return;
                }
            }
            Err(error) => {
                log::error!("cannot hand over the sockets: {error}");
                std::thread::sleep(RETRY_AFTER);
            }
        }
    }
}

/// Whether this process is PID 1 of its PID namespace. When PID 1 exits, the kernel stops all processes of the
/// namespace.
fn is_pid_1() -> bool {
    std::process::id() == 1
}
