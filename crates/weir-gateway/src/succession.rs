//! How this process takes the place of one that runs, and how another one takes this one's.

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

use crate::outlet::say;
use crate::signals::Request;
use crate::supervisor::Supervisor;

/// Between two looks for the next process, where the first fails at once.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Between two looks whether the next process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const FIRST_OF_ITS_CONTAINER: &str = "cannot upgrade: this process is PID 1 of its container, so its exit would stop the new process; start a new \
     container";

/// Listening sockets that were there before this process, and whoever accepts from them still.
pub(crate) struct Heritage {
    predecessor: Option<Predecessor>,
    taken: Vec<ListenerId>,
    pub(crate) sockets: Vec<Passed>,
    pub(crate) admin: Option<TcpListener>,
}

impl Heritage {
    /// What a process that runs with `folder`, or whoever started this one, has for the listeners of `table` and the
    /// admin server at `admin`. What nobody here wants is left alone.
    pub(crate) fn find(
        folder: Option<&Path>,
        table: &Table,
        admin: Option<SocketAddr>,
    ) -> Result<Heritage, String> {
        if let Some(folder) = folder {
            check_folder(folder).map_err(|reason| format!("--runtime-dir {}: {reason}", folder.display()))?;
        }
        let asked = folder.map(Predecessor::ask).transpose().map_err(|error| error.to_string())?;
        let mut heritage =
            Heritage { predecessor: asked.flatten(), taken: Vec::new(), sockets: Vec::new(), admin: None };
        if let Some(predecessor) = &mut heritage.predecessor {
            let wanted = table.listener_ids();
            let sockets = std::mem::take(&mut predecessor.sockets);
            heritage.sockets = sockets.into_iter().filter(|s| wanted.contains(&s.listener)).collect();
            heritage.taken = heritage.sockets.iter().map(|socket| socket.listener).collect();
            heritage.taken.dedup();
            let of_admin = predecessor.admin.take().filter(|(address, _)| Some(*address) == admin);
            heritage.admin = of_admin.map(|(_, socket)| socket);
        }
        for socket in inherited_sockets().map_err(|error| error.to_string())? {
            heritage.add_lent(socket, table, admin)?;
        }
        Ok(heritage)
    }

