//! Sends the requests that show whether a change has taken effect.

use std::net::SocketAddr;
use std::time::Duration;

use weir_results::Changed;
use weir_rig::{CounterSource, Credentials, Namespace, RigError, mono_ns};

use super::{LOOK_LAST, NO_ROUTE};
use crate::disturb::{Gateway, OwnRequests};

/// Timeout of one check.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// An endpoint counts as removed after this number of consecutive requests that do not reach it. With fewer requests,
/// load balancing could choose only other endpoints by chance.
const REQUESTS_WITHOUT: u32 = 20;
/// Maximum pause between two requests that check whether an endpoint was removed.
const WITHOUT_EVERY: Duration = Duration::from_millis(4);

/// A gateway whose changes are observed, with everything that weir needs to send requests to it and to count the
/// requests of an endpoint.
#[derive(Debug)]
pub(super) struct Target {
    credentials: Credentials,
    network: Option<Namespace>,
    address: SocketAddr,
    host: String,
    /// A path that always has a route.
    path: String,
    /// A path whose route is added and removed.
    added_path: String,
    /// The request counter of the endpoint that is removed and restored.
    endpoint: Option<CounterSource>,
    /// The initial certificate and its replacement, DER; `None` without TLS.
    certificates: Option<[Vec<u8>; 2]>,
}

/// A change whose effect weir waits for.
#[derive(Debug)]
pub(super) struct Look {
    what: Changed,
    /// True for a change away from the initial state: routes added, endpoint removed, certificate replaced. False for
    /// the change back.
    is_on: bool,
    /// The endpoint's request count at the last check; `None` if it was never read.
    counted: Option<u64>,
    /// When `counted` last grew, by the monotonic clock, nanoseconds.
    counted_ns: u64,
    /// Number of successful requests to other endpoints since `counted` last grew.
    without: u32,
}

impl Look {
    /// The maximum pause between two checks.
    pub(super) fn pause_max(&self) -> Duration {
        match (self.what, self.is_on) {
            (Changed::Endpoints, true) => WITHOUT_EVERY,
            _ => LOOK_LAST,
        }
    }
}

impl Target {
    /// The target for `gateway`; `None` if the gateway has no host or path, or if `added` is empty. `added` contains
    /// the paths whose routes are added under load and removed later.
    pub(super) fn new(gateway: &Gateway<'_>, added: &[String]) -> Result<Option<Self>, RigError> {
        let (binding, credentials) = (gateway.binding, &gateway.rendered.credentials);
        let found = (binding.hosts.first(), binding.paths.first(), added.first());
        let (Some(host), Some(path), Some(added_path)) = found else { return Ok(None) };
        let both = credentials.certificates.as_ref().and_then(|made| Some((made, made.with_renewed()?)));
        let certificates = match both {
            Some((made, renewed)) => Some([made.shown()?, renewed.shown()?]),
            None => None,
        };
        Ok(Some(Self {
            credentials: credentials.clone(),
            network: gateway.listener.namespace.clone(),
            address: gateway.listener.connect,
            host: host.clone(),
            path: path.clone(),
            added_path: added_path.clone(),
            endpoint: gateway.upstream.counters.last().cloned(),
            certificates,
        }))
    }

    /// Starts the observation of a change before it is applied.
    pub(super) fn look_for(&self, what: Changed, is_on: bool) -> Look {
        let counted = if what == Changed::Endpoints { self.counted() } else { None };
        Look { what, is_on, counted, counted_ns: mono_ns(), without: 0 }
    }

