//! Checks slow clients.

use std::time::Duration;

use super::changes::check_load_names;
use super::problem::Problems;
use crate::scenario::Scenario;

/// Maximum number of slow clients: each needs an open file and a task.
const CONNECTIONS_MAX: u64 = 100_000;
/// Maximum size of a piece: a client that sends more at once is not slow.
const PIECE_MAX_BYTES: u64 = 1 << 20;
/// Minimum time between two pieces.
const EVERY_MIN: Duration = Duration::from_millis(1);

/// Rejects slow clients that would send nothing, or cannot reach the gateways.
pub(super) fn check_slow(scenario: &Scenario, found: &mut Problems) {
    let Some(slow) = &scenario.slow else { return };
    if scenario.is_elsewhere() {
        let message = "slow clients are not allowed with a remote gateway: they can exhaust it";
        return found.add(&["slow"], message, "remove `slow`, or let weir start the gateway");
    }
    if scenario.topology.tls {
        let message = "slow clients send plain HTTP, but the gateways listen for TLS";
        found.add(&["slow"], message, "remove `slow`, or `tls` from the topology");
    }
    if !(1..=CONNECTIONS_MAX).contains(&slow.connections()) {
        let message = format!("the number of slow clients is out of range: {}", slow.connections());
        let remedy = format!("use 1 to {CONNECTIONS_MAX} for `heads`, `bodies` and `responses` together");
        found.add(&["slow"], message, remedy);
    }
    if !(1..=PIECE_MAX_BYTES).contains(&slow.piece.0) {
        found.add_range(&["slow", "piece"], slow.piece, "use 1B to 1MiB, like 16B");
    }
    if slow.every.0 < EVERY_MIN {
        found.add_range(&["slow", "every"], slow.every, "use at least 1ms, like 1s");
    }
    check_load_names(scenario, &["slow", "loads"], &slow.loads, found);
}
