//! Detects a part that has started but listens on a wrong address, so that weir reports this before the timeout.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use procfs::process::Process;

use super::ports;

/// How often a part is checked; a check reads the open files of all its processes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The start of a part counts as complete if the part is idle, and listens on the same addresses, for this long.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// CPU share that an idle part may use for timers. A part that still reads its configuration uses far more.
const IDLE_SHARE: f64 = 0.02;

/// Until a part is ready, checks whether it listens on the wrong addresses.
#[derive(Debug)]
pub(crate) struct WrongAddressWatch {
    asked: Vec<SocketAddr>,
    looked: Instant,
    /// The start of the period in which the part is idle and its addresses do not change: the time, the addresses, and
    /// the CPU ticks that the part had used by then.
    since: Option<(Instant, Vec<SocketAddr>, u64)>,
}

impl WrongAddressWatch {
    /// Creates a watch for a part that must listen on the addresses `asked`.
    pub(crate) fn new(asked: Vec<SocketAddr>) -> Self {
        Self { asked, looked: Instant::now(), since: None }
    }

    /// Whether the part with the processes `pids` has finished its start, but listens on an unexpected address and not
    /// on all expected ones. Checks at most every [`LOOK_EVERY`].
    pub(crate) fn is_settled(&mut self, pids: impl FnOnce() -> Vec<i32>) -> bool {
        if self.looked.elapsed() < LOOK_EVERY {
            return false;
        }
        self.looked = Instant::now();
        let pids = pids();
        let used_ticks = cpu_ticks(&pids);
        let addresses = ports::listened_on(&pids);
        if !is_elsewhere(&self.asked, &addresses) {
            self.since = None;
            return false;
        }
        let idle_ticks = procfs::ticks_per_second() as f64 * SETTLED_AFTER.as_secs_f64() * IDLE_SHARE;
        match &self.since {
            Some((since, before, ticks))
                if *before == addresses && used_ticks.saturating_sub(*ticks) as f64 <= idle_ticks =>
            {
                since.elapsed() >= SETTLED_AFTER
            }
            _ => {
                self.since = Some((self.looked, addresses, used_ticks));
                false
            }
        }
    }
}

/// Whether an address in `asked` is missing from `addresses`, and `addresses` contains one that is not in `asked`.
fn is_elsewhere(asked: &[SocketAddr], addresses: &[SocketAddr]) -> bool {
    let serves = |address: &SocketAddr, asked: &SocketAddr| {
        address.port() == asked.port() && (address.ip() == asked.ip() || address.ip().is_unspecified())
    };
    let is_missing = asked.iter().any(|asked| !addresses.iter().any(|address| serves(address, asked)));
    is_missing && addresses.iter().any(|address| !asked.iter().any(|asked| serves(address, asked)))
}

/// User plus system time of the processes `pids`, clock ticks.
fn cpu_ticks(pids: &[i32]) -> u64 {
    let stats = pids.iter().filter_map(|pid| Process::new(*pid).and_then(|process| process.stat()).ok());
    stats.map(|stat| stat.utime + stat.stime).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_detected_only_while_an_expected_one_is_missing() {
        let check = |asked: &[&str], addresses: &[&str], expected| {
            let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
            assert_eq!(is_elsewhere(&parsed(asked), &parsed(addresses)), expected, "{asked:?} {addresses:?}");
        };
        let (data, admin, other) = ("127.0.0.1:18001", "127.0.0.1:18002", "127.0.0.1:8080");
        check(&[data, admin], &[], false);
        check(&[data, admin], &[admin], false);
        check(&[data, admin], &[admin, other], true);
        check(&[data], &[other], true);
        check(&[data], &["10.0.0.1:18001"], true);
        check(&[data], &["0.0.0.0:18001", other], false);
        check(&[data], &["[::]:18001"], false);
        check(&[], &[other], false);
    }
}
