//! Where a change is looked for, and when it counts as seen.

use std::net::SocketAddr;
use std::time::Duration;

use weir_results::Changed;
use weir_rig::{Binding, CounterSource, Credentials, Namespace, RigError, mono_ns};

use super::{LOOK_LAST, Looks, NO_ROUTE};
use crate::wiring::Seat;

/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests in a row that do not go to an endpoint which left: as many as show that it is not among those asked in turn.
const REQUESTS_WITHOUT: u32 = 20;
/// How often one of them is sent at last: their number, and not the time between them, is what tells.
const WITHOUT_EVERY: Duration = Duration::from_millis(4);

/// A gateway, and how its changes show.
#[derive(Debug)]
pub(super) struct Target {
    credentials: Credentials,
    network: Option<Namespace>,
    address: SocketAddr,
    host: String,
    /// A path that is always routed, and one that comes and goes.
    path: String,
    added_path: String,
    /// The requests of the endpoint that leaves and returns.
    endpoint: Option<CounterSource>,
    /// The certificate that the gateway began with, and the other one, DER; absent without TLS.
    certificates: Option<[Vec<u8>; 2]>,
}

/// What is looked for, and what was seen of it so far.
#[derive(Debug)]
pub(super) struct Look {
    what: Changed,
    /// Whether it is to be otherwise than at the beginning: routes are there, the endpoint is gone, the certificate is the
    /// other one.
    is_on: bool,
    /// What the endpoint had counted at the last look, since when, and requests since then that it did not get.
    counted: Option<u64>,
    counted_ns: u64,
    without: u32,
}

impl Look {
    /// The longest pause between two looks.
    pub(super) fn pause_max(&self) -> Duration {
        match (self.what, self.is_on) {
            (Changed::Endpoints, true) => WITHOUT_EVERY,
            _ => LOOK_LAST,
        }
    }
}

impl Target {
    /// The gateway that was rendered for `binding` and runs at `seat`; `added` are paths that come and go, and `last` counts
    /// the requests of the endpoint that leaves. `None` where it serves nothing.
    pub(super) fn new(
        (binding, credentials): (&Binding, &Credentials),
        added: &[String],
        seat: &Seat,
        last: Option<&CounterSource>,
    ) -> Result<Option<Self>, RigError> {
        let found = (binding.hosts.first(), binding.paths.first(), added.first());
        let (Some(host), Some(path), Some(added_path)) = found else { return Ok(None) };
        let both = credentials.certificates.as_ref().and_then(|made| Some((made, made.with_renewed()?)));
        let certificates = match both {
            Some((made, renewed)) => Some([made.shown()?, renewed.shown()?]),
            None => None,
        };
        Ok(Some(Self {
            credentials: credentials.clone(),
            network: seat.namespace.clone(),
            address: seat.asked,
            host: host.clone(),
            path: path.clone(),
            added_path: added_path.clone(),
            endpoint: last.cloned(),
            certificates,
        }))
    }

    /// Begins to look for a change that is about to be applied.
    pub(super) fn look_for(&self, what: Changed, is_on: bool) -> Look {
        let counted = if what == Changed::Endpoints { self.counted() } else { None };
        Look { what, is_on, counted, counted_ns: mono_ns(), without: 0 }
    }

    /// Looks once: since when the change is in force, by the monotonic clock, or what was seen in place of that.
    pub(super) fn look(&self, look: &mut Look, looks: &mut Looks) -> Result<u64, String> {
        match look.what {
            Changed::Routes => {
                let expected = if look.is_on { 200 } else { NO_ROUTE };
                let answer = self.ask(&self.added_path, looks);
                if answer == Ok(expected) { Ok(mono_ns()) } else { Err(said(&self.added_path, &answer)) }
            }
            Changed::Endpoints => {
                let answer = self.ask(&self.path, looks);
                self.look_at_endpoint(look, &answer)
            }
            Changed::Certificates => self.look_at_certificate(look.is_on),
        }
    }

    /// What has not come about, in words.
    pub(super) fn words(&self, look: &Look) -> String {
        let (address, host) = (self.address, &self.host);
        let what = match (look.what, look.is_on) {
            (Changed::Routes, true) => "a new route was not served",
            (Changed::Routes, false) => "a removed route was still served",
            (Changed::Endpoints, true) => "a removed endpoint still received requests",
            (Changed::Endpoints, false) => "a returned endpoint received no requests",
            (Changed::Certificates, _) => "a replaced certificate was still presented",
        };
        format!("{what} at {address} (Host: {host})")
    }

    fn ask(&self, path: &str, looks: &mut Looks) -> Result<u16, String> {
        let asked = (self.host.as_str(), path);
        let network = self.network.as_ref();
        let answer = weir_rig::status_of(&self.credentials, network, self.address, asked, LOOK_TIMEOUT);
        looks.add(&answer);
        answer
    }

    fn counted(&self) -> Option<u64> {
        self.endpoint.as_ref()?.read().ok().flatten()
    }

    /// One that returns is seen by its next request, one that leaves by its last.
    fn look_at_endpoint(&self, look: &mut Look, answer: &Result<u16, String>) -> Result<u64, String> {
        let (counted, now_ns) = (self.counted(), mono_ns());
        let Some(count) = counted else { return Err("cannot count its requests".to_owned()) };
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
        let Some(certificates) = &self.certificates else { return Err("no certificate".to_owned()) };
        let network = self.network.as_ref();
        let shown =
            weir_rig::certificate_of(&self.credentials, network, self.address, &self.host, LOOK_TIMEOUT)?;
        match shown == certificates[usize::from(is_on)] {
            true => Ok(mono_ns()),
            false => Err("the handshake presented another certificate".to_owned()),
        }
    }
}

fn said(path: &str, answer: &Result<u16, String>) -> String {
    match answer {
        Ok(status) => format!("{path} returned status {status}"),
        Err(error) => format!("{path} gave {error}"),
    }
}
