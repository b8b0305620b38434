//! Settings of the graceful shutdown.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Time};

use super::bounds::check_time;

/// Graceful shutdown, from the signal to the end of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// Time after the signal during which the gateway still accepts clients, so that load balancers can see `/readyz`
    /// fail first; can be 0s.
    pub delay: Time,
    /// Time from the signal until all connections must be closed; must be longer than `delay`. The gateway then cuts
    /// the remaining connections and reports them in the program log.
    pub timeout: Time,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { delay: Time(Duration::from_secs(5)), timeout: Time(Duration::from_secs(30)) }
    }
}

/// Validates `drain`.
pub(crate) fn check(drain: &Drain) -> Result<(), Problem> {
    check_time(
        "drain.timeout",
        drain.timeout,
        "write a time in this range; this timeout cannot be turned off",
    )?;
    if drain.delay.0 >= drain.timeout.0 {
        let message = format!(
            "`drain.delay` ({}) must be shorter than `drain.timeout` ({})",
            drain.delay, drain.timeout
        );
        return Err(Problem::of("drain.delay", message)
            .help("make `timeout` longer than `delay`; both start at the signal"));
    }
    Ok(())
}
