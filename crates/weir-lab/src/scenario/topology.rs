//! The topology: hosts, paths, TLS and authentication that every gateway is configured with.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_rig::TlsBinding;

/// The configuration of every gateway: hosts, exact paths, TLS and tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Number of domains. One is `gateway.test`, several are `d0001.gateway.test` and so on.
    #[serde(default = "default_domains")]
    pub domains: u32,
    /// Exact paths of each domain: a list, or a number N for `/get/1` to `/get/N`. A path can have a range:
    /// `/item/{1..50}` are fifty paths. Gateways return 404 for all other paths.
    #[serde(default)]
    pub paths: Paths,
    /// Gateways accept only TLS, with ECDSA P-256 certificates that weir creates for every cell. With more than 64
    /// hosts, a certificate has wildcards instead of the names. The connection to the upstream stays plain. In direct
    /// cells, weir's own upstream uses TLS too; another server (`origin.driver`) stays plain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Certificates of the domains. Needs `tls`. In direct cells, weir's own upstream always has one certificate for
    /// all domains.
    #[serde(default, skip_serializing_if = "CertificateScope::is_one")]
    #[schemars(extend("x-default" = "`one`"))]
    pub certificates: CertificateScope,
    /// Whether clients need a certificate. Needs `tls`. In direct cells, weir's own upstream does not ask for one.
    #[serde(default, skip_serializing_if = "ClientCertificate::is_none")]
    #[schemars(extend("x-default" = "`none`"))]
    pub client_certificate: ClientCertificate,
    /// Number of bearer tokens that gateways accept. Requests use the tokens in turn; gateways return 401 for a request
    /// without a token. Tokens come from the run's seed. In direct cells requests carry tokens too, and weir's own
    /// upstream ignores them. 0 means no tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("x-default" = "`0`"))]
    pub bearer: u32,
    /// How long gateways can cache the result of a token check at the upstream. Default: no caching.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_cache: Option<Time>,
    /// Path that gateways request from the upstream for every client request. Default: the path of the client request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<String>,
}

/// Whether domains share a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateScope {
    /// One certificate for all domains.
    #[default]
    One,
    /// One certificate with its own key per domain, created once for all cells of a run.
    Each,
}

impl CertificateScope {
    fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// Client authentication in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// Gateways do not ask for a client certificate.
    #[default]
    None,
    /// Gateways reject clients without a certificate signed by the cell's CA.
    Required,
}

impl ClientCertificate {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            domains: default_domains(),
            paths: Paths::default(),
            tls: false,
            certificates: CertificateScope::One,
            client_certificate: ClientCertificate::None,
            bearer: 0,
            token_cache: None,
            rewrite: None,
        }
    }
}

impl Topology {
    /// Names of the domains: `gateway.test`, or `d0001.gateway.test` and so on if there are several.
    pub fn hosts(&self) -> Vec<String> {
        match self.domains {
            1 => vec!["gateway.test".to_owned()],
            domains => (1..=domains).map(|number| format!("d{number:04}.gateway.test")).collect(),
        }
    }

    /// The TLS settings for the driver.
    pub(crate) fn tls_binding(&self) -> Option<TlsBinding> {
        let client_certificate = self.client_certificate == ClientCertificate::Required;
        let certificate_each = self.certificates == CertificateScope::Each;
        self.tls.then_some(TlsBinding { client_certificate, certificate_each })
    }

    /// All paths, with their ranges expanded.
    pub fn paths(&self) -> Vec<String> {
        match &self.paths {
            Paths::Count(count) => (1..=*count).map(|number| format!("/get/{number}")).collect(),
            Paths::List(paths) => paths.iter().flat_map(|path| expanded(path)).collect(),
        }
    }
}

/// Expands a path: one path for each number of its range `{A..B}`, or the path itself without a range.
fn expanded(path: &str) -> Vec<String> {
    match Numbered::of(path) {
        None => vec![path.to_owned()],
        Some(Numbered { before, numbers, after }) => {
            numbers.map(|number| format!("{before}{number}{after}")).collect()
        }
    }
}

/// A path with a range of numbers, like `/item/{1..50}`.
pub(crate) struct Numbered<'t> {
    before: &'t str,
    pub(crate) numbers: RangeInclusive<u32>,
    after: &'t str,
}

impl<'t> Numbered<'t> {
    /// Parses `path`; `None` if it has no range.
    pub(crate) fn of(path: &'t str) -> Option<Self> {
        let (before, rest) = path.split_once('{')?;
        let (range, after) = rest.split_once('}')?;
        let (first, last) = range.split_once("..")?;
        Some(Self { before, numbers: first.parse().ok()?..=last.parse().ok()?, after })
    }

    /// Number of paths that the range expands to.
    pub(crate) fn count(&self) -> u64 {
        u64::from(*self.numbers.end()).saturating_sub(u64::from(*self.numbers.start())) + 1
    }

    /// The path with the first number of the range.
    pub(crate) fn first(&self) -> String {
        format!("{}{}{}", self.before, self.numbers.start(), self.after)
    }
}

/// Paths as a list or a count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Paths {
    /// `/get/1` to `/get/N`.
    Count(u32),
    /// A list of paths.
    List(Vec<String>),
}

impl Default for Paths {
    fn default() -> Self {
        Self::List(vec!["/".to_owned()])
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountOrList)
    }
}

struct CountOrList;

impl<'de> Visitor<'de> for CountOrList {
    type Value = Paths;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of paths, or a number of paths")
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Paths, E> {
        let count = u32::try_from(count);
        count.map(Paths::Count).map_err(|_| E::custom("too many paths; use at most 4294967295"))
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<Paths, E> {
        self.visit_u64(
            count.try_into().map_err(|_| E::custom("the number of paths is negative; use at least 1"))?,
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Paths, A::Error> {
        Ok(Paths::List(Vec::deserialize(SeqAccessDeserializer::new(list))?))
    }
}

impl JsonSchema for Paths {
    fn schema_name() -> Cow<'static, str> {
        "Paths".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A list of paths, each with or without a range `{1..50}`, or a number N for `/get/1` to \
            `/get/N`.",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "array", "items": { "type": "string", "pattern": "^/" }, "minItems": 1 }
            ]
        })
    }
}

fn default_domains() -> u32 {
    1
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
