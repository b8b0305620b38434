//! What a configuration file can say.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Size, Time};

mod drain;
mod tls;

use crate::access_log::{AccessLog, Metrics};
use crate::backend_limits::BackendLimits;
use crate::backend_timeouts::BackendTimeouts;
use crate::balance::Balance;
use crate::endpoint::Endpoint;
use crate::filters::{
    Compress, Cors, HeaderChanges, Mirror, Redirect, Respond, Rewrite, RouteTimeouts, WeightedBackend,
};
use crate::forwarding::Forwarding;
use crate::health::{Ejection, HealthCheck};
use crate::keepalive::Keepalive;
use crate::matches::ValueMatch;
use crate::overload::Overload;
use crate::path::PathRules;
use crate::pattern::PATTERN_BYTES_MAX;
use crate::precedence::Precedence;
use crate::program_log::ProgramLog;
use crate::resolver::Resolver;
use crate::retries::Retries;
use crate::schema::{ACTIONS, ADDRESS, HOST, PATH, TOKEN, one_of};
use crate::trailers::Trailers;
use crate::validate::{FIELDS, WORKERS_MAX};
pub use drain::Drain;
pub use tls::{
    BackendTls, CertificateFiles, ClientAuth, Instead, Passthrough, TicketKeys, Tickets, Tls, TlsVersion,
};

/// A whole configuration, as a file holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Addresses where the gateway accepts clients; each must be unique. In a directory of files, at least one file
    /// needs listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "address": "127.0.0.1:8080" }]))]
    pub listeners: Vec<Listener>,
    /// Number of worker threads. Each has its own sockets and upstream connections. A reload can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = WORKERS_MAX), example = 2)]
    #[schemars(extend("x-unit" = "threads", "x-default" = "one per CPU, limited by the cgroup quota"))]
    pub workers: Option<u32>,
    /// Routes from requests to backends. The most specific route wins; the order does not matter.
    #[serde(default)]
    #[schemars(example = json!([{ "path": "/", "backend": "web" }]))]
    pub routes: Vec<Route>,
    /// The services behind the gateway, by name.
    #[serde(default)]
    #[schemars(example = json!({ "web": { "endpoints": ["127.0.0.1:9000"] } }))]
    pub backends: BTreeMap<String, Backend>,
    /// Normalization of request paths, before routing.
    #[serde(default)]
    #[schemars(example = json!({ "escaped_slashes": "reject" }), extend("x-default" = "see its fields"))]
    pub paths: PathRules,
    /// DNS servers that resolve the host names of endpoints.
    #[serde(default)]
    pub resolver: Resolver,
    /// Limits on sizes and connections.
    #[serde(default)]
    #[schemars(example = json!({ "body": "10MB" }), extend("x-default" = "see its fields"))]
    pub limits: Limits,
    /// Thresholds above which the gateway sheds load (503).
    #[serde(default)]
    #[schemars(example = json!({ "memory": "90%" }), extend("x-default" = "never"))]
    pub overload: Overload,
    /// Timeouts of clients and upstreams.
    #[serde(default)]
    #[schemars(example = json!({ "response": "2m" }), extend("x-default" = "see its fields"))]
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    #[serde(default)]
    #[schemars(example = json!({ "timeout": "1m" }), extend("x-default" = "see its fields"))]
    pub drain: Drain,
    /// One log line per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "file": "access.log" }))]
    pub access_log: Option<AccessLog>,
    /// Log of the program itself, on standard error.
    #[serde(default)]
    #[schemars(example = json!({ "level": "info" }), extend("x-default" = "see its fields"))]
    pub log: ProgramLog,
    /// Optional metrics.
    #[serde(default)]
    #[schemars(example = json!({ "latency": false }), extend("x-default" = "see its fields"))]
    pub metrics: Metrics,
    /// Headers with client address, request ID and trace that the gateway adds to upstream requests.
    #[serde(default)]
    #[schemars(example = json!({ "x_forwarded": true }), extend("x-default" = "see its fields"))]
    pub forwarding: Forwarding,
    /// Request fields pass whose names hold other characters than letters, digits and `-`. By default they are dropped:
    /// to many servers `X_Forwarded_For` is the same field as `X-Forwarded-For`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = &true, extend("x-default" = false))]
    pub underscores_in_headers: bool,
    /// Which trailers pass.
    #[serde(default)]
    #[schemars(example = json!({ "response": ["Server-Timing"] }), extend("x-default" = "none"))]
    pub trailers: Trailers,
}