    /// This process serves: whoever did before accepts no more when this returns.
    pub(crate) fn follow(self) -> Result<(), String> {
        match self.predecessor {
            Some(predecessor) => predecessor.follow(&self.taken).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn add_lent(
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

/// What it takes to be followed by another process.
pub(crate) struct Succession {
    pub(crate) supervisor: Supervisor,
    folder: Option<PathBuf>,
    /// With the address that was asked for.
    admin: Option<(SocketAddr, Admin)>,
    requests: Sender<Request>,
    /// For the next process, until it serves.
    patience: Time,
    /// One that was started, and has neither served nor ended yet.
    next: Option<Arc<Mutex<Child>>>,
}

/// How the process is upgraded.
pub(crate) struct Upgrades {
    /// The runtime directory, if upgrades are possible.
    pub(crate) folder: Option<PathBuf>,
    /// Time limit for the new process to become ready.
    pub(crate) patience: Time,
}

impl Succession {
    /// Waits in `folder`, if there is one, for processes that want to follow. One that is started for it gets so much time.
    pub(crate) fn begin(
        supervisor: Supervisor,
        Upgrades { folder, patience }: Upgrades,
        admin: Option<(SocketAddr, Admin)>,
        requests: Sender<Request>,
    ) -> Result<Succession, String> {
        if let Some(folder) = &folder {
            let successors = Successors::listen(folder).map_err(|error| error.to_string())?;
            let requests = requests.clone();
            let thread = std::thread::Builder::new().name("weir-handover".to_owned());
            thread
                .spawn(move || await_successors(&successors, &requests))
                .map_err(|error| error.to_string())?;
        }
        Ok(Succession { supervisor, folder, admin, requests, patience, next: None })
    }

    /// Starts this program again, as it was started. It may be another version by now.
    pub(crate) fn start_next(&mut self) {
        let outcome = if self.folder.is_none() {
            Err("cannot upgrade: the gateway runs without --runtime-dir".to_owned())
        } else if is_first_of_its_container() {
            Err(FIRST_OF_ITS_CONTAINER.to_owned())
        } else if self.next.is_some() {
            Err("cannot upgrade: the new process is still starting".to_owned())
        } else {
            self.try_start()
                .map_err(|error| format!("cannot upgrade: the new process does not start: {error}"))
        };
        match outcome {
            Ok(next) => self.next = Some(next),
            Err(reason) => log::error!("{reason}; this process keeps serving"),
        }
    }

    /// The process that was started has ended before it served.
    pub(crate) fn next_has_ended(&mut self, status: ExitStatus) {
        self.next = None;
        log::error!("the new process exited before it was ready ({status}); this process keeps serving");
    }

    /// The process that was started does not come to serve, and would be in the way of another one for ever.
    pub(crate) fn next_is_late(&mut self) {
        if let Some(next) = &self.next {
            log::error!(
                "stopping the new process: it was not ready within {} (`--upgrade-timeout`)",
                self.patience
            );
            // One that has just ended tells so by itself.
            let _ = next.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }

    /// Leaves the sockets to the next process; false when it went away before it served.
    pub(crate) fn hand_over(&mut self, mut successor: Successor, gateway: &Gateway) -> bool {
        if is_first_of_its_container() {
            log::error!("{FIRST_OF_ITS_CONTAINER}; this process keeps serving");
            return false;
        }
        match self.offer(&mut successor, gateway) {
            Ok(taken) => {
                gateway.hand_over(&taken);
                if let Some((_, admin)) = &self.admin {
                    admin.release();
                }
                if let Some(process) = successor.process {
                    self.supervisor.followed_by(process);
                }
                let name =
                    successor.process.map_or("another process".to_owned(), |id| format!("process {id}"));
                successor.conclude();
                say(&format!("handed over to {name}"));
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
        // What was passed to this process goes over with the other sockets.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            command.env_remove(variable);
        }
        let child = Arc::new(Mutex::new(command.spawn()?));
        let (requests, patience, watched) = (self.requests.clone(), self.patience.0, Arc::clone(&child));
        let thread = std::thread::Builder::new().name("weir-next".to_owned());
        let watching = thread.spawn(move || watch_over(&watched, patience, &requests));
        if let Err(error) = watching {
            // Nobody would hear of its end.
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
            return Err(error);
        }
        Ok(child)
    }
}

/// Refuses a directory in which another user could create `handover.sock` first: the gateway would take its sockets.
fn check_folder(folder: &Path) -> Result<(), String> {
    let metadata = match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        _ => return Err("no such directory; create it first".to_owned()),
    };
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    let others = if mode & 0o022 != 0 {
        format!("its mode {mode:04o} lets other users write to it")
    } else if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
        format!("it belongs to another user (uid {owner})")
    } else {
        return Ok(());
    };
    Err(format!(
        "{others}, and they could take over the listening sockets; help: use a directory that only the gateway's user \
         may write to: `install -d -m 0700 DIR`"
    ))
}

/// Tells once when a process has had its time, and when it has ended. Nobody minds either once it has followed.
fn watch_over(child: &Mutex<Child>, patience: Duration, requests: &Sender<Request>) {
    let began = Instant::now();
    let mut is_late = false;
    loop {
        match child.lock().unwrap_or_else(PoisonError::into_inner).try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                let _ = requests.send(Request::NextHasEnded(status));
                return;
            }
            // It is no child of this process any more.
            Err(_) => return,
        }
        if !is_late && began.elapsed() >= patience {
            is_late = true;
            let _ = requests.send(Request::NextIsLate);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn await_successors(successors: &Successors, requests: &Sender<Request>) {
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

/// With the first process of a PID namespace the kernel ends all others in it.
fn is_first_of_its_container() -> bool {
    std::process::id() == 1
}
