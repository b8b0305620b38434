//! Routes.

use serde::Deserialize;

use crate::duration::GatewayDuration;
use crate::filter::HttpFilter;
use crate::reference::{BackendRef, ParentRef};

/// What becomes of requests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HttpRouteSpec {
    #[serde(default)]
    pub(crate) parent_refs: Vec<ParentRef>,
    #[serde(default)]
    pub(crate) hostnames: Vec<String>,
    #[serde(default = "one_rule")]
    pub(crate) rules: Vec<HttpRule>,
}

/// What becomes of those that one of the matches takes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpRule {
    pub(crate) name: Option<String>,
    pub(crate) matches: Vec<HttpMatch>,
    pub(crate) filters: Vec<HttpFilter>,
    pub(crate) backend_refs: Vec<BackendRef>,
    pub(crate) timeouts: Option<HttpTimeouts>,
}

/// What must hold of a request, all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpMatch {
    pub(crate) path: PathMatch,
    pub(crate) headers: Vec<NamedMatch>,
    pub(crate) query_params: Vec<NamedMatch>,
    pub(crate) method: Option<String>,
}

/// What a path must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PathMatch {
    #[serde(rename = "type")]
    pub(crate) kind: PathMatchKind,
    pub(crate) value: String,
}

/// How a path is matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PathMatchKind {
    Exact,
    #[default]
    PathPrefix,
    RegularExpression,
}

/// What a field or a query parameter must be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedMatch {
    #[serde(rename = "type", default)]
    pub(crate) kind: ValueMatchKind,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// How a value is matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum ValueMatchKind {
    #[default]
    Exact,
    RegularExpression,
}

/// Bounds on the time that a rule's requests take.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpTimeouts {
    pub(crate) request: Option<GatewayDuration>,
    pub(crate) backend_request: Option<GatewayDuration>,
}

/// Where TLS is passed on to.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TlsRouteSpec {
    #[serde(default)]
    pub(crate) parent_refs: Vec<ParentRef>,
    #[serde(default)]
    pub(crate) hostnames: Vec<String>,
    pub(crate) rules: Vec<TlsRule>,
}

/// A rule of a TLS route.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TlsRule {
    #[serde(rename = "name", default)]
    _name: Option<String>,
    pub(crate) backend_refs: Vec<BackendRef>,
}

impl Default for PathMatch {
    fn default() -> Self {
        PathMatch { kind: PathMatchKind::PathPrefix, value: "/".to_owned() }
    }
}

/// As a cluster fills it in where a route has no rules.
fn one_rule() -> Vec<HttpRule> {
    vec![HttpRule::default()]
}
