//! Identity of a listener across processes and versions of the configuration.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// Identifies a listener by its configured address. Several listeners can have the same address with port 0; their
/// order distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerId {
    /// The configured address; its port can be 0.
    pub address: SocketAddr,
    /// The position among the listeners with this address, from 0.
    pub turn: usize,
}

impl From<SocketAddr> for ListenerId {
    fn from(address: SocketAddr) -> ListenerId {
        ListenerId { address, turn: 0 }
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.address, self.turn)
    }
}

impl FromStr for ListenerId {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenerId, String> {
        let parsed = text.split_once('#').and_then(|(address, turn)| {
            Some(ListenerId { address: address.parse().ok()?, turn: turn.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("`{text}` is not a listener ID, such as 127.0.0.1:80#0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Change, Key, Listener, Policy, Resource, State};

    #[test]
    fn listener_ids_distinguish_equal_addresses() {
        let addresses = ["127.0.0.1:0", "127.0.0.1:80", "127.0.0.1:0", "127.0.0.1:0"];
        let changes = addresses.iter().enumerate().map(|(index, address)| {
            let listener = Listener::plain(address.parse().unwrap());
            Change::Put(Key::Listener(format!("listeners[{index}]")), Resource::Listener(listener))
        });
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes: changes.collect() };
        let table = State::default().apply(batch).table.unwrap();
        let ids = table.listener_ids();
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["127.0.0.1:0#0", "127.0.0.1:80#0", "127.0.0.1:0#1", "127.0.0.1:0#2"]);
        for (position, id) in ids.into_iter().enumerate() {
            assert_eq!(table.position_of(id), Some(position));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert_eq!(table.position_of("127.0.0.1:80#1".parse().unwrap()), None);
        assert!("127.0.0.1:80".parse::<ListenerId>().is_err());
    }
}
