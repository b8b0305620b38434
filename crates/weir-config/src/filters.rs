//! What a route does with requests and responses beside passing them on: the form that a configuration has for it.
//! Whether it is right is looked at in `check.rs`; what the data plane needs of it is made in `compiled.rs`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::{Share, Time};

use crate::model::Route;
use crate::schema::{HOST, PATH, TOKEN};
use crate::validate::{TIMEOUT_MAX, WEIGHT_MAX};

mod check;
mod compiled;
mod compress;
mod cors;

use check::REDIRECTS;
pub(crate) use check::check_filters;
pub use compiled::{Action, Copies, Filters, WeightedPosition};
pub use compress::{Compress, CompressPolicy};
pub use cors::{CorsPolicy, Preflight};

/// One of several backends that share a route's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedBackend {
    /// The backend's name.
    #[schemars(example = &"web")]
    pub backend: String,
    /// Its part of the sum of all weights; with 0 it gets no requests.
    #[serde(default = "one")]
    #[schemars(range(max = WEIGHT_MAX), extend("x-unit" = "parts"))]
    pub weight: u32,
}

/// What the upstream is asked for in place of what the client asked for. The query is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Rewrite {
    /// `rewrite: /v2` replaces the matched prefix, or the whole path of an exact match.
    Prefix(String),
    /// `rewrite: { host: internal.example.org, prefix: /v2 }`
    Parts(Box<RewriteParts>),
}

/// What a rewrite replaces: at least one of them, and not both `path` and `prefix`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("not" = { "required": ["path", "prefix"] }, "minProperties" = 1))]
#[serde(deny_unknown_fields, default)]
pub struct RewriteParts {
    /// The host that the upstream is asked for, with a port where one is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "internal.example.org")]
    pub host: Option<String>,
    /// Replaces the whole path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/index.html")]
    pub path: Option<String>,
    /// Replaces the matched prefix, or the whole path of an exact match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/v2")]
    pub prefix: Option<String>,
}

/// Sends the client elsewhere. What is left out stays as in the request, and so does the query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("not" = { "required": ["path", "prefix"] }))]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// `http` or `https`; with it, a port that is left out is the scheme's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"https", extend("x-default" = "the request's"))]
    pub scheme: Option<Scheme>,
    /// A host name without a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = HOST), example = "www.example.org", extend("x-default" = "the request's"))]
    pub host: Option<String>,
    /// The port; it is not written where it is the scheme's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), example = 8443, extend("x-default" = "the scheme's own with `scheme`, else the request's"))]
    pub port: Option<u16>,
    /// Replaces the whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/moved", extend("x-default" = "the request's"))]
    pub path: Option<String>,
    /// Replaces the matched prefix, or the whole path of an exact match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/v2", extend("x-default" = "the request's"))]
    pub prefix: Option<String>,
    /// The status of the answer.
    #[serde(default = "found")]
    #[schemars(extend("enum" = REDIRECTS))]
    pub status: u16,
}

/// A scheme of the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

/// An answer that the gateway gives itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// The status of the answer. With 204, 205 and 304 there is no body.
    #[serde(default = "ok")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The body; none when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(example = "closed for today")]
    pub body: String,
    /// Fields of its head. With a body and without a `Content-Type` it is plain text in UTF-8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "Retry-After": "120" }))]
    pub headers: BTreeMap<String, String>,
}

/// Changes to the end-to-end fields of a head. A name stands once in all three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderChanges {
    /// In place of the fields that have these names, where there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "X-Tier": "gold" }))]
    pub set: BTreeMap<String, String>,
    /// Beside the fields that have these names, where there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "Via": "weir" }))]
    pub add: BTreeMap<String, String>,
    /// Fields that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Debug"]))]
    pub remove: Vec<String>,
}

