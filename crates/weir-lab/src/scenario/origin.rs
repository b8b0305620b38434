//! The upstream in a scenario: weir's own origin, another server, or a service.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_document::{Delay, Drift, Named, QuantityError, Share, Size, Slow, Stall};

use crate::agents::Place;

/// The upstream: weir's own origin, another server, or a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Use another server as upstream: the name of its driver, like `nginx`. The server returns status 200 and `body`
    /// for every path. Only `replicas`, `body` and `workers` apply to it; delays, errors and faults are not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Agent that runs the upstream on another host: `ssh:HOST`, `agents:1` for an agent that you start, or `local:1`
    /// for this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Place>,
    /// Number of servers, each with its own port, workers, limits and seed. Gateways balance over all of them.
    /// Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Size of the response body.
    #[serde(default = "default_body")]
    pub body: Size,
    /// Respond with the body of the request instead of `body`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub echo: bool,
    /// Delay of each response: `const:5ms`, `uniform:1ms..9ms`, `exp:5ms` (mean), `lognormal:5ms,0.5` or
    /// `bimodal:1ms,20ms,10%`.
    #[serde(default, skip_serializing_if = "Delay::is_none")]
    #[schemars(extend("x-default" = "`none`"))]
    pub delay: Delay,
    /// A time or the name of a service. A time like `exp:5ms` is the service time of one FIFO queue for all requests;
    /// use it instead of `delay`. A name like `kubernetes-api` makes this service the upstream. Then `prepare` is the
    /// only other field, and the scenario needs `topology.tls`, and either client certificates or tokens.
    #[serde(default, skip_serializing_if = "OriginService::is_none")]
    pub service: OriginService,
    /// Settings of the service that is the upstream: the data that exists before the load, like
    /// `{ configmaps: 50, size: 4KiB }`.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub prepare: Named<Value>,
    /// Number of requests that the queue of `service` serves at the same time. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Increase of the delay over time: `1ms/10s` adds 1 ms every 10 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Periodic stalls: `200ms/1s` stops all responses for the first 200 ms of each second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Seed of random delays and service times. Default: 1, so all cells have the same delays and service times. With a
    /// capacity search, each repeat has another seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Busy-wait for more precise delays; uses a whole core per worker.
    #[serde(default)]
    pub spin: bool,
    /// Share of requests that get status 500.
    #[serde(default)]
    pub errors: Share,
    /// Faults in addition to `errors`.
    #[serde(default, skip_serializing_if = "OriginFaults::is_none")]
    pub faults: OriginFaults,
    /// Disable HTTP/2.
    #[serde(default, skip_serializing_if = "is_false")]
    pub http1_only: bool,
    /// Limits and errors of HTTP/2.
    #[serde(default, skip_serializing_if = "OriginHttp2::is_none")]
    pub http2: OriginHttp2,
    /// Serve TLS; `{}` makes a certificate for localhost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<OriginTls>,
    /// Worker threads. Default: the CPU limit of the upstream, rounded up; 1 without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
}

/// The value of the field `service` of the upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OriginService {
    /// Not set.
    #[default]
    None,
    /// The time that weir's own origin needs to serve a request.
    Time(Delay),
    /// The name of the service that is the upstream.
    Named(String),
}

impl OriginService {
    /// Whether the field is not set, or is `none`.
    pub fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Time(delay) => delay.is_none(),
            Self::Named(_) => false,
        }
    }

    /// The name of the service that is the upstream; `None` if the upstream is not a service.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::None | Self::Time(_) => None,
        }
    }

    /// The time that weir's own origin needs to serve a request.
    pub fn time(&self) -> Delay {
        match self {
            Self::Time(delay) => *delay,
            Self::None | Self::Named(_) => Delay::None,
        }
    }
}

impl TryFrom<String> for OriginService {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        let is_name = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        match text.parse() {
            Ok(delay) => Ok(Self::Time(delay)),
            Err(_) if is_name(&text) => Ok(Self::Named(text)),
            Err(error) => Err(error),
        }
    }
}

impl From<OriginService> for String {
    fn from(service: OriginService) -> Self {
        match service {
            OriginService::None => Delay::None.to_string(),
            OriginService::Time(delay) => delay.to_string(),
            OriginService::Named(name) => name,
        }
    }
}

impl JsonSchema for OriginService {
    fn schema_name() -> Cow<'static, str> {
        "OriginService".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A service time like `exp:5ms`, or the name of the service to use as upstream.",
            "type": "string"
        })
    }
}

/// Faults of weir's own upstream. Each share is exact: it is not drawn at random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginFaults {
    /// Share of requests whose connection is reset (HTTP/2: whose stream is reset).
    #[serde(default)]
    pub resets: Share,
    /// Share of responses that end after half of the body.
    #[serde(default)]
    pub half: Share,
    /// Share of responses with a slow body, and the time to send it, like `1%:2s`. A slow body is sent in ten pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
    /// Accept connections and read requests, but never respond.
    #[serde(default)]
    pub silent: bool,
    /// Number of responses after which an HTTP/1.1 connection is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close_after: Option<u32>,
}

