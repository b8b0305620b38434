//! The specification of an origin.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use weir_document::{Delay, Drift, Share, Slow, Stall};

use crate::OriginError;
use crate::outcome::Outcome;

/// Maximum number of servers of a queue.
const SERVERS_MAX: usize = 100_000;

/// Allowed rounding error in the sum of shares.
const SHARES_ROUNDING: f64 = 1e-9;

/// The specification of an origin.
#[derive(Clone, Debug)]
pub struct OriginSpec {
    /// The listening address. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// Bytes of each response body.
    pub body_bytes: u64,
    /// Whether the response body is the request body, instead of `body_bytes`.
    pub is_echo: bool,
    /// Delay of each response, from the end of the request to the first byte of the response.
    pub delay: Delay,
    /// A queue instead of the delay.
    pub service: Option<ServiceSpec>,
    /// How the delay grows over time, counted from the origin's start.
    pub drift: Option<Drift>,
    /// Periodic stalls during which nothing is answered, counted from the origin's start.
    pub stall: Option<Stall>,
    /// Random seed of delays and service times.
    pub seed: u64,
    /// Whether workers spin during delays, which needs one core per worker. A CPU that sleeps may wake up late,
    /// sometimes by milliseconds under a hypervisor.
    pub spin: bool,
    /// Injected faults.
    pub faults: FaultSpec,
    /// Whether the origin accepts and reads but never answers.
    pub is_silent: bool,
    /// Responses after which an HTTP/1.1 connection is closed. `None` for no limit.
    pub close_after: Option<NonZeroU32>,
    /// HTTP/2 options.
    pub http2: Http2Spec,
    /// TLS options. `None` for plain text.
    pub tls: Option<TlsSpec>,
    /// Number of worker threads.
    pub workers: usize,
    /// CPUs that the workers are pinned to, round-robin. If empty, the scheduler chooses.
    pub cpus: Vec<usize>,
}

/// One first-come-first-served queue over all connections and workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceSpec {
    /// Service time of a request.
    pub time: Delay,
    /// Number of requests served concurrently.
    pub servers: NonZeroUsize,
}

/// Shares of requests that get an injected fault. Each share is met exactly, across all workers. A request gets at most
/// one fault. The shares sum to at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSpec {
    /// Share answered with status 500.
    pub errors: Share,
    /// Share whose connection is reset, or whose stream over HTTP/2.
    pub resets: Share,
    /// Share answered with the headers and half of the body.
    pub half: Share,
    /// Share answered with a body sent in ten pieces over this time.
    pub slow: Option<Slow>,
    /// Share whose stream is refused (HTTP/2 only).
    pub refuse: Share,
}

/// HTTP/2 options. HTTP/1.1 is always served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2Spec {
    /// Whether HTTP/2 is disabled.
    pub is_off: bool,
    /// Requests per connection after which the origin sends a graceful GOAWAY.
    pub goaway_after: Option<NonZeroU32>,
    /// Maximum concurrent streams per connection.
    pub max_streams: Option<NonZeroU32>,
}

/// TLS options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSpec {
    /// A certificate and an authority generated at startup. See [`Origin::ca_pem`](crate::Origin::ca_pem).
    Made {
        /// Server names of the certificate, in addition to `localhost`, 127.0.0.1 and ::1.
        domains: Vec<String>,
        /// Whether the certificate has expired.
        is_expired: bool,
    },
    /// A given certificate.
    Given {
        /// PEM file of the certificate chain.
        cert: PathBuf,
        /// PEM file of the private key.
        key: PathBuf,
    },
}

impl OriginSpec {
    /// A plain origin at an address: one worker, an empty body, no delays, no faults.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            body_bytes: 0,
            is_echo: false,
            delay: Delay::None,
            service: None,
            drift: None,
            stall: None,
            seed: 1,
            spin: false,
            faults: FaultSpec::default(),
            is_silent: false,
            close_after: None,
            http2: Http2Spec::default(),
            tls: None,
            workers: 1,
            cpus: Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), OriginError> {
        if self.workers == 0 {
            return Err(OriginError::NoWorkers);
        }
        if self.service.is_some() && !self.delay.is_none() {
            return Err(OriginError::DelayAndService);
        }
        if let Some(service) = self.service.filter(|service| service.servers.get() > SERVERS_MAX) {
            return Err(OriginError::Servers { servers: service.servers.get(), most: SERVERS_MAX });
        }
        let shares = self.faults.shares();
        if let Some((_, share)) = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(OriginError::Share { share: *share });
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum > 1.0 + SHARES_ROUNDING {
            return Err(OriginError::Shares { sum });
        }
        let needs_http2 = self.http2.goaway_after.is_some() || self.http2.max_streams.is_some();
        if self.http2.is_off && (needs_http2 || self.faults.refuse.0 > 0.0) {
            return Err(OriginError::Http2Off);
        }
        Ok(())
    }

    /// Whether responses are delayed.
    pub(crate) fn is_timed(&self) -> bool {
        !self.delay.is_none() || self.service.is_some() || self.drift.is_some() || self.stall.is_some()
    }
}

impl FaultSpec {
    pub(crate) fn shares(&self) -> [(Outcome, f64); 5] {
        [
            (Outcome::Error, self.errors.0),
            (Outcome::Reset, self.resets.0),
            (Outcome::Half, self.half.0),
            (Outcome::Slow, self.slow.map_or(0.0, |slow| slow.share.0)),
            (Outcome::Refused, self.refuse.0),
        ]
    }
}
