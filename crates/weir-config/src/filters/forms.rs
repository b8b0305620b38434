//! The fields of filters in a configuration.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Share, Time};

use crate::model::bounds::{TIMEOUT_MAX, WEIGHT_MAX};
use crate::model::forms::{HOST, PATH, TOKEN};

/// Statuses that a redirect can have.
pub(super) const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// One of several backends that share the requests of a route. Each worker splits requests exactly by weight and
/// interleaves the backends: weights 3 and 1 give the order a, a, b, a. A reload that does not change the weights
/// continues this order. A retry goes to the same backend. If the selected backend has no endpoints, the client gets
/// 503. If all weights are 0, it gets 500 (`no_backend`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedBackend {
    /// Name of the backend.
    #[schemars(example = &"web")]
    pub backend: String,
    /// The backend gets this share of requests: its weight divided by the sum of all weights. With 0 it gets no
    /// requests.
    #[serde(default = "one")]
    #[schemars(range(max = WEIGHT_MAX))]
    pub weight: u32,
}

/// Changes the path or host of the upstream request. The query is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Rewrite {
    /// `rewrite: /v2` replaces the matched prefix, or the whole path of an exact match.
    Prefix(String),
    /// `rewrite: { host: internal.example.org, prefix: /v2 }` replaces several parts.
    Parts(Box<RewriteParts>),
}

/// What a rewrite replaces. Set at least one field, but not both `path` and `prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("not" = { "required": ["path", "prefix"] }, "minProperties" = 1))]
#[serde(deny_unknown_fields, default)]
pub struct RewriteParts {
    /// Host header of the upstream request, with an optional port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "internal.example.org")]
    pub host: Option<String>,
    /// Replace the whole path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/index.html")]
    pub path: Option<String>,
    /// Replace the matched prefix, or the whole path of an exact match. A slash at the end of the new prefix is not
    /// doubled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/v2")]
    pub prefix: Option<String>,
}

/// Redirect the client to another URL. Parts that are not set stay as in the request, and so does the query. Without
/// `host`, a request without a Host header gets 400 (`no_host`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("not" = { "required": ["path", "prefix"] }))]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// `http` or `https`. If set, `port` defaults to the default port of the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https", extend("x-default" = "as in the request"))]
    pub scheme: Option<Scheme>,
    /// Host name without a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = HOST), example = "www.example.org", extend("x-default" = "as in the request"))]
    pub host: Option<String>,
    /// Port. It is omitted from the URL if it is the default of the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 8443, extend("x-default" = "default port of `scheme`, or the port of the \
    request if `scheme` is not set"))]
    pub port: Option<u16>,
    /// Replace the whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/moved", extend("x-default" = "as in the request"))]
    pub path: Option<String>,
    /// Replace the matched prefix, or the whole path of an exact match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/v2", extend("x-default" = "as in the request"))]
    pub prefix: Option<String>,
    /// Status of the response.
    #[serde(default = "found")]
    #[schemars(extend("enum" = REDIRECTS))]
    pub status: u16,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP with TLS.
    Https,
}

/// A fixed response from the gateway itself. If a request gets a redirect, a fixed response or a CORS preflight
/// response, the gateway reads and discards up to 64 KiB of the request body. It closes the connection if the body is
/// longer, or if the client waits for `100 Continue`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// Status of the response. A response with 204, 205 or 304 has no body.
    #[serde(default = "ok")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Response body; empty by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(example = "closed for today")]
    pub body: String,
    /// Response headers. Without `Content-Type`, a body is plain text in UTF-8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "Retry-After": "120" }))]
    pub headers: BTreeMap<String, String>,
}

/// Changes to end-to-end headers. A name can appear only once, in one of the three fields; names ignore case. New
/// headers are added after the existing ones, sorted by name. `response_headers` apply to redirects, to fixed
/// responses, and to final responses of upstreams. They do not apply to interim responses, to responses with status
/// 101, or to errors that the gateway generates. These headers cannot be changed: `Connection`, `Keep-Alive`,
/// `Proxy-Connection`, `TE`, `Upgrade`, `Content-Length`, `Transfer-Encoding` and `Trailer`; in requests also `Host`
/// and `Expect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderChanges {
    /// Headers to set; they replace existing headers with the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Tier": "gold" }))]
    pub set: BTreeMap<String, String>,
    /// Headers to add; existing headers with the same name stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "Via": "weir" }))]
    pub add: BTreeMap<String, String>,
    /// Headers to remove. If `Date` is removed from a response, the gateway adds a new one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Debug"]))]
    pub remove: Vec<String>,
}

