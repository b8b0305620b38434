//! Filters of a rule, as written in manifests.

use serde::Deserialize;

use crate::reference::BackendRef;

/// One filter: its type, and one field for the settings of each type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HttpFilter {
    #[serde(rename = "type")]
    pub(crate) kind: FilterKind,
    #[serde(default)]
    pub(crate) request_header_modifier: Option<HeaderFilter>,
    #[serde(default)]
    pub(crate) response_header_modifier: Option<HeaderFilter>,
    #[serde(default)]
    pub(crate) request_mirror: Option<MirrorFilter>,
    #[serde(default)]
    pub(crate) request_redirect: Option<RedirectFilter>,
    #[serde(default)]
    pub(crate) url_rewrite: Option<RewriteFilter>,
    #[serde(default)]
    pub(crate) cors: Option<CorsFilter>,
}

/// The type of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FilterKind {
    RequestHeaderModifier,
    ResponseHeaderModifier,
    RequestMirror,
    RequestRedirect,
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
    #[serde(rename = "CORS")]
    Cors,
}

/// Changes to headers. If a list contains a name several times (ignoring case), only its first entry is used. If
/// several lists contain a name, it is first removed, then set, then added.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HeaderFilter {
    pub(crate) set: Vec<NamedValue>,
    pub(crate) add: Vec<NamedValue>,
    pub(crate) remove: Vec<String>,
}

/// A header with its value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Copies of requests. Unlike in the compact form, they may go to the rule's own backend.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MirrorFilter {
    pub(crate) backend_ref: BackendRef,
    #[serde(default)]
    pub(crate) percent: Option<u32>,
    #[serde(default)]
    pub(crate) fraction: Option<Fraction>,
}

/// A share as a fraction; the denominator is 100 by default.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fraction {
    pub(crate) numerator: u32,
    #[serde(default = "hundred")]
    pub(crate) denominator: u32,
}

/// A redirect of clients. Without `scheme` and `port`, it leads to the port of the listener, whatever port `Host`
/// contains. If a rule has a redirect, URLRewrite is an error; RequestHeaderModifier, RequestMirror and `timeouts` have
/// no effect; ResponseHeaderModifier and CORS apply to the redirect.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RedirectFilter {
    pub(crate) scheme: Option<UrlScheme>,
    pub(crate) hostname: Option<String>,
    pub(crate) path: Option<PathModifier>,
    pub(crate) port: Option<u16>,
    pub(crate) status_code: Option<u16>,
}

/// A URL scheme.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UrlScheme {
    Http,
    Https,
}

/// A rewrite of host and path of upstream requests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RewriteFilter {
    pub(crate) hostname: Option<String>,
    pub(crate) path: Option<PathModifier>,
}

/// The replacement for a path or its prefix.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PathModifier {
    #[serde(rename = "type")]
    pub(crate) kind: PathModifierKind,
    #[serde(default)]
    pub(crate) replace_full_path: Option<String>,
    #[serde(default)]
    pub(crate) replace_prefix_match: Option<String>,
}

/// The part of the path that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum PathModifierKind {
    ReplaceFullPath,
    ReplacePrefixMatch,
}

/// Which pages of other origins may use the responses: none without `allowOrigins`. With `allowCredentials` and the
/// origin `*` or `https://*`, the response contains the page's own origin. Every such page can then send requests with
/// its user's credentials and read the responses. Gateway API requires this; the compact form rejects it. With
/// `allowCredentials`, `*` in `exposeHeaders` is left out, because browsers would treat it as a literal name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CorsFilter {
    #[serde(default)]
    pub(crate) allow_origins: Vec<String>,
    #[serde(default)]
    pub(crate) allow_credentials: bool,
    #[serde(default)]
    pub(crate) allow_methods: Vec<String>,
    #[serde(default)]
    pub(crate) allow_headers: Vec<String>,
    #[serde(default)]
    pub(crate) expose_headers: Vec<String>,
    /// How long browsers may cache a preflight response, in seconds.
    #[serde(default = "five")]
    pub(crate) max_age: u32,
}

impl FilterKind {
    /// The name of the type in manifests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FilterKind::RequestHeaderModifier => "RequestHeaderModifier",
            FilterKind::ResponseHeaderModifier => "ResponseHeaderModifier",
            FilterKind::RequestMirror => "RequestMirror",
            FilterKind::RequestRedirect => "RequestRedirect",
            FilterKind::UrlRewrite => "URLRewrite",
            FilterKind::Cors => "CORS",
        }
    }

    /// The field that contains the settings of this type.
    pub(crate) fn field(self) -> &'static str {
        match self {
            FilterKind::RequestHeaderModifier => "requestHeaderModifier",
            FilterKind::ResponseHeaderModifier => "responseHeaderModifier",
            FilterKind::RequestMirror => "requestMirror",
            FilterKind::RequestRedirect => "requestRedirect",
            FilterKind::UrlRewrite => "urlRewrite",
            FilterKind::Cors => "cors",
        }
    }
}

impl HttpFilter {
    /// The types whose fields are set. A valid filter has only the field of its own type.
    pub(crate) fn contents(&self) -> Vec<FilterKind> {
        let all = [
            (FilterKind::RequestHeaderModifier, self.request_header_modifier.is_some()),
            (FilterKind::ResponseHeaderModifier, self.response_header_modifier.is_some()),
            (FilterKind::RequestMirror, self.request_mirror.is_some()),
            (FilterKind::RequestRedirect, self.request_redirect.is_some()),
            (FilterKind::UrlRewrite, self.url_rewrite.is_some()),
            (FilterKind::Cors, self.cors.is_some()),
        ];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(kind, _)| kind).collect()
    }
}

fn hundred() -> u32 {
    100
}

fn five() -> u32 {
    5
}
