//! Gateways with a configuration file of the user: checks that they listen on the given address and forward requests.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weir_results::Configuration;
use weir_rig::{Counted, CounterSource, Rendered, RigError};

use super::error::{CellError, failed};
use super::network::Listener;
use crate::scenario::Scenario;

/// Number of counter readings before weir concludes that a request was not counted. Some counters lag.
const LOOKS: u32 = 20;
/// Pause between two readings of the counter.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The error for a gateway that did not start with the user's configuration file. If the gateway never listened, the
/// remedy names this file as the likely cause.
pub(crate) fn not_started(error: &RigError, own: &Configuration, listen: SocketAddr) -> CellError {
    let remedy = match error {
        RigError::NeverReady { .. } => {
            format!("make {} listen on {{{{ listen }}}} ({listen} in this cell)", own.path)
        }
        other => other.remedy(),
    };
    failed(error.cause(), &error.to_string(), &remedy, error.log_tail())
}

/// Sends one request for the first host and path of the topology, and checks that the gateway forwards it to the
/// upstream. The request comes before all loads, so that it is not counted in them.
pub(crate) fn probe(
    own: &Configuration,
    scenario: &Scenario,
    listener: &Listener,
    rendered: &Rendered,
    upstream: &[CounterSource],
) -> Result<(), CellError> {
    let (hosts, paths) = (scenario.topology.hosts(), scenario.topology.paths());
    let (Some(host), Some(path)) = (hosts.first(), paths.first()) else { return Ok(()) };
    let count = || {
        rendered.counters.read().map_err(|error| {
            let remedy =
                format!("make {} serve the counters at {{{{ admin }}}}, or remove {{{{ admin }}}}", own.path);
            failed(error.cause(), &error.to_string(), &remedy, error.log_tail())
        })
    };
    let upstream = || Ok::<_, CellError>(total(upstream)?.map(|counted| counted.requests));
    let (before, upstream_before) = (count()?, upstream()?);
    let (network, listen) = (listener.namespace.as_ref(), listener.connect);
    let credentials = &rendered.credentials;
    let asked = weir_rig::Asked { host, path };
    let answer = weir_rig::status_of(credentials, network, listen, asked, scenario.timeout.0);
    let is_asked = match upstream_before {
        Some(_) => has_moved(upstream_before, upstream)?,
        // Without a counter, only the response shows that the upstream got the request.
        None => answer.as_ref().is_ok_and(|status| *status == 200),
    };
    if is_asked {
        // Wait until the gateway has counted the request, so that it is not counted during a load.
        has_moved(before, count)?;
        return Ok(());
    }
    let url = format!("http://{listen}{path} (Host: {host})");
    let message = match &answer {
        Ok(status) => format!("{url} returned status {status}, but the upstream received no request"),
        Err(error) => format!("no response from {url}: {error}; the upstream received no request"),
    };
    let remedy = format!("make {} forward that host and path to {{{{ origins[0] }}}}", own.path);
    Err(failed("never-ready", &message, &remedy, ""))
}

/// Whether the count exceeds `before` within [`LOOKS`] readings.
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

/// The sum of all counters; `None` if there are none, or if one of them has no value.
pub(crate) fn total(counters: &[CounterSource]) -> Result<Option<Counted>, RigError> {
    if counters.is_empty() {
        return Ok(None);
    }
    let mut total = Counted::default();
    for counter in counters {
        let Some(next) = counter.read_all()? else { return Ok(None) };
        total.requests += next.requests;
        for (kind, count) in next.by {
            *total.by.entry(kind).or_default() += count;
        }
    }
    Ok(Some(total))
}
