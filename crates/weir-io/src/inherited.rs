//! Listening sockets that the parent process passes with `LISTEN_PID` and `LISTEN_FDS` (systemd socket activation).
#![allow(unsafe_code)]

use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

/// The first descriptor after standard input, standard output and standard error.
const FIRST: RawFd = 3;

/// Maximum number of sockets. A higher number in `LISTEN_FDS` is treated as invalid.
const COUNT_MAX: RawFd = 4096;

/// Whether the descriptors were taken already. Only the first call of [`inherited_sockets`] owns them.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns the inherited sockets, in non-blocking mode. Returns none if no sockets were passed to this process, and
/// from the second call on.
///
/// # Errors
/// If an inherited descriptor is not a listening TCP socket.
pub fn inherited_sockets() -> io::Result<Vec<TcpListener>> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(count) = count_for(std::process::id(), variable("LISTEN_PID"), variable("LISTEN_FDS")) else {
        return Ok(Vec::new());
    };
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(take).collect()
}

/// Converts a descriptor to a listening TCP socket in non-blocking mode.
///
/// # Errors
/// If the descriptor is not a listening TCP socket.
pub fn listening_socket(socket: OwnedFd) -> io::Result<TcpListener> {
    let no_listener = || io::Error::new(io::ErrorKind::InvalidInput, "not a listening TCP socket");
    if !socket_acceptconn(&socket).is_ok_and(|listens| listens) {
        return Err(no_listener());
    }
    let listener = TcpListener::from(socket);
    // A socket of another address family has no IP address.
    listener.local_addr().map_err(|_| no_listener())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Returns the number of sockets that were passed to this process. `listen_pid` must equal `process`, because child
/// processes also inherit the variables `LISTEN_PID` and `LISTEN_FDS`.
fn count_for(process: u32, listen_pid: Option<String>, listen_fds: Option<String>) -> Option<RawFd> {
    let is_for_us = listen_pid?.parse() == Ok(process);
    let count: RawFd = listen_fds?.parse().ok()?;
    (is_for_us && (1..=COUNT_MAX).contains(&count)).then_some(count)
}

fn take(descriptor: RawFd) -> io::Result<TcpListener> {
    let wrong = |what: String| {
        let message = format!("descriptor {descriptor} of LISTEN_FDS: {what}");
        io::Error::new(io::ErrorKind::InvalidInput, message)
    };
    // SAFETY: `F_GETFD` on a number that is not a descriptor only returns an error.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(wrong("not open".to_owned()));
    }
    // SAFETY: the descriptor is open. It was opened before this process started, so nothing in this process owns it.
    // `TAKEN` ensures that it is owned only once.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // The descriptor must not be inherited by child processes.
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    listening_socket(socket).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn check(listen_pid: Option<&str>, listen_fds: Option<&str>, expected: Option<RawFd>) {
        assert_eq!(count_for(7, listen_pid.map(str::to_owned), listen_fds.map(str::to_owned)), expected);
    }

    #[test]
    fn sockets_of_other_processes_are_ignored() {
        check(None, None, None);
        check(Some("7"), None, None);
        check(None, Some("2"), None);
        check(Some("8"), Some("2"), None);
        check(Some("7"), Some("2"), Some(2));
        check(Some("7"), Some("0"), None);
        check(Some("7"), Some("-1"), None);
        check(Some("7"), Some("two"), None);
        check(Some("7"), Some("5000"), None);
    }

    #[test]
    fn sockets_that_do_not_listen_are_rejected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listening_socket(OwnedFd::from(stream)).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(listening_socket(OwnedFd::from(file)).is_err());
        let address = listener.local_addr().unwrap();
        let same = listening_socket(OwnedFd::from(listener)).unwrap();
        assert_eq!(same.local_addr().unwrap(), address);
    }
}