/// An address that accepts client connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// IP address and port. With port 0, the system chooses a port.
    #[schemars(with = "String", regex(pattern = ADDRESS), example = "127.0.0.1:8080")]
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Name in metrics, logs and `routes[].listeners`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"public", extend("x-default" = "the address"))]
    pub name: Option<String>,
    /// TLS settings for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "certificate": "shop.pem", "key": "shop.key" }))]
    #[schemars(extend("x-default" = "no TLS"))]
    pub tls: Option<Box<Tls>>,
    /// TLS passthrough by server name (SNI). Other names use `tls`; without `tls` the gateway closes their
    /// connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "hosts": ["bank.example"], "backend": "sealed" }]))]
    pub passthrough: Vec<Passthrough>,
    /// Require a PROXY protocol header (version 1 or 2) with the client address on every connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-default" = "`false`"))]
    pub proxy_protocol: bool,
    /// If true, clients that close their sending side (FIN) early still get a response. If false, the gateway treats
    /// them as disconnected and cancels the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = &true, extend("x-default" = false))]
    pub half_close: bool,
}

impl Listener {
    /// One that speaks plain text.
    pub fn plain(address: SocketAddr) -> Listener {
        Listener {
            address,
            name: None,
            tls: None,
            passthrough: Vec::new(),
            proxy_protocol: false,
            half_close: false,
        }
    }

    /// What routes call it: its name, else its address as it is configured.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.address.to_string()),
        }
    }
}

/// Matches requests and defines what happens to them. Set exactly one of `path`, `exact` and `regex`, and exactly
/// one of `backend`, `backends`, `redirect` and `respond`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [one_of(&["path", "exact", "regex"]), one_of(&ACTIONS)]))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Name in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "its position"))]
    pub name: Option<String>,
    /// Match only requests to these listeners, by name, or by address if they have no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["public"]), extend("x-default" = "every listener"))]
    pub listeners: Vec<String>,
    /// Host names, exact or `*.suffix` (at least one label before the suffix).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST)), example = json!(["example.com", "*.example.org"]))]
    #[schemars(extend("x-default" = "every host"))]
    pub hosts: Vec<String>,
    /// Path prefix of whole segments: `/api` matches `/api` and `/api/x`, not `/apix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/api")]
    pub path: Option<String>,
    /// Exact path, or a list of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!(["/health", "/version"]))]
    pub exact: Option<OneOrMany>,
    /// Regular expression that must match the whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PATTERN_BYTES_MAX), example = "/users/[0-9]+")]
    pub regex: Option<String>,
    /// Methods; case-sensitive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["GET", "HEAD"]))]
    #[schemars(extend("x-default" = "every method"))]
    pub methods: Vec<String>,
    /// Required request headers; names ignore case. Repeated headers are joined with commas.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "x-version": "2" }))]
    pub headers: BTreeMap<String, ValueMatch>,
    /// Required query parameters, by decoded name. If a parameter is repeated, the first one counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "preview": { "present": true } }))]
    pub query: BTreeMap<String, ValueMatch>,
    /// Name of the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"web")]
    pub backend: Option<String>,
    /// Several backends that share the requests by weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!([{ "backend": "web", "weight": 9 }, { "backend": "next", "weight": 1 }]))]
    pub backends: Option<Vec<WeightedBackend>>,
    /// Redirect the client to another URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "scheme": "https", "status": 301 }))]
    pub redirect: Option<Box<Redirect>>,
    /// Send a fixed response without a backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "status": 503 }))]
    pub respond: Option<Box<Respond>>,
    /// Change the path or host of upstream requests. The query stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "/v2", extend("x-default" = "unchanged"))]
    pub rewrite: Option<Rewrite>,
    /// Changes to the request headers that the upstream receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "set": { "X-Tier": "gold" } }))]
    pub request_headers: Option<Box<HeaderChanges>>,
    /// Changes to the response headers that the client receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "remove": ["Server"] }))]
    pub response_headers: Option<Box<HeaderChanges>>,
    /// Origins whose web pages may read the responses (CORS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "origins": ["https://app.example.org"] }))]
    pub cors: Option<Box<Cors>>,
    /// Compression of responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "types": ["text/*", "application/json"], "gzip": 6 }))]
    pub compress: Option<Box<Compress>>,
    /// Another backend that receives copies of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "backend": "next", "share": "10%" }))]
    pub mirror: Option<Box<Mirror>>,
    /// Timeouts of this route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "request": "10s" }))]
    pub timeouts: Option<Box<RouteTimeouts>>,
    /// Retries of failed requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Box<Retries>>,
    /// File of accepted bearer tokens, one per line, relative to the directory of the configuration. Requests
    /// without one of them get 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "tokens.lst", extend("x-default" = "no authentication"))]
    pub tokens: Option<String>,
    /// Its place among routes for the same requests. Two routes without one must not want the same.
    #[serde(skip)]
    pub precedence: Option<Box<Precedence>>,
    /// Group in metrics. Routes with the same group are counted together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "name of the backend"))]
    pub metrics_group: Option<String>,
}

