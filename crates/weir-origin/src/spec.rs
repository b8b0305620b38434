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

/// What an origin does.
#[derive(Clone, Debug)]
pub struct OriginSpec {
    /// The listening address. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// Length of the response body in bytes.
    pub body_bytes: u64,
    /// Whether the response body is the request body, instead of `body_bytes`.
    pub is_echo: bool,
    /// Delay of each response, from the end of the request to the first byte of the response.
    pub delay: Delay,
    /// A queue for all requests, which replaces the delay; `None` without a queue.
    pub service: Option<ServiceSpec>,
    /// How the delay grows over time, counted from the origin's start.
    pub drift: Option<Drift>,
    /// Periodic stalls during which no response is sent, counted from the start of the origin.
    pub stall: Option<Stall>,
    /// Seed of random delays and service times.
    pub seed: u64,
    /// Whether workers spin during delays, which needs a core per worker. Without spinning, a sleeping CPU may wake up
    /// late, sometimes by milliseconds in a virtual machine.
    pub spin: bool,
    /// Injected faults.
    pub faults: FaultSpec,
    /// Whether the origin accepts connections and reads requests, but never responds.
    pub is_silent: bool,
    /// Number of responses after which an HTTP/1.1 connection is closed; `None` for no limit.
    pub close_after: Option<NonZeroU32>,
    /// HTTP/2 options.
    pub http2: Http2Spec,
    /// TLS options. `None` for plain text.
    pub tls: Option<TlsSpec>,
    /// Number of worker threads.
    pub workers: usize,
    /// CPUs to which workers are pinned in round robin. If empty, workers are not pinned.
    pub cpus: Vec<usize>,
}

/// A queue that serves requests of all connections and workers in the order of their arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceSpec {
    /// Service time of a request.
    pub time: Delay,
    /// Number of requests that are served at the same time.
    pub servers: NonZeroUsize,
}

/// Shares of requests that get an injected fault. The choice is not random: all workers together meet each share
/// exactly. A request gets at most one fault, so the sum of the shares is at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSpec {
    /// Share of requests that get status 500.
    pub errors: Share,
    /// Share of requests whose connection is reset. Over HTTP/2, only the stream is reset.
    pub resets: Share,
    /// Share of responses that end after the headers and half of the body.
    pub half: Share,
    /// Share of responses whose body is sent in ten pieces, and the time that this takes.
    pub slow: Option<Slow>,
    /// Share of requests whose stream is refused (HTTP/2 only).
    pub refuse: Share,
}

/// HTTP/2 options. HTTP/1.1 is always served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2Spec {
    /// Whether HTTP/2 is disabled.
    pub is_off: bool,
    /// Number of requests after which the origin sends a graceful GOAWAY on a connection; `None` for no limit.
    pub goaway_after: Option<NonZeroU32>,
    /// Maximum number of concurrent streams per connection; `None` for the default of 256.
    pub max_streams: Option<NonZeroU32>,
}

/// TLS options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSpec {
    /// A certificate and its certificate authority (CA), both generated at the start.
    /// [`Origin::ca_pem`](crate::Origin::ca_pem) returns the CA certificate.
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
    /// An origin that listens at an address: one worker, an empty body, no delays and no faults.
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
