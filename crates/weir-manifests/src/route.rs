//! HTTPRoutes and TLSRoutes, as written in manifests.

use serde::Deserialize;

use crate::duration::GatewayDuration;
use crate::filter::HttpFilter;
use crate::reference::{BackendRef, ParentRef};

/// The `spec` of an HTTPRoute.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HttpRouteSpec {
    /// The parents. Each selects all listeners of a Gateway, or only those that match its `sectionName` and `port`. It
    /// is an error if no selected listener accepts the route.
    #[serde(default)]
    pub(crate) parent_refs: Vec<ParentRef>,
    /// The hosts of the route. The hostname of a listener narrows them: the route then matches only hosts that the
    /// listener's hostname also matches. The narrowed hosts determine the precedence: at a listener for
    /// `a.example.org`, a route for `*.example.org` is as specific as a route for `a.example.org`.
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
    /// The backends, which share the requests by weight. Without backends, or if all weights are 0, the response is 500
    /// (`no_backend`).
    pub(crate) backend_refs: Vec<BackendRef>,
    pub(crate) timeouts: Option<HttpTimeouts>,
}

/// Conditions on a request. It must meet all of them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpMatch {
    pub(crate) path: PathMatch,
    pub(crate) headers: Vec<NamedMatch>,
    pub(crate) query_params: Vec<NamedMatch>,
    pub(crate) method: Option<String>,
}

/// A condition on the path. Its value is normalized like request paths: `/caf%c3%a9` matches `/caf%C3%A9`. A path with
/// `;` requires the setting `paths.path_parameters: keep`. Gateway API does not allow paths with `//` or `%2F`.
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

/// Timeouts of a rule. `request` and `backendRequest` become the route's `timeouts.request` and `timeouts.backend`;
/// `0s` means no timeout, and more than 30 days counts as 30 days.
///
/// The longer of these two timeouts is also used for the route's `timeouts.response` and `timeouts.body`. Otherwise
/// shorter defaults of the gateway or the backend could end a request early. In this comparison, `0s` counts as 30
/// days. If the rule sets neither timeout, nothing changes. Other timeouts of the gateway still apply.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpTimeouts {
    pub(crate) request: Option<GatewayDuration>,
    pub(crate) backend_request: Option<GatewayDuration>,
}

/// The `spec` of a TLSRoute.
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

/// The default rule that a cluster adds to a route without rules.
fn one_rule() -> Vec<HttpRule> {
    vec![HttpRule::default()]
}
