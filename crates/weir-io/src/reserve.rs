//! Reserves a file descriptor for use when the process has no other free one.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{DupFlags, dup3};

/// Held while a thread uses a reserved descriptor. Otherwise another thread could take the descriptor while it is free.
static TURN: Mutex<()> = Mutex::new(());

/// A reserved file descriptor. It can be released for an operation that must not fail.
///
/// Without a free descriptor, `accept` fails even if a client waits in the queue. With the reserve, the caller can
/// accept the client, send it an error, and close the connection.
#[derive(Debug, Default)]
pub struct Reserve {
    /// The file that the reserved descriptor refers to. Any kind of file works.
    anchor: Option<OwnedFd>,
    kept: RefCell<Option<OwnedFd>>,
}

impl Reserve {
    /// Creates a reserve. It is empty if no descriptor is free.
    pub fn new() -> Reserve {
        let reserve = Reserve { anchor: event(), kept: RefCell::new(None) };
        reserve.refill();
        reserve
    }

    /// Releases the reserved descriptor, and runs `attempt`. If `attempt` returns `None`, reserves a descriptor again.
    /// If the reserve is empty and no other descriptor is free, returns `None` without running `attempt`.
    pub fn spend<T>(&self, attempt: impl FnOnce() -> Option<T>) -> Option<T> {
        try_in_turn(|| {
            self.refill();
            self.kept.take()?;
            attempt().or_else(|| {
                self.refill();
                None
            })
        })
    }

    /// Closes the file behind `over`, and keeps its descriptor as the reserve. This is one system call, so no other
    /// thread can take the descriptor in between.
    pub fn take_back(&self, mut over: OwnedFd) {
        let mut kept = self.kept.borrow_mut();
        if let (None, Some(anchor)) = (&*kept, &self.anchor)
            && dup3(anchor, &mut over, DupFlags::CLOEXEC).is_ok()
        {
            *kept = Some(over);
        }
    }

    fn refill(&self) {
        let mut kept = self.kept.borrow_mut();
        if kept.is_none() {
            *kept = event();
        }
    }
}

/// Runs `attempt`, in one thread at a time. Use it to retry operations that failed because no descriptor was left.
pub fn try_in_turn<T>(attempt: impl FnOnce() -> T) -> T {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    attempt()
}

fn event() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn is_kept(reserve: &Reserve) -> bool {
        reserve.kept.borrow().is_some()
    }

    #[test]
    fn a_failed_attempt_restores_the_reserve() {
        let reserve = Reserve::new();
        assert_eq!(reserve.spend(|| None::<()>), None);
        assert!(is_kept(&reserve));
        assert_eq!(reserve.spend(|| Some(7)), Some(7));
        assert!(!is_kept(&reserve));
    }

    #[test]
    fn a_closed_descriptor_becomes_the_reserve() {
        let reserve = Reserve::new();
        let stream = reserve.spend(|| std::os::unix::net::UnixStream::pair().ok());
        let (over, other) = stream.unwrap();
        let number = over.as_raw_fd();
        reserve.take_back(over.into());
        assert_eq!(reserve.kept.borrow().as_ref().map(|kept| kept.as_raw_fd()), Some(number));
        let read = std::io::Read::read(&mut &other, &mut [0]);
        assert_eq!(read.unwrap(), 0, "it has ended");
        reserve.take_back(other.into());
        assert_eq!(reserve.kept.borrow().as_ref().map(|kept| kept.as_raw_fd()), Some(number));
    }
}
