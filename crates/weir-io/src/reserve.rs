//! A descriptor that is kept back for the time when no other is left.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{DupFlags, dup3};

/// While no descriptor is left, threads try for one in turn: else who gives his own up would not be who gets it.
static TURN: Mutex<()> = Mutex::new(());

/// One descriptor of the process's, to be given up for something that must not fail.
///
/// Without any left the kernel does not even say whether a client waits: it looks for a descriptor first. With this one
/// given up it does, and the client can be told.
#[derive(Debug, Default)]
pub struct Reserve {
    /// What the kept descriptor refers to: nothing that matters.
    anchor: Option<OwnedFd>,
    kept: RefCell<Option<OwnedFd>>,
}

impl Reserve {
    /// With a descriptor kept back, if there is one.
    pub fn new() -> Reserve {
        let reserve = Reserve { anchor: event(), kept: RefCell::new(None) };
        reserve.refill();
        reserve
    }

    /// Gives the descriptor up for `attempt`; where that makes nothing of it, it is kept back again. `None` too where
    /// it is in use already and no other is left.
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

    /// Keeps the descriptor of something that is over, in one step with its end, so that nobody else gets it between.
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

/// Tries for a descriptor after there was none.
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
    fn what_nothing_comes_of_is_kept_back() {
        let reserve = Reserve::new();
        assert_eq!(reserve.spend(|| None::<()>), None);
        assert!(is_kept(&reserve));
        assert_eq!(reserve.spend(|| Some(7)), Some(7));
        assert!(!is_kept(&reserve));
    }

    #[test]
    fn the_descriptor_of_what_is_over_is_the_next_reserve() {
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
