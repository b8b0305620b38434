//! Routes.

use serde::Deserialize;

use crate::duration::GatewayDuration;
use crate::filter::HttpFilter;
use crate::reference::{BackendRef, ParentRef};

/// An HTTPRoute.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HttpRouteSpec {
    /// All listeners of a Gateway, or those of `sectionName` and `port`. A parent that does not accept the route is an
    /// error.
    #[serde(default)]
    pub(crate) parent_refs: Vec<ParentRef>,
    /// The route matches the hosts that these and the listener's hostname have in common; precedence goes by them. At a
    /// listener for `a.example.org`, `*.example.org` is as specific as `a.example.org`.
    #[serde(default)]
    pub(crate) hostnames: Vec<String>,
    #[serde(default = "one_rule")]
    pub(crate) rules: Vec<HttpRule>,
}

/// A rule: its matches, and how matching requests are handled.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpRule {
    pub(crate) name: Option<String>,
    pub(crate) matches: Vec<HttpMatch>,
    pub(crate) filters: Vec<HttpFilter>,
    /// Share the requests by weight. Without any, or without weights, the response is 500 (`no_backend`).
    pub(crate) backend_refs: Vec<BackendRef>,
    pub(crate) timeouts: Option<HttpTimeouts>,
}

/// Conditions that a request must all meet.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpMatch {
    pub(crate) path: PathMatch,
    pub(crate) headers: Vec<NamedMatch>,
    pub(crate) query_params: Vec<NamedMatch>,
    pub(crate) method: Option<String>,
}

/// What a path must be, in the normal form of request paths: `/caf%c3%a9` matches `/caf%C3%A9`. A path with `;` needs
/// `paths.path_parameters: keep`; Gateway API itself excludes `//` and `%2F`.
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

/// A condition on a header field or query parameter.
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

/// Bounds on the time that a rule's requests take: `timeouts.request` and `timeouts.backend` of a route. `0s` is no
/// timeout, and 30 days is the maximum. The longer one replaces `timeouts.response` (of the backend too) and
/// `timeouts.body`, so that a backend may take the time that the rule gives it; with `0s` these are 30 days. Other
/// timeouts of the gateway still apply. Without both, those of the gateway apply.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpTimeouts {
    pub(crate) request: Option<GatewayDuration>,
    pub(crate) backend_request: Option<GatewayDuration>,
}

/// A TLSRoute.
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

/// The default that a cluster sets for a route without rules.
fn one_rule() -> Vec<HttpRule> {
    vec![HttpRule::default()]
}
