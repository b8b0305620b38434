//! A gateway with a configuration file of the user's own: whether it listens where it is told, and hands on what
//! it is asked.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weir_results::Configuration;
use weir_rig::{CounterSource, Rendered, RigError};

use super::error::{CellError, failed};
use super::wiring::Seat;
use crate::scenario::Scenario;

/// How often counters are read before a request counts as not counted: some count it a little later.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The setback for a gateway that did not start: with such a file, the file is the first suspect.
pub(crate) fn not_started(error: &RigError, own: &Configuration, listen: SocketAddr) -> CellError {
    let remedy = match error {
        RigError::NeverReady { .. } => {
            format!("{} must listen on {{{{ listen }}}}, which was {listen}", own.path)
        }
        other => other.remedy(),
    };
    failed(error.cause(), &error.to_string(), &remedy, error.log_tail())
}

/// Asks the gateway once, for the first host and path of the topology, and sees that the upstream is asked then.
/// The request stands before everything that is counted for a load.
pub(crate) fn probe(
    own: &Configuration,
    scenario: &Scenario,
    seat: &Seat,
    rendered: &Rendered,
    upstream: &[CounterSource],
) -> Result<(), CellError> {
    let (hosts, paths) = (scenario.topology.hosts(), scenario.topology.paths());
    let (Some(host), Some(path)) = (hosts.first(), paths.first()) else { return Ok(()) };
    let count = || {
        rendered.counters.read().map_err(|error| {
            let remedy = format!("make {} serve its counters there, or remove {{{{ admin }}}}", own.path);
            failed(error.cause(), &error.to_string(), &remedy, error.log_tail())
        })
    };
    let (before, upstream_before) = (count()?, total(upstream)?);
    let (network, listen) = (seat.namespace.as_ref(), seat.asked);
    let credentials = &rendered.credentials;
    let answer = weir_rig::status_of(credentials, network, listen, (host, path), scenario.timeout.0);
    let is_asked = match upstream_before {
        Some(_) => has_moved(upstream_before, || Ok(total(upstream)?))?,
        // An upstream that does not count says only by the answer that it was asked.
        None => answer.as_ref().is_ok_and(|status| *status == 200),
    };
    if is_asked {
        // The gateway's own count of it must not come later, among those of a load.
        has_moved(before, count)?;
        return Ok(());
    }
    let said = match &answer {
        Ok(status) => format!("answered {status}"),
        Err(error) => format!("no response ({error})"),
    };
    let message = format!("http://{listen}{path} (Host: {host}) {said}, and the upstream was not asked");
    let remedy = format!("make {} forward that host and path to {{{{ origins[0] }}}}", own.path);
    Err(failed("never-ready", &message, &remedy, ""))
}

/// Whether the count is above what it was before, now or soon.
fn has_moved(
    before: Option<u64>,
    count: impl Fn() -> Result<Option<u64>, CellError>,
) -> Result<bool, CellError> {
    let Some(before) = before else { return Ok(false) };
    for _ in 0..LOOKS {
        if count()?.is_some_and(|now| now > before) {
            return Ok(true);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(false)
}

/// The requests that all of them received; `None` where one does not count, or there is none.
pub(crate) fn total(counters: &[CounterSource]) -> Result<Option<u64>, RigError> {
    if counters.is_empty() {
        return Ok(None);
    }
    counters.iter().try_fold(Some(0), |sum: Option<u64>, counter| {
        let next = counter.read()?;
        Ok(sum.and_then(|sum| Some(sum + next?)))
    })
}