/// Origins whose web pages may read the responses (CORS, Fetch standard). The gateway responds to preflights (OPTIONS
/// with one `Origin` and `Access-Control-Request-Method`) with 204, before it checks `tokens`. If the route sets
/// `methods`, include OPTIONS there. The gateway forwards all other requests, whatever their origin. It replaces the
/// upstream's `Access-Control-*` headers with its own, and adds its own to the errors that it generates. It sends
/// `Vary: Origin` if the response depends on the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Allowed origins: `https://app.example.org`, `https://*.example.org` for all its subdomains, `https://*` for
    /// every host at the default port, `https://*:8443` for every host at that port, or only `*` for all origins. With
    /// `*`, responses contain `Access-Control-Allow-Origin: *`.
    #[schemars(length(min = 1), example = json!(["https://app.example.org", "https://*.example.net"]))]
    pub origins: Vec<String>,
    /// Allowed methods in addition to GET, HEAD and POST, which are always allowed; `*` allows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["PUT", "DELETE"]))]
    pub methods: Vec<String>,
    /// Additional request headers that a page may send; `*` allows all except `Authorization`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Token"]))]
    pub headers: Vec<String>,
    /// Additional response headers that a page may read; `*` allows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Total"]))]
    pub expose: Vec<String>,
    /// Whether requests may include credentials such as cookies. Cannot be combined with the origins `*` and
    /// `https://*`, or with `expose: ['*']`. If true, a preflight response lists the names that the browser requests
    /// instead of a `*` in `methods` or `headers`.
    #[serde(default)]
    pub credentials: bool,
    /// How long a browser may cache a preflight response, in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10m", extend("x-default" = "decided by the browser"))]
    pub max_age: Option<Time>,
}

/// Sends a copy of each upstream request to another backend, over separate connections. The gateway discards the
/// responses; copies never delay or fail the client's request. Each worker has at most 64 copies in flight, each of up
/// to 64 KiB of headers and body. Requests above these limits are not copied (`weir_mirror_dropped_total`). Upgrades
/// and incomplete requests are not copied either. A copy without a complete response within `timeouts.response` counts
/// as failed (`weir_mirror_failures_total`). If the response body of a copy exceeds 1 MiB, the gateway closes the
/// connection of the copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// Name of the backend; must differ from `backend` of the route.
    #[schemars(example = &"next")]
    pub backend: String,
    /// Share of requests to copy. Each worker copies exactly this share: at 10 %, one of every ten.
    #[serde(default = "whole")]
    pub share: Share,
}

/// Timeouts of the requests of a route. They start again for each request. `response`, `body` and `upgraded` override
/// the gateway's timeouts with the same names; the other timeouts of the gateway also apply. When `request` or
/// `backend` expires, the client gets 504 (`request_timeout`, `backend_timeout`); a response that has begun is cut.
/// Only `upgraded` limits upgraded connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RouteTimeouts {
    /// Time from the end of the request headers to the end of the response, over all attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10s", extend("x-default" = "none"))]
    pub request: Option<Time>,
    /// Time for one attempt, from the wait for a connection to the end of the response. Must not be longer than
    /// `request`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2s", extend("x-default" = "none"))]
    pub backend: Option<Time>,
    /// Time from the end of the request, or from an interim response (1xx), to complete response headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"5m", extend("x-default" = "`timeouts.response` of the backend, or of the gateway if the \
    backend sets none"))]
    pub response: Option<Time>,
    /// Time without progress of a request or response body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"5m", extend("x-default" = "`timeouts.body` of the gateway"))]
    pub body: Option<Time>,
    /// Idle time of an upgraded connection. Data in either direction restarts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"12h", extend("x-default" = "`timeouts.upgraded` of the gateway"))]
    pub upgraded: Option<Time>,
}

impl Rewrite {
    /// The text that replaces the matched prefix, or the whole path of an exact match.
    pub fn prefix(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(prefix) => Some(prefix),
            Rewrite::Parts(parts) => parts.prefix.as_deref(),
        }
    }

    /// The path that replaces the whole path.
    pub fn path(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(_) => None,
            Rewrite::Parts(parts) => parts.path.as_deref(),
        }
    }

    /// The Host header of the upstream request, if the rewrite sets it.
    pub fn host(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(_) => None,
            Rewrite::Parts(parts) => parts.host.as_deref(),
        }
    }
}

impl RouteTimeouts {
    /// The maximum of every timeout.
    pub const LONGEST: Time = Time(TIMEOUT_MAX);
}

impl Scheme {
    /// The scheme as written in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The default port.
    pub fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl HeaderChanges {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether existing headers with this name stay.
    pub fn keeps(&self, name: &str) -> bool {
        let gone = |other: &String| other.eq_ignore_ascii_case(name);
        !self.set.keys().chain(&self.remove).any(gone)
    }

    /// The headers to append, with name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().chain(&self.add).map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn one() -> u32 {
    1
}

fn found() -> u16 {
    302
}

fn ok() -> u16 {
    200
}

fn whole() -> Share {
    Share(1.0)
}

// Written by hand, because the error of the derived implementation contains names of Rust types.

impl<'de> Deserialize<'de> for Rewrite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rewrite, D::Error> {
        struct PathOrParts;

        impl<'de> Visitor<'de> for PathOrParts {
            type Value = Rewrite;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or a mapping with `host`, `path` or `prefix`")
            }

            fn visit_str<E: de::Error>(self, prefix: &str) -> Result<Rewrite, E> {
                Ok(Rewrite::Prefix(prefix.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, parts: A) -> Result<Rewrite, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(parts)).map(Rewrite::Parts)
            }
        }

        deserializer.deserialize_any(PathOrParts)
    }
}
