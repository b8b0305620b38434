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
use crate::validate::{FIELDS, WORKERS_MAX};
pub use drain::Drain;
pub use tls::{
    BackendTls, CertificateFiles, ClientAuth, Instead, Passthrough, TicketKeys, Tickets, Tls, TlsVersion,
};

/// A whole configuration, as a file holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Where clients connect, each with an address of its own. Of the files of one folder at least one says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "address": "127.0.0.1:8080" }]))]
    pub listeners: Vec<Listener>,
    /// Worker threads, each with sockets and upstream connections of its own. A reload may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = WORKERS_MAX), example = 2)]
    #[schemars(extend("x-unit" = "threads", "x-default" = "one for each CPU, or as many as the quota of the cgroup is worth"))]
    pub workers: Option<u32>,
    /// What goes where. The most specific route wins, whatever the order.
    #[serde(default)]
    #[schemars(example = json!([{ "path": "/", "backend": "web" }]))]
    pub routes: Vec<Route>,
    /// The services behind the gateway, by name.
    #[serde(default)]
    #[schemars(example = json!({ "web": { "endpoints": ["127.0.0.1:9000"] } }))]
    pub backends: BTreeMap<String, Backend>,
    /// What is done to the paths of requests.
    #[serde(default)]
    #[schemars(example = json!({ "escaped_slashes": "reject" }), extend("x-default" = "as its fields"))]
    pub paths: PathRules,
    /// Who is asked for the addresses of names.
    #[serde(default)]
    pub resolver: Resolver,
    /// Bounds on what is held.
    #[serde(default)]
    #[schemars(example = json!({ "body": "10MB" }), extend("x-default" = "as its fields"))]
    pub limits: Limits,
    /// From when on new requests are turned away.
    #[serde(default)]
    #[schemars(example = json!({ "memory": "90%" }), extend("x-default" = "never"))]
    pub overload: Overload,
    /// Bounds on what is waited for.
    #[serde(default)]
    #[schemars(example = json!({ "response": "2m" }), extend("x-default" = "as its fields"))]
    pub timeouts: Timeouts,
    /// How it ends.
    #[serde(default)]
    #[schemars(example = json!({ "timeout": "1m" }), extend("x-default" = "as its fields"))]
    pub drain: Drain,
    /// A line for each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "file": "access.log" }))]
    pub access_log: Option<AccessLog>,
    /// What the program tells of itself.
    #[serde(default)]
    #[schemars(example = json!({ "level": "info" }), extend("x-default" = "as its fields"))]
    pub log: ProgramLog,
    /// What is counted beside what is counted always.
    #[serde(default)]
    #[schemars(example = json!({ "latency": true }), extend("x-default" = "as its fields"))]
    pub metrics: Metrics,
    /// What is added to requests for upstreams.
    #[serde(default)]
    #[schemars(example = json!({ "x_forwarded": true }), extend("x-default" = "as its fields"))]
    pub forwarding: Forwarding,
}

/// One address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// IP address and port; port 0 lets the system choose.
    #[schemars(with = "String", regex(pattern = ADDRESS), example = "127.0.0.1:8080")]
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// The name in counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"public", extend("x-default" = "the address"))]
    pub name: Option<String>,
    /// TLS with clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "certificate": "shop.pem", "key": "shop.key" }))]
    #[schemars(extend("x-default" = "plain text"))]
    pub tls: Option<Box<Tls>>,
    /// Clients whose TLS is passed on sealed. Whoever asks for another name meets `tls`, or is closed without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "hosts": ["bank.example"], "backend": "sealed" }]))]
    pub passthrough: Vec<Passthrough>,
    /// Each connection begins with a header of the PROXY protocol, version 1 or 2, that names its client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-default" = "`false`"))]
    pub proxy_protocol: bool,
    /// A client that ends its side of the connection (FIN) before its answer has come is answered all the same. Else it
    /// is taken to have left, and its request is given up.
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

