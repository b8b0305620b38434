//! Stores TLS sessions that later connections can resume.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Minimum number of tickets per server name. Servers send about two tickets with every handshake.
const PER_NAME_MIN: usize = 8;
/// If a load has at most this number of server names, the store has room for two tickets per connection and name. With
/// more names, the total size no longer grows, unless [`PER_NAME_MIN`] requires more.
const NAMES_FEW: usize = 32;

/// TLS sessions by server name.
///
/// A TLS 1.3 ticket is used only once (RFC 8446, C.4), and a new connection uses the tickets of a connection that was
/// closed. When many connections close at once, the store must hold all of their tickets. So it has room for two
/// tickets per connection, as if each client had its own store.
#[derive(Debug)]
pub(crate) struct Tickets {
    per_name: usize,
    kept: Mutex<HashMap<ServerName<'static>, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Tickets of TLS 1.3; the newest is last.
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    /// A store for a load with this number of connections and server names.
    pub(crate) fn new(connections: usize, names: usize) -> Self {
        Self { per_name: room(connections, names), kept: Mutex::default() }
    }

    fn with<T>(&self, name: &ServerName<'_>, act: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_mut(&name.to_owned()).map(act)
    }

    fn keep(&self, name: ServerName<'static>, act: impl FnOnce(&mut Kept)) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // The map cannot grow without limit, because a load has a fixed set of server names.
        act(kept.entry(name).or_default());
    }
}

/// Maximum number of tickets per server name.
fn room(connections: usize, names: usize) -> usize {
    let shared = 2 * connections * NAMES_FEW / names.max(1);
    shared.min(2 * connections).max(PER_NAME_MIN)
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.keep(server_name, |kept| kept.group = Some(group));
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(server_name, |kept| kept.group).flatten()
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.keep(server_name, |kept| kept.tls12 = Some(value));
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with(server_name, |kept| kept.tls12.clone()).flatten()
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.with(server_name, |kept| kept.tls12 = None);
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.keep(server_name, |kept| {
            if kept.tls13.len() == self.per_name {
                kept.tls13.pop_front();
            }
            kept.tls13.push_back(value);
        });
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(server_name, |kept| kept.tls13.pop_back()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_all_connections_and_memory_is_limited() {
        assert_eq!([room(1, 1), room(256, 1), room(256, 32)], [8, 512, 512]);
        assert_eq!([room(256, 1_000), room(256, 100_000)], [16, 8]);
    }

    #[test]
    fn hints_are_stored_per_name() {
        let name = |text: &'static str| ServerName::try_from(text).unwrap();
        let tickets = Tickets::new(1, 2);
        tickets.set_kx_hint(name("a.test"), NamedGroup::X25519);
        assert_eq!(tickets.kx_hint(&name("a.test")), Some(NamedGroup::X25519));
        assert_eq!(tickets.kx_hint(&name("b.test")), None);
        assert!(tickets.take_tls13_ticket(&name("a.test")).is_none());
    }
}