    /// Checks once whether the change has taken effect. Returns the time when it took effect, by the monotonic clock in
    /// nanoseconds; otherwise an error that describes the response. Counts weir's request in `own`.
    pub(super) fn look(&self, look: &mut Look, own: &mut OwnRequests) -> Result<u64, String> {
        match look.what {
            Changed::Routes => {
                let expected = if look.is_on { 200 } else { NO_ROUTE };
                let answer = self.ask(&self.added_path, own);
                if answer == Ok(expected) { Ok(mono_ns()) } else { Err(said(&self.added_path, &answer)) }
            }
            Changed::Endpoints => {
                let answer = self.ask(&self.path, own);
                self.look_at_endpoint(look, &answer)
            }
            Changed::Certificates => self.look_at_certificate(look.is_on),
        }
    }

    /// Describes the effect that is missing, for an error message.
    pub(super) fn words(&self, look: &Look) -> String {
        let (address, host) = (self.address, &self.host);
        let what = match (look.what, look.is_on) {
            (Changed::Routes, true) => "a new route was still not served",
            (Changed::Routes, false) => "a removed route was still served",
            (Changed::Endpoints, true) => "a removed endpoint still received requests",
            (Changed::Endpoints, false) => "a restored endpoint still received no requests",
            (Changed::Certificates, _) => "a replaced certificate was still presented",
        };
        format!("{what} at {address} (Host: {host})")
    }

    fn ask(&self, path: &str, own: &mut OwnRequests) -> Result<u16, String> {
        let asked = weir_rig::Asked { host: &self.host, path };
        let network = self.network.as_ref();
        let answer = weir_rig::status_of(&self.credentials, network, self.address, asked, LOOK_TIMEOUT);
        count(own, &answer);
        answer
    }

    fn counted(&self) -> Option<u64> {
        self.endpoint.as_ref()?.read().ok().flatten()
    }

    /// Returns when the change took effect: for a restored endpoint, at its first request; for a removed endpoint, at
    /// its last request.
    fn look_at_endpoint(&self, look: &mut Look, answer: &Result<u16, String>) -> Result<u64, String> {
        let (counted, now_ns) = (self.counted(), mono_ns());
        let Some(count) = counted else { return Err("cannot count the requests of the endpoint".to_owned()) };
        let has_grown = look.counted.is_some_and(|before| count > before);
        if has_grown || look.counted.is_none() {
            (look.counted, look.counted_ns, look.without) = (counted, now_ns, 0);
        } else if *answer == Ok(200) {
            look.without += 1;
        }
        let is_seen = if look.is_on { look.without >= REQUESTS_WITHOUT } else { has_grown };
        if is_seen { Ok(look.counted_ns) } else { Err(said(&self.path, answer)) }
    }

    fn look_at_certificate(&self, is_on: bool) -> Result<u64, String> {
        let Some(certificates) = &self.certificates else {
            return Err("weir has no certificates to compare".to_owned());
        };
        let network = self.network.as_ref();
        let shown =
            weir_rig::certificate_of(&self.credentials, network, self.address, &self.host, LOOK_TIMEOUT)?;
        match shown == certificates[usize::from(is_on)] {
            true => Ok(mono_ns()),
            false => Err("the gateway did not present the expected certificate".to_owned()),
        }
    }
}

/// Counts a request that weir sent. The response decides which counters of `own` increase.
fn count(own: &mut OwnRequests, answer: &Result<u16, String>) {
    match answer {
        Ok(200) => {
            own.answered += 1;
            own.forwarded += 1;
        }
        Ok(NO_ROUTE) => own.answered += 1,
        Ok(_) => {
            own.answered += 1;
            own.uncertain += 1;
        }
        Err(_) => own.uncertain += 1,
    }
}

fn said(path: &str, answer: &Result<u16, String>) -> String {
    match answer {
        Ok(status) => format!("{path} returned status {status}"),
        Err(error) => format!("request for {path} failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_requests_are_counted_by_their_responses() {
        let mut own = OwnRequests::default();
        for answer in [Ok(404), Ok(404), Ok(200), Ok(503), Err("connection reset".to_owned())] {
            count(&mut own, &answer);
        }
        assert_eq!(own, OwnRequests { answered: 4, forwarded: 1, uncertain: 2 });
    }
}