/// What becomes of the requests that match. It says exactly one of `path`, `exact` and `regex`, and one of `backend`,
/// `backends`, `redirect` and `respond`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [one_of(&["path", "exact", "regex"]), one_of(&ACTIONS)]))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The name in messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "its position"))]
    pub name: Option<String>,
    /// Listeners by their names, or by their addresses where they have none: the route is for their clients alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["public"]), extend("x-default" = "every listener"))]
    pub listeners: Vec<String>,
    /// Host names, exact or `*.suffix` (one label or more before the suffix).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST)), example = json!(["example.com", "*.example.org"]))]
    #[schemars(extend("x-default" = "every host"))]
    pub hosts: Vec<String>,
    /// A path prefix, matched by whole segments: `/api` matches `/api` and `/api/x`, not `/apix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/api")]
    pub path: Option<String>,
    /// Whole paths, one or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!(["/health", "/version"]))]
    pub exact: Option<OneOrMany>,
    /// A regular expression for the whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PATTERN_BYTES_MAX), example = "/users/[0-9]+")]
    pub regex: Option<String>,
    /// Methods, by their case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["GET", "HEAD"]))]
    #[schemars(extend("x-default" = "every method"))]
    pub methods: Vec<String>,
    /// Fields that a request has, by name, whatever its case. Several of one name make one list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "x-version": "2" }))]
    pub headers: BTreeMap<String, ValueMatch>,
    /// Parameters that its query has, by name, decoded. Of several with one name the first counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "preview": { "present": true } }))]
    pub query: BTreeMap<String, ValueMatch>,
    /// The backend's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"web")]
    pub backend: Option<String>,
    /// Several backends that share the requests by their weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!([{ "backend": "web", "weight": 9 }, { "backend": "next", "weight": 1 }]))]
    pub backends: Option<Vec<WeightedBackend>>,
    /// Sends the client elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "scheme": "https", "status": 301 }))]
    pub redirect: Option<Box<Redirect>>,
    /// Answers without a backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "status": 503 }))]
    pub respond: Option<Box<Respond>>,
    /// What the upstream is asked for in place of what the client asked for; the query is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = "/v2", extend("x-default" = "as it came"))]
    pub rewrite: Option<Rewrite>,
    /// Changes to the fields that the upstream gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "set": { "X-Tier": "gold" } }))]
    pub request_headers: Option<Box<HeaderChanges>>,
    /// Changes to the fields that the client gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "remove": ["Server"] }))]
    pub response_headers: Option<Box<HeaderChanges>>,
    /// Which pages of other origins may use the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "origins": ["https://app.example.org"] }))]
    pub cors: Option<Box<Cors>>,
    /// Which responses are compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "types": ["text/*", "application/json"], "gzip": 6 }))]
    pub compress: Option<Box<Compress>>,
    /// Another backend that gets copies of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "backend": "next", "share": "10%" }))]
    pub mirror: Option<Box<Mirror>>,
    /// Bounds on the time that a request takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "request": "10s" }))]
    pub timeouts: Option<Box<RouteTimeouts>>,
    /// When and how often requests that came to nothing are sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<Box<Retries>>,
    /// A file of bearer tokens, one a line, relative to the configuration's folder: a request with none of them is
    /// answered 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "tokens.lst", extend("x-default" = "everybody is let in"))]
    pub tokens: Option<String>,
    /// Its place among routes for the same requests. Two routes without one must not want the same.
    #[serde(skip)]
    pub precedence: Option<Box<Precedence>>,
    /// Its requests are counted together with those of other routes that say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "the backend's name"))]
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

/// A service behind the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Where it runs. With none, requests for it are answered 503.
    #[schemars(example = json!(["127.0.0.1:9000"]))]
    pub endpoints: Vec<Endpoint>,
    /// Which of them gets a request.
    #[serde(default, skip_serializing_if = "Balance::is_default")]
    #[schemars(extend("x-default" = "`round_robin`"))]
    pub balance: Balance,
    /// How long an endpoint that is new, or well again, takes to come to its whole share of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Time>,
    /// TLS with its endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "sni": "web.internal" }), extend("x-default" = "plain text"))]
    pub tls: Option<BackendTls>,
    /// Checks of its endpoints; those that fail get no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Box<HealthCheck>>,
    /// When what requests come to takes an endpoint out for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// Bounds on what it has at one time.
    #[serde(default, skip_serializing_if = "BackendLimits::is_default")]
    pub limits: BackendLimits,
    /// Bounds on what is waited for, in place of the gateway's.
    #[serde(default, skip_serializing_if = "BackendTimeouts::is_default")]
    pub timeouts: BackendTimeouts,
    /// The PROXY protocol's version in which each connection is told its client; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyVersion>,
    /// How long one connection is used.
    #[serde(default, skip_serializing_if = "Keepalive::is_default")]
    pub keepalive: Keepalive,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Bounds on what the gateway holds for its clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A request's or a response's head, start line and fields together; 1KiB to 1MiB.
    pub head: Size,
    /// Fields in a head.
    #[schemars(range(min = *FIELDS.start(), max = *FIELDS.end()), extend("x-unit" = "fields"))]
    pub fields: u32,
    /// A request's body.
    pub body: Size,
    /// Client connections, of the whole process.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub connections: u32,
    /// Client connections from one address, of the whole process; those of IPv6 from one network of 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 100, extend("x-unit" = "connections", "x-default" = "no bound"))]
    pub connections_per_address: Option<u32>,
    /// Connections to one backend, of the whole process. Who waits for one is said by `limits.pending` of the backend.
    #[schemars(range(min = 1), extend("x-unit" = "connections"))]
    pub upstream_connections: u32,
    /// Idle connections that one worker keeps to one endpoint.
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

/// Bounds on what the gateway waits for. They are kept on a wheel that turns every 100 ms, so each ends up to 200 ms
/// late and never early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// From a request's first byte to the end of its head.
    pub head: Time,
    /// Without progress in a request's or a response's body.
    pub body: Time,
    /// Without progress in writing to a client or an upstream.
    pub write: Time,
    /// For a connection to an upstream.
    pub connect: Time,
    /// From the whole request sent to the head of its response.
    pub response: Time,
    /// Between two requests of a client's connection.
    pub idle: Time,
    /// Between two requests of an upstream's connection.
    pub upstream_idle: Time,
    /// Without a byte in either direction of an upgraded connection.
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
    /// Who is asked for the addresses of names.
    pub resolver: Box<Resolver>,
    /// Bounds on what is held.
    pub limits: Limits,
    /// From when on new requests are turned away.
    pub overload: Overload,
    /// Bounds on what is waited for.
    pub timeouts: Timeouts,
    /// How it ends.
    pub drain: Drain,
    /// A line for each request.
    pub access_log: Option<AccessLog>,
    /// What the program tells of itself.
    pub log: ProgramLog,
    /// What is counted beside what is counted always.
    pub metrics: Metrics,
    /// What is added to requests for upstreams.
    pub forwarding: Forwarding,
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
                         names are not looked up"
                    ))
                })
            }
        }

        deserializer.deserialize_any(Text)
    }
}
