//! A descriptor that is kept back for the time when no other is left.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};

/// One descriptor of the process's, to be given up for something that must not fail.
///
/// Without any left the kernel does not even say whether a client waits: it looks for a descriptor first. With this one
/// given up it does, and the client can be told.
#[derive(Debug)]
pub struct Reserve(RefCell<Option<OwnedFd>>);

impl Default for Reserve {
    fn default() -> Reserve {
        let reserve = Reserve(RefCell::new(None));
        reserve.refill();
        reserve
    }
}

impl Reserve {
    /// Frees the descriptor, for the next call that needs one; false where it is in use already.
    pub fn give_up(&self) -> bool {
        self.0.take().is_some()
    }

    /// Keeps one back again; false where none is left.
    pub fn refill(&self) -> bool {
        let mut kept = self.0.borrow_mut();
        if kept.is_none() {
            *kept = eventfd(0, EventfdFlags::CLOEXEC).ok();
        }
        kept.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_once_until_it_is_filled_again() {
        let reserve = Reserve::default();
        assert!(reserve.give_up());
        assert!(!reserve.give_up());
        assert!(reserve.refill() && reserve.refill());
        assert!(reserve.give_up());
    }
}
