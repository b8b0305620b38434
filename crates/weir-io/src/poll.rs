//! Edge-triggered epoll. Each descriptor is registered once.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::Timespec;

/// Maximum number of events per `epoll_wait`. The next call returns the rest.
const EVENTS_MAX: usize = 256;

/// A set of descriptors and their readiness.
pub struct Poll {
    fd: OwnedFd,
    events: Vec<Event>,
}

/// What has become ready on a descriptor since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The token that the descriptor was registered with.
    pub token: u64,
    /// Data may be available to read.
    pub is_readable: bool,
    /// Data may be written, or a connection attempt has ended.
    pub is_writable: bool,
    /// The peer has closed its sending direction, or the connection failed. Read until the end of the stream or an
    /// error.
    pub is_ended: bool,
}

impl Poll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Adds a socket. Closing the socket removes it from the set.
    ///
    /// # Errors
    /// If the kernel's limit of watched descriptors is reached.
    pub fn add_socket(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        self.add(socket, token, EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP)
    }

    /// Adds a descriptor that can only be read, such as a timer.
    ///
    /// # Errors
    /// If the kernel's limit of watched descriptors is reached.
    pub fn add_readable(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd, token, EventFlags::IN)
    }

    fn add(&self, fd: impl AsFd, token: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(token), flags | EventFlags::ET)?)
    }

    /// Waits until a descriptor is ready. Returns the number of events to read with [`Poll::readiness`].
    ///
    /// # Panics
    /// If the kernel rejects the epoll descriptor.
    pub fn wait(&mut self) -> usize {
        self.look(None)
    }

    /// Like [`Poll::wait`], but returns immediately.
    ///
    /// # Panics
    /// If the kernel rejects the epoll descriptor.
    pub fn now(&mut self) -> usize {
        self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Returns the event with index `place` of the last [`Poll::wait`] or [`Poll::now`]. `place` must be below the
    /// number of events that this call returned.
    #[inline]
    pub fn readiness(&self, place: usize) -> Readiness {
        let Event { flags, data, .. } = self.events[place];
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        Readiness {
            token: data.u64(),
            is_readable: flags.intersects(EventFlags::IN | ended),
            is_writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
            is_ended: flags.intersects(ended),
        }
    }

    fn look(&mut self, timeout: Option<&Timespec>) -> usize {
        self.events.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.events), timeout) {
            Ok(count) => count,
            // A signal interrupted the wait.
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => panic!("epoll_wait rejected the epoll descriptor: {error}"),
        }
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").field("fd", &self.fd).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_edge_is_reported_once() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add_socket(&far, 7).unwrap();
        assert_eq!(poll.now(), 1, "writable from the start");
        assert!(poll.readiness(0).is_writable && !poll.readiness(0).is_readable);
        assert_eq!(poll.now(), 0);
        near.write_all(b"x").unwrap();
        assert_eq!(poll.wait(), 1);
        let event = poll.readiness(0);
        assert!(event.token == 7 && event.is_readable && !event.is_ended);
        assert_eq!(poll.now(), 0, "unread data is not reported again");
        drop(near);
        assert_eq!(poll.wait(), 1);
        assert!(poll.readiness(0).is_ended);
    }
}
