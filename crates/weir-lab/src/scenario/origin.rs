//! The upstream in a scenario: weir's own origin, of which each field is an argument, or another server.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_document::{Delay, Drift, Named, QuantityError, Share, Size, Slow, Stall};

use crate::agents::Place;

/// The upstream: weir's own origin or another server, in replicas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The driver of another server that plays the upstream; it has a body and workers, and nothing else of what
    /// follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The agent that runs it on another host: `ssh:HOST`, `agents:1` for one that the user starts, or `local:1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Place>,
    /// How many of it run, each with its own port, workers and limits; one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Size of the body that it answers with.
    #[serde(default = "default_body")]
    pub body: Size,
    /// It answers with the request's own body in place of that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub echo: bool,
    /// Delay of its answers, as `const:1ms` or `exp:5ms`.
    #[serde(default, skip_serializing_if = "Delay::is_none")]
    pub delay: Delay,
    /// One queue in place of the delay: the time that each request is served, as `exp:5ms`. Or the name of a service that
    /// plays the upstream, as `kubernetes-api`; it has `prepare`, and nothing else of what is here.
    #[serde(default, skip_serializing_if = "OriginService::is_none")]
    pub service: OriginService,
    /// Settings of the service that plays the upstream: the data that it has before the load.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub prepare: Named<Value>,
    /// Requests that the queue serves at once; by default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// How much longer answers wait as time goes on, as `1ms/10s` for a millisecond more with every ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Stops in which nothing is answered, as `200ms/1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// Seed of delays and service times; by default 1, so that all cells have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether delays are waited out by spinning, which needs a core for each worker: truer times.
    #[serde(default)]
    pub spin: bool,
    /// Share of answers with status 500.
    #[serde(default)]
    pub errors: Share,
    /// What goes wrong beside these errors.
    #[serde(default, skip_serializing_if = "OriginFaults::is_none")]
    pub faults: OriginFaults,
    /// It speaks no HTTP/2.
    #[serde(default, skip_serializing_if = "is_false")]
    pub http1_only: bool,
    /// How it speaks HTTP/2.
    #[serde(default, skip_serializing_if = "OriginHttp2::is_none")]
    pub http2: OriginHttp2,
    /// It speaks TLS; `{}` for a certificate of its own making.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<OriginTls>,
    /// Worker threads; by default its CPU limit rounded up, without a limit one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
}

/// What the field `service` of an origin says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OriginService {
    /// Nothing.
    #[default]
    None,
    /// The time that the built-in origin serves a request.
    Time(Delay),
    /// The service of that name plays the upstream.
    Named(String),
}

impl OriginService {
    /// Whether it says nothing.
    pub fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Time(delay) => delay.is_none(),
            Self::Named(_) => false,
        }
    }

    /// The service that plays the upstream.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::None | Self::Time(_) => None,
        }
    }

    /// The time that the built-in origin serves a request.
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
            "description": "A time, as `exp:5ms`, or the name of a service that plays the upstream.",
            "type": "string"
        })
    }
}

/// What goes wrong in the upstream as it was asked to; each share is met exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginFaults {
    /// Share of requests whose connection is reset, over HTTP/2 their stream.
    #[serde(default)]
    pub resets: Share,
    /// Share of requests answered with the head and half of the body.
    #[serde(default)]
    pub half: Share,
    /// Share of requests whose body comes slowly, and the time that it takes, as `1%:2s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
    /// It accepts and reads, and never answers.
    #[serde(default)]
    pub silent: bool,
    /// Responses after which an HTTP/1.1 connection is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close_after: Option<u32>,
}

/// How the upstream speaks HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginHttp2 {
    /// Requests after which a connection is told to go away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goaway: Option<u32>,
    /// Streams that a connection may have open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    /// Share of requests whose stream is refused.
    #[serde(default)]
    pub refuse: Share,
}

/// How the upstream speaks TLS: with a certificate made on start, or with a given one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginTls {
    /// Names that the made certificate is for, beside localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// File that gets the made authority's certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_out: Option<String>,
    /// The made certificate has expired.
    #[serde(default, skip_serializing_if = "is_false")]
    pub expired: bool,
    /// A given certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// Its key, PEM.
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
    /// Whether its answers have times of their own, which it then accounts for.
    pub fn is_timed(&self) -> bool {
        !self.delay.is_none()
            || !self.service.time().is_none()
            || self.drift.is_some()
            || self.stall.is_some()
    }

    /// How many servers it is.
    pub fn replica_count(&self) -> u32 {
        self.replicas.unwrap_or(1)
    }

    /// The first field that only weir's own origin has and that is given.
    pub(crate) fn own_field(&self) -> Option<&'static str> {
        let default = Self::default();
        let fields = [
            ("echo", self.echo != default.echo),
            ("delay", !self.delay.is_none()),
            ("service", !self.service.is_none()),
            ("servers", self.servers.is_some()),
            ("stall", self.stall.is_some()),
            ("seed", self.seed.is_some()),
            ("spin", self.spin),
            ("errors", self.errors != default.errors),
            ("faults", !self.faults.is_none()),
            ("http1_only", self.http1_only),
            ("http2", !self.http2.is_none()),
            ("tls", self.tls.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// All shares of requests that do not get a good answer.
    pub(crate) fn shares(&self) -> f64 {
        let slow = self.faults.slow.map_or(0.0, |slow| slow.share.0);
        self.errors.0 + self.faults.resets.0 + self.faults.half.0 + slow + self.http2.refuse.0
    }

    /// The arguments of `weir origin`, but for address and workers.
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