/// Which pages of other origins may use the answers (the Fetch standard's CORS protocol).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// `https://app.example.org`, `https://*.example.org`, `https://*` for every host, or `*` alone for all.
    #[schemars(length(min = 1), example = json!(["https://app.example.org", "https://*.example.net"]))]
    pub origins: Vec<String>,
    /// Methods beside GET, HEAD and POST, which need no leave; `*` is every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["PUT", "DELETE"]))]
    pub methods: Vec<String>,
    /// Fields that a page may send beside those that need no leave; `*` is every one but `Authorization`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Token"]))]
    pub headers: Vec<String>,
    /// Fields that a page may read beside those that need no leave; `*` is every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["X-Total"]))]
    pub expose: Vec<String>,
    /// Whether requests may carry cookies and the like.
    #[serde(default)]
    pub credentials: bool,
    /// For how long a browser may keep the answer to a preflight, in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10m", extend("x-default" = "the browser's own"))]
    pub max_age: Option<Time>,
}

/// Copies of requests for another backend, whose answers are thrown away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    /// The backend's name.
    #[schemars(example = &"next")]
    pub backend: String,
    /// How many of the requests are copied.
    #[serde(default = "whole")]
    pub share: Share,
}

/// Bounds on the time that a route's requests take. They begin anew for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RouteTimeouts {
    /// From the last byte of a request's head to the last byte of its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"10s", extend("x-default" = "none of its own"))]
    pub request: Option<Time>,
    /// The same for each time that it is sent to a backend, from looking for a connection on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2s", extend("x-default" = "none of its own"))]
    pub backend: Option<Time>,
    /// From the whole request sent, or an interim response, to the whole head of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"5m", extend("x-default" = "`timeouts.response` of the backend or the gateway"))]
    pub response: Option<Time>,
    /// Without a byte of a request's body or of a response's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"5m", extend("x-default" = "`timeouts.body` of the gateway"))]
    pub body: Option<Time>,
    /// An upgraded connection without a byte in either direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"12h", extend("x-default" = "`timeouts.upgraded` of the gateway"))]
    pub upgraded: Option<Time>,
}

/// Where a route names a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendField {
    /// `backend`
    Backend,
    /// `backends[1].backend`
    Weighted(usize),
    /// `mirror.backend`
    Mirror,
}

impl fmt::Display for BackendField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendField::Backend => f.write_str("backend"),
            BackendField::Weighted(index) => write!(f, "backends[{index}].backend"),
            BackendField::Mirror => f.write_str("mirror.backend"),
        }
    }
}

impl Route {
    /// Every backend that is named, each with the field that names it.
    pub(crate) fn backend_names(&self) -> impl Iterator<Item = (BackendField, &str)> {
        let one = self.backend.iter().map(|name| (BackendField::Backend, name.as_str()));
        let several = self.backends.iter().flatten().enumerate();
        let several = several.map(|(index, w)| (BackendField::Weighted(index), w.backend.as_str()));
        let mirror = self.mirror.iter().map(|mirror| (BackendField::Mirror, mirror.backend.as_str()));
        one.chain(several).chain(mirror)
    }
}

impl Rewrite {
    /// What replaces the matched prefix, or the whole path of an exact match.
    pub fn prefix(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(prefix) => Some(prefix),
            Rewrite::Parts(parts) => parts.prefix.as_deref(),
        }
    }

    /// What replaces the whole path.
    pub fn path(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(_) => None,
            Rewrite::Parts(parts) => parts.path.as_deref(),
        }
    }

    /// The host that the upstream is asked for.
    pub fn host(&self) -> Option<&str> {
        match self {
            Rewrite::Prefix(_) => None,
            Rewrite::Parts(parts) => parts.host.as_deref(),
        }
    }
}

impl RouteTimeouts {
    /// As long as any bound may be.
    pub const LONGEST: Time = Time(TIMEOUT_MAX);
}

impl Scheme {
    /// As it stands in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that needs not be written.
    pub fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl HeaderChanges {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether a field of this name stays.
    pub fn keeps(&self, name: &str) -> bool {
        let gone = |other: &String| other.eq_ignore_ascii_case(name);
        !self.set.keys().chain(&self.remove).any(gone)
    }

    /// The fields that come behind those that stay.
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

// What serde would say of it by itself names Rust's types.

impl<'de> Deserialize<'de> for Rewrite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rewrite, D::Error> {
        struct PathOrParts;

        impl<'de> Visitor<'de> for PathOrParts {
            type Value = Rewrite;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or `host`, `path` and `prefix`")
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

#[cfg(test)]
mod tests;
