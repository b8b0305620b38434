//! Hands listening sockets from one process to the next, through a Unix socket in a folder that both use.
//!
//! ```text
//! next                                    running
//!  |-- weir-gateway handover 1 ------------> |
//!  | <-- listener ADDRESS#TURN own (fd) ---- |   copies of all listening sockets; both accept from them
//!  | <-- admin ADDRESS (fd) ---------------- |
//!  | <-- end ------------------------------- |
//!  |-- taken ADDRESS#TURN -----------------> |   for each listener that both have
//!  |-- ready ------------------------------> |   next serves; running stops accepting, and drains
//!  | <-- over ------------------------------ |
//! ```
//! If the new process exits before `ready`, nothing changes.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use weir_config::ListenerId;
use weir_io::{Peer, listening_socket, receive_descriptors, send_descriptor};

use crate::sockets::Passed;

/// The name of the handover socket in the folder.
const NAME: &str = "handover.sock";

/// The first line that the new process sends. The number is the version of the protocol.
const GREETING: &str = "weir-gateway handover 1";

/// Time limit for each message from the other process. That process reads its configuration before it connects, so it
/// responds quickly.
const PATIENCE: Duration = Duration::from_secs(20);

/// Maximum length of a line in bytes. Every valid line is shorter.
const LINE_BYTES_MAX: usize = 4096;

/// Why the sockets were not handed over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// Environment error.
    #[error("cannot use the socket `{path}` in --runtime-dir: {error}")]
    Folder {
        /// The path of the handover socket.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// Environment error.
    #[error("cannot copy a listening socket: {0}")]
    Copy(io::Error),
    /// The other process disconnected, or a message timed out.
    #[error("lost contact with the other gateway process: {0}")]
    Lost(io::Error),
    /// The other process belongs to another user, or uses another protocol.
    #[error("unexpected process at the socket in --runtime-dir: {0}")]
    Foreign(String),
}

/// The new process's connection to the running process, with copies of the sockets.
#[derive(Debug)]
pub struct Predecessor {
    line: Line,
    /// Copies of the running process's listening sockets.
    pub sockets: Vec<Passed>,
    /// A copy of the running process's admin socket, with the configured address.
    pub admin: Option<(SocketAddr, TcpListener)>,
}

/// Accepts new processes that ask for the sockets.
#[derive(Debug)]
pub struct Successors(UnixListener);

/// A connection of the running process to the new process, which receives copies of the sockets.
#[derive(Debug)]
pub struct Successor {
    line: Line,
    /// The new process's id; `None` if it is in a PID namespace that this process can't see.
    pub process: Option<i32>,
}