impl Route {
    /// The paths that it names, each with its field.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (PathField, &str)> {
        let prefix = self.path.iter().map(|path| (PathField::Path, path.as_str()));
        let exact = self.exact.iter().flat_map(OneOrMany::as_slice).enumerate();
        prefix.chain(exact.map(|(index, path)| (PathField::Exact(index), path.as_str())))
    }

    /// Whether a manifest of Gateway API says it, by which some things are right that the compact form takes for mistakes.
    pub(crate) fn is_of_manifest(&self) -> bool {
        self.precedence.is_some()
    }
}

/// Where a route names a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathField {
    Path,
    /// The place in the list.
    Exact(usize),
}

impl fmt::Display for PathField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathField::Path => f.write_str("path"),
            PathField::Exact(index) => write!(f, "exact[{index}]"),
        }
    }
}

/// One string or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// `exact: /a`
    One(String),
    /// `exact: [/a, /b]`
    Many(Vec<String>),
}

impl OneOrMany {
    /// All of them.
    pub fn as_slice(&self) -> &[String] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// A service behind the gateway, with one or more endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Addresses of the service. If the list is empty, requests get 503.
    #[schemars(example = json!(["127.0.0.1:9000"]))]
    pub endpoints: Vec<Endpoint>,
    /// Load balancing algorithm.
    #[serde(default, skip_serializing_if = "Balance::is_default")]
    #[schemars(extend("x-default" = "`round_robin`"))]
    pub balance: Balance,
    /// Time in which a new or recovered endpoint ramps up to its full share of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Time>,
    /// TLS settings for connections to the endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "sni": "web.internal" }), extend("x-default" = "no TLS"))]
    pub tls: Option<BackendTls>,
    /// Active health checks. Unhealthy endpoints get no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Box<HealthCheck>>,
    /// Passive health checks: eject endpoints with too many errors for some time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// Connection and request limits of this backend.
    #[serde(default, skip_serializing_if = "BackendLimits::is_default")]
    pub limits: BackendLimits,
    /// Timeouts of this backend; they override those of the gateway.
    #[serde(default, skip_serializing_if = "BackendTimeouts::is_default")]
    pub timeouts: BackendTimeouts,
    /// Send a PROXY protocol header of this version on each connection. Default: no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyVersion>,
    /// Limits on the lifetime of a connection.
    #[serde(default, skip_serializing_if = "Keepalive::is_default")]
    pub keepalive: Keepalive,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyVersion {
    /// Text format.
    V1,
    /// Binary format.
    V2,
}

/// Limits on sizes and connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum size of request or response headers, including the start line; 1KiB to 1MiB.
    pub head: Size,
    /// Maximum number of header fields.
    #[schemars(range(min = *FIELDS.start(), max = *FIELDS.end()), extend("x-unit" = "fields"))]
    pub fields: u32,
    /// Maximum size of a request body.
    pub body: Size,
    /// Maximum number of client connections, per process.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub connections: u32,
    /// Maximum number of client connections per client address (IPv6: per /64 network), per process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 100, extend("x-unit" = "connections", "x-default" = "no limit"))]
    pub connections_per_address: Option<u32>,
    /// Maximum number of connections per backend, per process. `limits.pending` of the backend sets how many
    /// requests can wait for one.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub upstream_connections: u32,
    /// Maximum number of idle connections per worker and endpoint.
    #[schemars(extend("x-unit" = "connections"))]
    pub idle_upstream_connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: Size(32 << 10),
            fields: 100,
            body: Size(1 << 30),
            connections: 10_000,
            connections_per_address: None,
            upstream_connections: 8_192,
            idle_upstream_connections: 512,
        }
    }
}

