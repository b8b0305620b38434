//! Entries of a recorded session (HAR) that a load does not send.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::{count, counted};

/// Maximum number of hosts that are counted by name. A page with ads has hundreds.
const HOSTS_MAX: usize = 64;
/// The key in `other_hosts` for all hosts beyond the first [`HOSTS_MAX`].
const OTHERS: &str = "others";
/// Number of hosts that the printed text lists by name.
const HOSTS_SHOWN: usize = 5;

/// Entries of a recorded session that were not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Number of entries in the session, sent or not.
    pub entries: u64,
    /// Number of entries by host and port, without the host whose requests the load sends. Hosts beyond the first 64
    /// are counted together as `others`.
    pub other_hosts: BTreeMap<String, u64>,
    /// Entries that are not HTTP requests: `data:` and `blob:` URLs, extensions, WebSockets.
    pub not_http: u64,
}

impl LeftOut {
    /// Number of entries that were not sent.
    pub fn count(&self) -> u64 {
        self.other_hosts.values().sum::<u64>() + self.not_http
    }

    /// Counts an entry of another host.
    pub fn add_host(&mut self, host: String) {
        let is_known = self.other_hosts.contains_key(&host) || self.other_hosts.len() < HOSTS_MAX;
        *self.other_hosts.entry(if is_known { host } else { OTHERS.to_owned() }).or_default() += 1;
    }
}

/// Prints a part of a sentence: `left out 12 of 80 entries: other hosts (cdn.example 9, ads.example 3)`.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left out {} of {}", count(self.count()), counted(self.entries, "entry"))?;
        let mut hosts: Vec<(&String, &u64)> = self.other_hosts.iter().collect();
        // The sort is stable, so hosts with equal counts stay in the order of their names.
        hosts.sort_by_key(|(_, entries)| std::cmp::Reverse(**entries));
        let mut parts = Vec::new();
        if !hosts.is_empty() {
            // Escape host names, because they come from the recorded file and are printed on terminals.
            let named =
                |(host, entries): &(&String, &u64)| format!("{} {}", host.escape_debug(), count(**entries));
            let mut shown: Vec<String> = hosts.iter().take(HOSTS_SHOWN).map(named).collect();
            if hosts.len() > HOSTS_SHOWN {
                shown.push(format!("{} more", hosts.len() - HOSTS_SHOWN));
            }
            parts.push(format!("other hosts ({})", shown.join(", ")));
        }
        if self.not_http > 0 {
            parts.push(format!("not HTTP ({})", count(self.not_http)));
        }
        if parts.is_empty() { Ok(()) } else { write!(f, ": {}", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_most_frequent_hosts_first() {
        let mut left_out = LeftOut { entries: 80, ..LeftOut::default() };
        assert_eq!(left_out.to_string(), "left out 0 of 80 entries");
        for (host, count) in [("ads.example", 3), ("cdn.example", 9)] {
            (0..count).for_each(|_| left_out.add_host(host.into()));
        }
        assert_eq!(
            left_out.to_string(),
            "left out 12 of 80 entries: other hosts (cdn.example 9, ads.example 3)"
        );
        left_out.not_http = 2;
        for host in ["c", "d", "e", "f\u{1b}[2J"] {
            left_out.add_host(host.into());
        }
        assert_eq!(
            left_out.to_string(),
            "left out 18 of 80 entries: other hosts (cdn.example 9, ads.example 3, c 1, d 1, e 1, 1 more), not HTTP (2)"
        );
        (0..100).for_each(|nth| left_out.add_host(format!("host-{nth}")));
        assert_eq!((left_out.other_hosts.len(), left_out.count()), (HOSTS_MAX + 1, 118));
    }
}
