//! Listening sockets that whoever started this process has opened for it, as systemd does: `LISTEN_PID`, `LISTEN_FDS`.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

/// The first descriptor behind standard input, output and error.
const FIRST: RawFd = 3;

/// More would be no list of sockets.
const COUNT_MAX: RawFd = 4096;

/// They are owned from the first call on.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets, which don't block; none where there are none for this process, or where they were taken already.
///
/// # Errors
/// When one of them is no listening socket of TCP.
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

/// As a listening socket of TCP, which does not block.
///
/// # Errors
/// When it is another thing.
pub fn listening_socket(socket: OwnedFd) -> io::Result<TcpListener> {
    let no_listener = || io::Error::new(io::ErrorKind::InvalidInput, "it is no listening socket of TCP");
    if !socket_acceptconn(&socket).is_ok_and(|listens| listens) {
        return Err(no_listener());
    }
    let listener = TcpListener::from(socket);
    // One of another family has no address of IP.
    listener.local_addr().map_err(|_| no_listener())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// How many there are, if they are for this process: the variables reach its children, too.
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
    // SAFETY: to ask for the flags of a number that is no descriptor is an error, and nothing else.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(wrong("it is not open".to_owned()));
    }
    // SAFETY: it is open, and was opened for this process before it began, so nothing in it owns the descriptor;
    // `TAKEN` sees to it that it is owned once.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs that are started from here have no part in it.
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
    fn sockets_of_others_are_left_alone() {
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
    fn what_does_not_listen_is_refused() {
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
