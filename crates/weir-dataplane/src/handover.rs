//! Listening sockets go from one process to the next, through a socket in a folder that both know.
//!
//! ```text
//! next                                    running
//!  |-- weir-gateway handover 1 ------------> |
//!  | <-- listener ADDRESS#TURN own (fd) ---- |   copies of all listening sockets; both accept from them
//!  | <-- admin ADDRESS (fd) ---------------- |
//!  | <-- end ------------------------------- |
//!  |-- taken ADDRESS#TURN -----------------> |   for each listener that it has, too
//!  |-- ready ------------------------------> |   it serves: the running one stops accepting, and drains
//!  | <-- over ------------------------------ |
//! ```
//! A process that goes away before it was ready has changed nothing.

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

/// The socket in the folder.
const NAME: &str = "handover.sock";

/// What the next process says first. Another form of what follows gets another number.
const GREETING: &str = "weir-gateway handover 1";

/// For each thing that the other process is to say. It has read its configuration before.
const PATIENCE: Duration = Duration::from_secs(20);

/// More than any line has.
const LINE_BYTES_MAX: usize = 4096;

/// Why sockets did not go over.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The environment's fault.
    #[error("cannot use the socket `{path}` in --runtime-dir: {error}")]
    Folder {
        /// The socket in the folder.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// The environment's fault.
    #[error("cannot copy a listening socket: {0}")]
    Copy(io::Error),
    /// The other process went away, or said nothing for long.
    #[error("lost contact with the other process: {0}")]
    Lost(io::Error),
    /// The other process is another user's, or speaks otherwise.
    #[error("unexpected peer in --runtime-dir: {0}")]
    Foreign(String),
}

/// What the next process sees of the one that runs.
#[derive(Debug)]
pub struct Predecessor {
    line: Line,
    /// Copies of its listening sockets.
    pub sockets: Vec<Passed>,
    /// Its admin server's, with the address that was asked for.
    pub admin: Option<(SocketAddr, TcpListener)>,
}

/// Where a running process waits for the next.
#[derive(Debug)]
pub struct Successors(UnixListener);

/// What the running process sees of the next.
#[derive(Debug)]
pub struct Successor {
    line: Line,
    /// Its process; `None` where this one can't see it.
    pub process: Option<i32>,
}

/// A conversation in lines, some of which come with a descriptor.
#[derive(Debug)]
struct Line {
    stream: UnixStream,
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Predecessor {
    /// Asks whoever runs with this folder for its sockets; `None` where nobody does.
    ///
    /// # Errors
    /// When there is somebody, and it does not hand them over.
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

    /// Says that this process serves, with these of the listeners; returns when the other one accepts no more.
    ///
    /// # Errors
    /// When the other one went away, or was not heard of again. It may then still accept, or not.
    pub fn follow(mut self, taken: &[ListenerId]) -> Result<(), HandoverError> {
        for listener in taken {
            self.line.say(&format!("taken {listener}"))?;
        }
        self.line.say("ready")?;
        match self.line.hear()?.as_str() {
            "over" => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Whether there may be more.
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
    /// Waits in `folder` from here on, in place of whoever waited there before.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn listen(folder: &Path) -> Result<Successors, HandoverError> {
        let path = folder.join(NAME);
        let made = || {
            let own = folder.join(format!("{NAME}.{}", std::process::id()));
            remove_if_there(&own)?;
            let listener = UnixListener::bind(&own)?;
            // Whoever may connect may have the sockets.
            std::fs::set_permissions(&own, Permissions::from_mode(0o600))?;
            // In one step, so that the next process finds either the former or this one.
            std::fs::rename(&own, &path)?;
            Ok(listener)
        };
        made()
            .map(Successors)
            .map_err(|error| HandoverError::Folder { path: path.display().to_string(), error })
    }

    /// The next process that asks.
    ///
    /// # Errors
    /// When it is none of ours, or went away.
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
    /// Hands copies of the sockets over, and waits until the other process serves; which listeners it has taken.
    ///
    /// # Errors
    /// When it went away before, or said nothing for long: it has taken nothing then.
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

    /// Says that this process accepts no more. The other one serves, whether it hears that or not.
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

    /// The next line.
    fn hear(&mut self) -> Result<String, HandoverError> {
        loop {
            if let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.bytes.len() > LINE_BYTES_MAX {
                return Err(HandoverError::Foreign("the message is too long".to_owned()));
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

    /// The socket that came with the last line, which has to be bound to `address`; any port does for port 0.
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

/// Refuses a process of another user, but for root's: sockets of a stranger would let it read what clients send, and
/// a stranger with these sockets could serve them.
fn check_user(user: u32, act: &str) -> Result<(), HandoverError> {
    if [0, geteuid().as_raw()].contains(&user) {
        return Ok(());
    }
    let message = format!("the process runs as user {user}, which may not {act} the sockets");
    Err(HandoverError::Foreign(message))
}

fn unexpected(said: &str) -> HandoverError {
    HandoverError::Foreign(format!(
        "unknown message `{}`; perhaps its version is not compatible",
        said.escape_debug()
    ))
}

/// Nobody has the folder, or whoever had it is no more.
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
