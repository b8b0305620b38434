//! What an origin does, as it is asked for.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use weir_document::{Delay, Drift, Share, Slow, Stall};

use crate::OriginError;
use crate::outcome::Outcome;

/// Servers that a queue may have.
const SERVERS_MAX: usize = 100_000;

/// How far the sum of shares may be off the whole by the rounding of each.
const SHARES_ROUNDING: f64 = 1e-9;

/// What an origin does.
#[derive(Clone, Debug)]
pub struct OriginSpec {
    /// Where it listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Bytes of each body.
    pub body_bytes: u64,
    /// Whether a request's own body is the answer's, in place of `body_bytes`.
    pub is_echo: bool,
    /// How long each answer waits, from the whole request to the first byte of the response.
    pub delay: Delay,
    /// A queue in place of the delay.
    pub service: Option<ServiceSpec>,
    /// How much longer answers wait as time goes on, counted from the origin's start.
    pub drift: Option<Drift>,
    /// Stops in which nothing is answered, counted from the origin's start.
    pub stall: Option<Stall>,
    /// Seed of delays and service times.
    pub seed: u64,
    /// Whether delays are waited out by spinning, which needs a core for each worker. A processor that sleeps may be
    /// woken late, by milliseconds now and then under a hypervisor.
    pub spin: bool,
    /// Answers that are not as they should be.
    pub faults: FaultSpec,
    /// Whether it accepts and reads, and never answers.
    pub is_silent: bool,
    /// The response of an HTTP/1.1 connection that is its last; `None` for no last one.
    pub close_after: Option<NonZeroU32>,
    /// Whether HTTP/2 is spoken too, and how.
    pub http2: Http2Spec,
    /// TLS; `None` is plain text.
    pub tls: Option<TlsSpec>,
    /// Threads.
    pub workers: usize,
    /// CPUs that the workers are bound to, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
}

/// One queue over all connections and workers: first come, first served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceSpec {
    /// How long a request is served.
    pub time: Delay,
    /// How many are served at once.
    pub servers: NonZeroUsize,
}

/// Shares of the requests that get something else than a good answer. Each is met exactly, over all workers,
/// and no request gets two of them; together they are no more than the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSpec {
    /// Answered with 500.
    pub errors: Share,
    /// Their connection is reset, over HTTP/2 their stream.
    pub resets: Share,
    /// Answered with the head and half of the body.
    pub half: Share,
    /// Answered with a body that comes in ten pieces over this time.
    pub slow: Option<Slow>,
    /// Their stream is refused; HTTP/2 only.
    pub refuse: Share,
}

/// How HTTP/2 is spoken, beside HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2Spec {
    /// Not at all.
    pub is_off: bool,
    /// Requests of a connection after which it is told to go away, gracefully.
    pub goaway_after: Option<NonZeroU32>,
    /// Streams that a connection may have open at once.
    pub max_streams: Option<NonZeroU32>,
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSpec {
    /// With a certificate made on start, of an authority made on start: [`Origin::ca_pem`](crate::Origin::ca_pem).
    Made {
        /// Names that it is for, beside `localhost`, 127.0.0.1 and ::1.
        domains: Vec<String>,
        /// Whether it has expired.
        is_expired: bool,
    },
    /// With a given one.
    Given {
        /// PEM of the certificate, and of those above it.
        cert: PathBuf,
        /// PEM of its key.
        key: PathBuf,
    },
}

impl OriginSpec {
    /// A plain origin at an address: one worker, an empty body, no delay, no faults.
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

    /// Whether answers have times of their own; without, it is a server like any other.
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
