//! The topology of every gateway: hosts, paths, a rewrite, client authentication.

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
    /// `/item/{1..50}` are fifty paths. Gateways return 404 for all others.
    #[serde(default)]
    pub paths: Paths,
    /// Gateways accept only TLS, with certificates that weir makes for every cell (ECDSA P-256; up to 64 hosts by
    /// name, more by wildcards). The connection to the upstream stays plain. In direct cells weir's own upstream uses
    /// TLS too; another server (`origin.driver`) stays plain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// `one` certificate for all domains, or one for `each` domain, with its own key; the latter are made once per
    /// run. In direct cells weir's own upstream has one for all. Needs `tls`.
    #[serde(default, skip_serializing_if = "CertificateScope::is_one")]
    #[schemars(extend("x-default" = "`one`"))]
    pub certificates: CertificateScope,
    /// `required`: gateways refuse clients without a certificate of the cell's CA. Needs `tls`. The upstream of direct
    /// cells asks for none.
    #[serde(default, skip_serializing_if = "ClientCertificate::is_none")]
    #[schemars(extend("x-default" = "`none`"))]
    pub client_certificate: ClientCertificate,
    /// Number of bearer tokens that gateways accept. Requests use them in turn; gateways return 401 for a request
    /// without one. Tokens come from the run's seed. In direct cells requests have them too, and the upstream ignores
    /// them. 0 turns them off.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("x-default" = "`0`"))]
    pub bearer: u32,
    /// How long a gateway that checks bearer tokens at the upstream can cache the result. Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_cache: Option<Time>,
    /// Path that gateways request from the upstream instead. Default: the path of the request.
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
    /// One certificate per domain, created once for all cells of a run.
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
    /// None.
    #[default]
    None,
    /// A certificate signed by the cell's CA.
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

    /// The paths.
    pub fn paths(&self) -> Vec<String> {
        match &self.paths {
            Paths::Count(count) => (1..=*count).map(|number| format!("/get/{number}")).collect(),
            Paths::List(paths) => paths.iter().flat_map(|path| expanded(path)).collect(),
        }
    }
}

/// The expansion of a path: itself, or one path for each number of its range `{A..B}`.
fn expanded(path: &str) -> Vec<String> {
    match Numbered::of(path) {
        None => vec![path.to_owned()],
        Some(Numbered { before, numbers, after }) => {
            numbers.map(|number| format!("{before}{number}{after}")).collect()
        }
    }
}

/// A path with a range.
pub(crate) struct Numbered<'t> {
    before: &'t str,
    pub(crate) numbers: RangeInclusive<u32>,
    after: &'t str,
}

impl<'t> Numbered<'t> {
    /// `None` for a path without a range.
    pub(crate) fn of(path: &'t str) -> Option<Self> {
        let (before, rest) = path.split_once('{')?;
        let (range, after) = rest.split_once('}')?;
        let (first, last) = range.split_once("..")?;
        Some(Self { before, numbers: first.parse().ok()?..=last.parse().ok()?, after })
    }

    /// The number of paths.
    pub(crate) fn count(&self) -> u64 {
        u64::from(*self.numbers.end()).saturating_sub(u64::from(*self.numbers.start())) + 1
    }

    /// The first path.
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
        f.write_str("a list of paths or a number of them")
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
            "description": "A list of paths, each with a range `{1..50}` or without, or a number N for `/get/1` to `/get/N`.",
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
