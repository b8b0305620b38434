//! A route: which requests it matches, and what happens to them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::forms::{ACTIONS, HOST, PATH, TOKEN, one_of};
use super::precedence::Precedence;
use super::retries::Retries;
use super::value_match::ValueMatch;
use crate::filters::{
    Compress, Cors, HeaderChanges, Mirror, Redirect, Respond, Rewrite, RouteTimeouts, WeightedBackend,
};

/// The maximum length of a regular expression, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 10;

/// Matches requests and defines what happens to them. Set exactly one of `path`, `exact` and `regex`, and exactly
/// one of `backend`, `backends`, `redirect` and `respond`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [one_of(&["path", "exact", "regex"]), one_of(&ACTIONS)]))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Name of the route, for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "its position"))]
    pub name: Option<String>,
    /// Match only requests to these listeners, by name, or by address if they have no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["public"]), extend("x-default" = "every listener"))]
    pub listeners: Vec<String>,
    /// Host names, exact or `*.suffix` (at least one label before the suffix). Case, port and one trailing dot of the
    /// requested host are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST)), example = json!(["example.com", "*.example.org"]))]
    #[schemars(extend("x-default" = "every host"))]
    pub hosts: Vec<String>,
    /// Path prefix of whole segments: `/api` matches `/api`, `/api/` and `/api/x`, not `/apix`. `/api/` means the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PATH), example = "/api")]
    pub path: Option<String>,
    /// Exact path, or a list of them: `/a` does not match `/a/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!(["/health", "/version"]))]
    pub exact: Option<OneOrMany>,
    /// Regular expression that must match the whole path. Syntax of Rust's regex crate without Unicode: `\w`, `\d` and
    /// `(?i)` are ASCII, `.` is any byte; no look-around, no backreferences. At most 1024 bytes, and 1 MiB when
    /// compiled; the same limits apply in `headers` and `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PATTERN_BYTES_MAX), example = "/users/[0-9]+")]
    pub regex: Option<String>,
    /// Methods; case-sensitive. `GET` does not match HEAD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = TOKEN)), example = json!(["GET", "HEAD"]))]
    #[schemars(extend("x-default" = "every method"))]
    pub methods: Vec<String>,
    /// Required request headers; names ignore case. Repeated headers are joined with `, `. A value must match as a
    /// whole, and case matters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = json!({ "x-version": "2" }))]
    pub headers: BTreeMap<String, ValueMatch>,
    /// Required query parameters, by decoded name. Names and values are decoded like form fields: `%20` and `+` are
    /// spaces. If a parameter is repeated, the first one counts.
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
    /// Changes to request headers before the request is sent upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "set": { "X-Tier": "gold" } }))]
    pub request_headers: Option<Box<HeaderChanges>>,
    /// Changes to response headers before the response is sent to the client.
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
    /// File of accepted bearer tokens, one per line. The path is relative to the directory of the configuration. Empty
    /// lines and lines that start with `#` are ignored. A request must have exactly one `Authorization` header, with
    /// `Bearer` and a listed token; otherwise it gets 401. The upstream gets the header too. The gateway reads the file
    /// at start and on SIGHUP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "tokens.lst", extend("x-default" = "no authentication"))]
    pub tokens: Option<String>,
    /// Which route wins if several match the same requests. Two routes without a precedence must not match the same
    /// requests.
    #[serde(skip)]
    pub precedence: Option<Box<Precedence>>,
    /// Group in metrics, 1 to 128 printable characters, not `other`. Routes with the same group are counted together.
    /// After the first 1,000 groups, further groups are counted together as `other`. Before it counts a new group as
    /// `other`, the gateway removes groups that no route uses any more, at most once a minute. A removed group that
    /// returns starts at 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"checkout", extend("x-default" = "name of the backend"))]
    pub metrics_group: Option<String>,
}

impl Route {
    /// The prefix and exact paths of the route, each with its field.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (PathField, &str)> {
        let prefix = self.path.iter().map(|path| (PathField::Path, path.as_str()));
        let exact = self.exact.iter().flat_map(OneOrMany::as_slice).enumerate();
        prefix.chain(exact.map(|(index, path)| (PathField::Exact(index), path.as_str())))
    }

    /// The regular expressions of the route, each with its field.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (String, &str)> {
        let of_path = self.regex.iter().map(|text| ("regex".to_owned(), text.as_str()));
        of_path.chain(patterns_of("headers", &self.headers)).chain(patterns_of("query", &self.query))
    }

    /// The backends that the route names, including the backend of `mirror`, each with its field.
    pub(crate) fn backend_names(&self) -> impl Iterator<Item = (BackendField, &str)> {
        let one = self.backend.iter().map(|name| (BackendField::Backend, name.as_str()));
        let several = self.backends.iter().flatten().enumerate();
        let several = several.map(|(index, w)| (BackendField::Weighted(index), w.backend.as_str()));
        let mirror = self.mirror.iter().map(|mirror| (BackendField::Mirror, mirror.backend.as_str()));
        one.chain(several).chain(mirror)
    }

    /// Whether the route comes from a Gateway API manifest, which can contain some values that a configuration file
    /// cannot.
    pub(crate) fn is_from_manifest(&self) -> bool {
        self.precedence.is_some()
    }
}

/// A field of a route that contains a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathField {
    Path,
    /// `exact[1]`: the index in the list.
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

/// A field of a route that names a backend.
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
    /// All strings.
    pub fn as_slice(&self) -> &[String] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

fn patterns_of<'r>(
    field: &str,
    values: &'r BTreeMap<String, ValueMatch>,
) -> impl Iterator<Item = (String, &'r str)> {
    values.iter().filter_map(move |(name, value)| match value {
        ValueMatch::Regex { regex } => Some((format!("{field}.{name}.regex"), regex.as_str())),
        _ => None,
    })
}

// Written by hand, because the error of the derived implementation contains names of Rust types.

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