/// A connection between the two processes. It carries lines, some with a file descriptor.
#[derive(Debug)]
struct Line {
    stream: UnixStream,
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Predecessor {
    /// Asks the process that serves the handover socket in this folder for its listening sockets. `None` if no process
    /// serves it.
    ///
    /// # Errors
    /// If a process serves the handover socket, but does not hand over its listening sockets.
    pub fn ask(folder: &Path) -> Result<Option<Predecessor>, HandoverError> {
        let path = folder.join(NAME);
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) if is_nobody(&error) => return Ok(None),
            Err(error) => return Err(HandoverError::Folder { path: path.display().to_string(), error }),
        };
        check_user(peer_of(&stream)?.user, "hand over")?;
        let mut line = Line::over(stream)?;
        line.say(GREETING)?;
        let mut predecessor = Predecessor { line, sockets: Vec::new(), admin: None };
        while predecessor.take_one()? {}
        Ok(Some(predecessor))
    }

    /// Reports to the other process that this process serves clients, and which listeners it has taken. Returns once
    /// the other process no longer accepts clients.
    ///
    /// # Errors
    /// If the other process disconnects or does not respond. It is then unknown whether the other process still accepts
    /// clients.
    pub fn announce_ready(mut self, taken: &[ListenerId]) -> Result<(), HandoverError> {
        for listener in taken {
            self.line.say(&format!("taken {listener}"))?;
        }
        self.line.say("ready")?;
        match self.line.hear()?.as_str() {
            "over" => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Receives one message. Returns whether more may follow.
    fn take_one(&mut self) -> Result<bool, HandoverError> {
        let said = self.line.hear()?;
        let words: Vec<&str> = said.split(' ').collect();
        match words[..] {
            ["end"] => return Ok(false),
            ["listener", listener, owner @ ("own" | "lent")] => {
                let listener: ListenerId = listener.parse().map_err(HandoverError::Foreign)?;
                let (socket, is_lent) = (self.line.socket_at(listener.address)?, owner == "lent");
                self.sockets.push(Passed { listener, socket, is_lent });
            }
            ["admin", address] => {
                let address = address.parse().map_err(|_| unexpected(&said))?;
                self.admin = Some((address, self.line.socket_at(address)?));
            }
            _ => return Err(unexpected(&said)),
        }
        Ok(true)
    }
}

impl Successors {
    /// Creates the handover socket in `folder`. From here on, new processes reach this process instead of an earlier
    /// one.
    ///
    /// # Errors
    /// If the socket can't be created.
    pub fn listen(folder: &Path) -> Result<Successors, HandoverError> {
        let path = folder.join(NAME);
        let made = || {
            let own = folder.join(format!("{NAME}.{}", std::process::id()));
            remove_if_there(&own)?;
            let listener = UnixListener::bind(&own)?;
            // Whoever can connect gets the listening sockets.
            std::fs::set_permissions(&own, Permissions::from_mode(0o600))?;
            // Rename is atomic, so the next process finds either the former socket or this one.
            std::fs::rename(&own, &path)?;
            Ok(listener)
        };
        made()
            .map(Successors)
            .map_err(|error| HandoverError::Folder { path: path.display().to_string(), error })
    }

    /// Waits for the next process.
    ///
    /// # Errors
    /// If the next process belongs to another user, or disconnects.
    pub fn accept(&self) -> Result<Successor, HandoverError> {
        let (stream, _) = self.0.accept().map_err(HandoverError::Lost)?;
        let peer = peer_of(&stream)?;
        check_user(peer.user, "take over")?;
        let mut line = Line::over(stream)?;
        match line.hear()?.as_str() {
            GREETING => Ok(Successor { line, process: peer.process }),
            other => Err(unexpected(other)),
        }
    }
}

impl Successor {
    /// Hands over copies of the sockets and waits until the other process serves clients. Returns the listeners that
    /// the other process has taken.
    ///
    /// # Errors
    /// If the other process disconnects or times out before it serves clients. It has then taken no listener.
    pub fn offer(
        &mut self,
        sockets: &[Passed],
        admin: Option<(SocketAddr, &TcpListener)>,
    ) -> Result<Vec<ListenerId>, HandoverError> {
        for Passed { listener, socket, is_lent } in sockets {
            let owner = if *is_lent { "lent" } else { "own" };
            self.line.say_with(&format!("listener {listener} {owner}"), socket)?;
        }
        if let Some((address, socket)) = admin {
            self.line.say_with(&format!("admin {address}"), socket)?;
        }
        self.line.say("end")?;
        let mut taken = Vec::new();
        loop {
            let said = self.line.hear()?;
            match said.split_once(' ') {
                None if said == "ready" => return Ok(taken),
                Some(("taken", listener)) => taken.push(listener.parse().map_err(HandoverError::Foreign)?),
                _ => return Err(unexpected(&said)),
            }
        }
    }

    /// Reports that this process no longer accepts clients. If this message is lost, the other process serves clients
    /// anyway.
    pub fn conclude(mut self) {
        let _ = self.line.say("over");
    }
}

impl Line {
    fn over(stream: UnixStream) -> Result<Line, HandoverError> {
        let limited =
            stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        limited.map_err(HandoverError::Lost)?;
        Ok(Line { stream, bytes: Vec::new(), descriptors: VecDeque::new() })
    }

    fn say(&mut self, text: &str) -> Result<(), HandoverError> {
        self.stream.write_all(format!("{text}\n").as_bytes()).map_err(HandoverError::Lost)
    }

    fn say_with(&mut self, text: &str, socket: &TcpListener) -> Result<(), HandoverError> {
        let text = format!("{text}\n");
        send_descriptor(&self.stream, text.as_bytes(), socket.as_fd()).map_err(HandoverError::Lost)
    }

    /// Receives the next line.
    fn hear(&mut self) -> Result<String, HandoverError> {
        loop {
            if let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.bytes.len() > LINE_BYTES_MAX {
                return Err(HandoverError::Foreign(
                    "the other process sent a message that is too long".to_owned(),
                ));
            }
            let mut descriptors = Vec::new();
            match receive_descriptors(&self.stream, &mut self.bytes, &mut descriptors) {
                Ok(0) => return Err(HandoverError::Lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => self.descriptors.extend(descriptors),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(HandoverError::Lost(error)),
            }
        }
    }

    /// The socket that came with the last line. It must be bound to `address`; port 0 matches any port.
    fn socket_at(&mut self, address: SocketAddr) -> Result<TcpListener, HandoverError> {
        let socket = self.socket()?;
        let bound = socket.local_addr().map_err(|error| HandoverError::Foreign(error.to_string()))?;
        if bound.ip() != address.ip() || ![0, bound.port()].contains(&address.port()) {
            let message = format!("the socket for `{address}` is bound to `{bound}`");
            return Err(HandoverError::Foreign(message));
        }
        Ok(socket)
    }

    fn socket(&mut self) -> Result<TcpListener, HandoverError> {
        let missing = || HandoverError::Foreign("a message arrived without its socket".to_owned());
        let descriptor = self.descriptors.pop_front().ok_or_else(missing)?;
        listening_socket(descriptor).map_err(|error| HandoverError::Foreign(error.to_string()))
    }
}

fn peer_of(stream: &UnixStream) -> Result<Peer, HandoverError> {
    Peer::of(stream).map_err(HandoverError::Lost)
}

/// Rejects a process that runs as another user, unless that user is root. Both processes can accept clients from the
/// sockets, so the other user could read client traffic.
fn check_user(user: u32, act: &str) -> Result<(), HandoverError> {
    if [0, geteuid().as_raw()].contains(&user) {
        return Ok(());
    }
    let message = format!("the other process runs as user {user}, who may not {act} the sockets");
    Err(HandoverError::Foreign(message))
}

fn unexpected(said: &str) -> HandoverError {
    HandoverError::Foreign(format!(
        "unknown message `{}`; perhaps the other process has an incompatible version",
        said.escape_debug()
    ))
}

/// Whether this connection error means that no process serves the handover socket: it does not exist, or nothing
/// listens on it.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn remove_if_there(path: &PathBuf) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