/// HTTP/2 limits and errors of the upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginHttp2 {
    /// Number of requests after which a connection gets GOAWAY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goaway: Option<u32>,
    /// Maximum number of concurrent streams per connection. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    /// Share of requests that get REFUSED_STREAM.
    #[serde(default)]
    pub refuse: Share,
}

/// TLS of the upstream. The certificate is generated at the start, or read from files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginTls {
    /// Names in the generated certificate, in addition to localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// File to which the CA certificate is written (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_out: Option<String>,
    /// Make a certificate that has expired.
    #[serde(default, skip_serializing_if = "is_false")]
    pub expired: bool,
    /// File with a certificate chain (PEM). weir then makes no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// File with the private key of `cert` (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Default for Origin {
    fn default() -> Self {
        Self {
            driver: None,
            on: None,
            replicas: None,
            body: default_body(),
            echo: false,
            delay: Delay::None,
            service: OriginService::None,
            prepare: Named::default(),
            servers: None,
            drift: None,
            stall: None,
            seed: None,
            spin: false,
            errors: Share(0.0),
            faults: OriginFaults::default(),
            http1_only: false,
            http2: OriginHttp2::default(),
            tls: None,
            workers: None,
        }
    }
}

impl Origin {
    /// Whether weir's own origin delays responses, and reports the delays.
    pub fn is_timed(&self) -> bool {
        !self.delay.is_none()
            || !self.service.time().is_none()
            || self.drift.is_some()
            || self.stall.is_some()
    }

    /// Number of servers of the upstream.
    pub fn replica_count(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// The names of the given fields that only weir's own origin supports.
    pub(crate) fn own_fields(&self) -> impl Iterator<Item = &'static str> {
        let default = Self::default();
        let fields = [
            ("echo", self.echo != default.echo),
            ("delay", !self.delay.is_none()),
            ("service", !self.service.is_none()),
            ("servers", self.servers.is_some()),
            ("stall", self.stall.is_some()),
            ("drift", self.drift.is_some()),
            ("seed", self.seed.is_some()),
            ("spin", self.spin),
            ("errors", self.errors != default.errors),
            ("faults", !self.faults.is_none()),
            ("http1_only", self.http1_only),
            ("http2", !self.http2.is_none()),
            ("tls", self.tls.is_some()),
        ];
        fields.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The total share of requests that get an error or another fault.
    pub(crate) fn shares(&self) -> f64 {
        let slow = self.faults.slow.map_or(0.0, |slow| slow.share.0);
        self.errors.0 + self.faults.resets.0 + self.faults.half.0 + slow + self.http2.refuse.0
    }

    /// The arguments of `weir origin`, except address and workers.
    pub fn arguments(&self) -> Vec<String> {
        let (faults, http2) = (&self.faults, &self.http2);
        let share = |share: Share| (share.0 > 0.0).then(|| share.to_string());
        let delay = |delay: Delay| (!delay.is_none()).then(|| delay.to_string());
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let mut options = vec![
            ("body", (!self.echo).then(|| self.body.to_string())),
            ("delay", delay(self.delay)),
            ("service", delay(self.service.time())),
            ("servers", number(self.servers)),
            ("drift", self.drift.map(|drift| drift.to_string())),
            ("stall", self.stall.map(|stall| stall.to_string())),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("errors", share(self.errors)),
            ("resets", share(faults.resets)),
            ("half", share(faults.half)),
            ("slow", faults.slow.map(|slow| slow.to_string())),
            ("close-after", number(faults.close_after)),
            ("goaway", number(http2.goaway)),
            ("max-streams", number(http2.max_streams)),
            ("refuse", share(http2.refuse)),
        ];
        let mut flags = vec![
            ("echo", self.echo),
            ("spin", self.spin),
            ("silent", faults.silent),
            ("http1-only", self.http1_only),
        ];
        if let Some(tls) = &self.tls {
            options.extend(tls.domains.iter().map(|domain| ("domain", Some(domain.clone()))));
            options.extend([
                ("ca-out", tls.ca_out.clone()),
                ("cert", tls.cert.clone()),
                ("key", tls.key.clone()),
            ]);
            flags.extend([("tls", tls.cert.is_none()), ("expired", tls.expired)]);
        }
        let options = options.into_iter().filter_map(|(name, value)| Some([format!("--{name}"), value?]));
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("--{name}"));
        options.flatten().chain(flags).collect()
    }
}

impl OriginFaults {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl OriginHttp2 {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_body() -> Size {
    Size(64)
}
