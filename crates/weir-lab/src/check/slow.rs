//! Slow clients that nobody could be.

use std::time::Duration;

use weir_document::nearest;

use super::{Checked, problem};
use crate::scenario::{Scenario, SlowClients};

/// Most of them: each takes an open file and a task.
const CONNECTIONS_MAX: u64 = 100_000;
/// Greatest piece; more at a time is not slow.
const PIECE_MAX_BYTES: u64 = 1 << 20;
/// Least time between two pieces.
const EVERY_MIN: Duration = Duration::from_millis(1);

/// Refuses slow clients that are none, and those of what they cannot speak.
pub(super) fn check_slow(scenario: &Scenario) -> Checked {
    let Some(slow) = &scenario.slow else { return Ok(()) };
    if scenario.is_elsewhere() {
        let message = "slow clients of a gateway that runs elsewhere, whose memory is not weir's to fill";
        return Err(problem(&["slow"], message, "leave them out, or let weir start the gateway"));
    }
    if scenario.topology.tls {
        let message = "slow clients of gateways that listen for TLS";
        return Err(problem(
            &["slow"],
            message,
            "leave them out, or `tls` out of the topology: they speak plain text",
        ));
    }
    if !(1..=CONNECTIONS_MAX).contains(&slow.connections()) {
        let message = format!("{} slow clients", slow.connections());
        let remedy = format!("give 1 to {CONNECTIONS_MAX} as `heads`, `bodies` and `responses` together");
        return Err(problem(&["slow"], message, remedy));
    }
    if !(1..=PIECE_MAX_BYTES).contains(&slow.piece.0) {
        let message = format!("a piece of {}", slow.piece);
        return Err(problem(&["slow", "piece"], message, "give 1B to 1MiB, like 16B"));
    }
    if slow.every.0 < EVERY_MIN {
        let message = format!("a piece every {}", slow.every);
        return Err(problem(&["slow", "every"], message, "give 1ms or more, like 1s"));
    }
    check_loads(scenario, slow)
}

fn check_loads(scenario: &Scenario, slow: &SlowClients) -> Checked {
    let is_known = |name: &String| scenario.loads.names().any(|known| known == name);
    let Some(place) = slow.loads.iter().position(|name| !is_known(name)) else { return Ok(()) };
    let name = &slow.loads[place];
    let remedy = match nearest(name, scenario.loads.names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the loads are: {}", scenario.loads.names().collect::<Vec<_>>().join(", ")),
    };
    let message = format!("there is no load `{name}`");
    Err(problem(&["slow", "loads", &place.to_string()], message, remedy))
}
