//! Free ports on loopback for the parts of a cell.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use super::error::{CellError, failed};

/// First port of the range. Linux takes the ports of clients from a higher range (ephemeral ports). So no client gets a
/// port of this range between weir's check and the server's bind.
const FIRST: u16 = 18_000;
/// Last port of the range.
const LAST: u16 = 31_999;

/// Returns free ports of the range. A port is returned again only after all others.
#[derive(Debug)]
pub(crate) struct Ports {
    next: AtomicU16,
}

impl Ports {
    /// Starts at a port that depends on the process ID, so that two runs do not compete for the same ports.
    pub(crate) fn new() -> Self {
        let span = u32::from(LAST - FIRST);
        let offset = std::process::id().wrapping_mul(97) % span;
        Self { next: AtomicU16::new(FIRST + offset as u16) }
    }

    /// A port that is free now.
    pub(crate) fn free(&self) -> Result<SocketAddr, CellError> {
        for _ in FIRST..=LAST {
            let port = self.advance();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            if TcpListener::bind(address).is_ok() {
                return Ok(address);
            }
        }
        let message = format!("every port from {FIRST} to {LAST} on {} is in use", Ipv4Addr::LOCALHOST);
        Err(failed("port-taken", &message, "stop the processes that listen on these ports", ""))
    }

    fn advance(&self) -> u16 {
        let after = |port: u16| if port >= LAST { FIRST } else { port + 1 };
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |port| Some(after(port)))
            .unwrap_or(FIRST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_different_and_wrap_around() {
        let ports = Ports { next: AtomicU16::new(LAST) };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..10 {
            let address = ports.free().unwrap();
            assert!((FIRST..=LAST).contains(&address.port()) && seen.insert(address));
        }
    }

    #[test]
    fn a_port_in_use_is_skipped() {
        let ports = Ports::new();
        let taken = ports.free().unwrap();
        let _listener = TcpListener::bind(taken).unwrap();
        ports.next.store(taken.port(), Ordering::Relaxed);
        assert_ne!(ports.free().unwrap(), taken);
    }
}
