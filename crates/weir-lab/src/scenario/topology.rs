//! What a gateway is configured for: hosts, paths, a rewrite, who may ask.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_rig::TlsBinding;

/// The hosts and paths that a gateway routes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// How many domains.
    #[serde(default = "default_domains")]
    pub domains: u32,
    /// The paths of each domain: a list, or a number N for `/get/1` to `/get/N`. A path of the list may hold a range, as
    /// `/item/{1..50}` for fifty paths.
    #[serde(default)]
    pub paths: Paths,
    /// Whether clients speak TLS to the gateway, by certificates that the rig makes for every cell. What the gateway asks
    /// of the upstream stays plain; in direct cells weir's own upstream speaks TLS, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// How many certificates there are: `one` for all domains, or for `each` its own, with a key of its own, which needs
    /// `tls`.
    #[serde(default, skip_serializing_if = "CertificateScope::is_one")]
    pub certificates: CertificateScope,
    /// Whether a client must show a certificate: `none` or `required`, which needs `tls`.
    #[serde(default, skip_serializing_if = "ClientCertificate::is_none")]
    pub client_certificate: ClientCertificate,
    /// How many bearer tokens the gateway knows: requests carry them in turn, and one without any is answered 401. 0 asks
    /// for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bearer: u32,
    /// How long a gateway that asks the upstream about a bearer token may keep the answer; not at all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_cache: Option<Time>,
    /// The path that the upstream is asked for instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<String>,
}

/// How many domains a certificate is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateScope {
    /// One is for all of them.
    #[default]
    One,
    /// Each has its own, made once for all cells of a run.
    Each,
}

impl CertificateScope {
    fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// What a client must show of itself in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// Nothing.
    #[default]
    None,
    /// A certificate that the cell's authority has signed.
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
    /// Names of the domains: `gateway.test`, or `d0001.gateway.test` and on where there are several.
    pub fn hosts(&self) -> Vec<String> {
        match self.domains {
            1 => vec!["gateway.test".to_owned()],
            domains => (1..=domains).map(|number| format!("d{number:04}.gateway.test")).collect(),
        }
    }

    /// TLS as a driver renders it.
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

/// The paths that one of a list stands for: itself, or one for each number of its range `{A..B}`.
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

/// Paths by name or by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Paths {
    /// `/get/1` to `/get/N`.
    Count(u32),
    /// These.
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