/// Timeouts of clients and upstreams. Their resolution is 100 ms: a timeout expires up to 200 ms late and never
/// early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// Time from the first byte of a request to the end of its headers.
    pub head: Time,
    /// Time without progress while reading a request or response body.
    pub body: Time,
    /// Time without progress while writing to a client or an upstream.
    pub write: Time,
    /// Time to connect to an upstream.
    pub connect: Time,
    /// Time from the complete request to the response headers.
    pub response: Time,
    /// Idle time of a client connection between two requests.
    pub idle: Time,
    /// Idle time of an upstream connection between two requests.
    pub upstream_idle: Time,
    /// Time without data in either direction of an upgraded connection.
    pub upgraded: Time,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |s| Time(Duration::from_secs(s));
        Timeouts {
            head: seconds(10),
            body: seconds(30),
            write: seconds(30),
            connect: seconds(5),
            response: seconds(60),
            idle: seconds(75),
            upstream_idle: seconds(55),
            upgraded: seconds(3600),
        }
    }
}

/// What holds for the whole gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Worker threads; `None` is one for each CPU, or what the cgroup's quota is worth.
    pub workers: Option<u32>,
    /// What is done to the paths of requests.
    pub paths: PathRules,
    /// DNS servers that resolve the host names of endpoints.
    pub resolver: Box<Resolver>,
    /// Limits on sizes and connections.
    pub limits: Limits,
    /// Thresholds above which the gateway sheds load (503).
    pub overload: Overload,
    /// Timeouts of clients and upstreams.
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    pub drain: Drain,
    /// One log line per request.
    pub access_log: Option<AccessLog>,
    /// Log of the program itself, on standard error.
    pub log: ProgramLog,
    /// Optional metrics.
    pub metrics: Metrics,
    /// Headers with client address, request ID and trace that the gateway adds to upstream requests.
    pub forwarding: Forwarding,
    /// Request fields pass whose names hold other characters than letters, digits and `-`.
    pub underscores_in_headers: bool,
    /// Which trailers pass.
    pub trailers: Trailers,
}

// What serde would say of these by itself names Rust's types. The text of an error is `cause; remedy`.

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany, D::Error> {
        struct Paths;

        impl<'de> Visitor<'de> for Paths {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a list of paths")
            }

            fn visit_str<E: de::Error>(self, one: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(one.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
            }
        }

        deserializer.deserialize_any(Paths)
    }
}

pub(crate) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let addresses = Vec::<Address>::deserialize(deserializer)?;
    Ok(addresses.into_iter().map(|address| address.0).collect())
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    Address::deserialize(deserializer).map(|address| address.0)
}

struct Address(SocketAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Address;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address with a port, like 127.0.0.1:8080 or [::1]:8080")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
                text.parse().map(Address).map_err(|_| {
                    E::custom(format!(
                        "`{text}` is not an IP address with a port; write it like 127.0.0.1:8080 or '[::1]:8080'; \
                         host names are not allowed here"
                    ))
                })
            }
        }

        deserializer.deserialize_any(Text)
    }
}
