//! The parts of a routing table. Versions of the table share unchanged parts.

use std::sync::Arc;

use super::maglev::Maglev;
use crate::collections::{Pages, Sharded};
use crate::credentials::tokens::TokenSet;
use crate::filters::Filters;
use crate::matching::entry::RouteEntry;
use crate::matching::hosts::Scopes;
use crate::model::Backend;
use crate::tls::UpstreamTls;

/// Parts of a table that each configuration change updates, without building them again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) backends: Pages<BackendEntry>,
    /// Indexes in `backends`, by backend name.
    pub(crate) by_name: Sharded<u32>,
    pub(crate) routes: Pages<CompiledRoute>,
    pub(crate) filters: Pages<Arc<Filters>>,
    pub(crate) scopes: Scopes,
}

/// A backend with its name.
#[derive(Clone, Debug, Default)]
pub struct BackendEntry {
    /// The name that routes use.
    pub name: String,
    /// The configured backend; versions of the table share it until it changes.
    pub backend: Arc<Backend>,
    /// TLS for connections to the endpoints; versions of the table share it until it changes.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Whether in-flight requests are counted: only if limits or retries depend on their number.
    pub counts_requests: bool,
    /// Whether the hash key or the cookie of a request selects the endpoint.
    pub has_affinity: bool,
    /// Whether at least one endpoint is a host name.
    pub has_names: bool,
    /// Whether failed requests can eject endpoints.
    pub has_ejection: bool,
    /// The consistent hash table; `None` unless the backend has `balance: hash` and no host names.
    pub maglev: Option<Arc<Maglev>>,
}

/// A route with its action.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) target: Target,
    pub(crate) entry: Arc<RouteEntry>,
}

/// What happens to the requests of a route.
#[derive(Clone, Debug)]
pub struct Target {
    /// Index in [`crate::Table::backends`]. Out of range if the route has several backends or none; then the filters
    /// handle the request.
    pub backend: usize,
    /// The text that replaces the matched part of the path.
    pub rewrite: Option<Arc<str>>,
    /// Accepted bearer tokens; `None` if the route requires none.
    pub tokens: Option<Arc<TokenSet>>,
    /// Index in [`crate::Table::filters`]; `None` for most routes.
    pub filters: Option<u32>,
    /// Index in [`crate::Table::series`]. If the route has several backends, this series counts only requests that are
    /// not sent to any backend. The filters contain a separate series per backend.
    pub series: u32,
}
