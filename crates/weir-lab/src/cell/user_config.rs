//! Gateways with a configuration file of the user: checks that they listen on the given address and forward requests.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weir_results::Configuration;
use weir_rig::{Counted, CounterSource, Rendered, RigError};

use super::error::{CellError, failed};
use super::network::Listener;
use crate::scenario::Scenario;

/// How often weir reads a counter before it concludes that a request was not counted. Some counters lag.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The error for a gateway that did not start. With a file of the user, the file is the likely cause.
pub(crate) fn not_started(error: &RigError, own: &Configuration, listen: SocketAddr) -> CellError {
    let remedy = match error {
        RigError::NeverReady { .. } => {
            format!("{} must listen on {{{{ listen }}}}, which was {listen}", own.path)
        }
        other => other.remedy(),
    };
    failed(error.cause(), &error.to_string(), &remedy, error.log_tail())
}

/// Sends one request for the first host and path of the topology, and checks that the gateway forwards it to the
/// upstream. It precedes all counted requests of a load.
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
            let remedy = format!("make {} serve its counters there, or remove {{{{ admin }}}}", own.path);
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
        // Without a counter only the response shows that the upstream got the request.
        None => answer.as_ref().is_ok_and(|status| *status == 200),
    };
    if is_asked {
        // Wait until the gateway has counted it, so that it is not counted during a load.
        has_moved(before, count)?;
        return Ok(());
    }
    let said = match &answer {
        Ok(status) => format!("returned status {status}"),
        Err(error) => format!("sent no response ({error})"),
    };
    let message =
        format!("http://{listen}{path} (Host: {host}) {said}, but the upstream received no request");
    let remedy = format!("make {} forward that host and path to {{{{ origins[0] }}}}", own.path);
    Err(failed("never-ready", &message, &remedy, ""))
}

/// Whether the count soon exceeds `before`.
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

/// The sum of all counters; `None` if there is none, or one does not count.
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
