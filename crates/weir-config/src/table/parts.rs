//! The parts of a table. Versions share the parts that did not change.

use std::sync::Arc;

use super::maglev::Maglev;
use crate::collections::{Pages, Sharded};
use crate::credentials::tokens::TokenSet;
use crate::filters::Filters;
use crate::matching::entry::RouteEntry;
use crate::matching::hosts::Scopes;
use crate::model::Backend;
use crate::tls::UpstreamTls;

/// The parts of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) backends: Pages<BackendEntry>,
    /// Positions of backends, by name.
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
    /// The backend; shared by all versions that did not change it.
    pub backend: Arc<Backend>,
    /// TLS with its endpoints; shared by all versions that did not change it.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Whether its in-flight requests are counted, because limits or retries depend on the number.
    pub counts_requests: bool,
    /// Whether the request decides which endpoint gets it.
    pub has_affinity: bool,
    /// Whether some endpoints are host names.
    pub has_names: bool,
    /// Whether failed requests can eject endpoints.
    pub has_ejection: bool,
    /// The consistent hash table, if the backend has `balance: hash` and no host names.
    pub maglev: Option<Arc<Maglev>>,
}

/// A route with its action.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) target: Target,
    pub(crate) entry: Arc<RouteEntry>,
}

/// The action of a route.
#[derive(Clone, Debug)]
pub struct Target {
    /// Position among [`crate::Table::backends`]; out of range if the filters handle the request.
    pub backend: usize,
    /// What replaces the matched part of the path.
    pub rewrite: Option<Arc<str>>,
    /// A request must carry one of these bearer tokens.
    pub tokens: Option<Arc<TokenSet>>,
    /// Position among [`crate::Table::filters`]; most routes have none.
    pub filters: Option<u32>,
    /// Position among [`crate::Table::series`]. With several backends, it is the series of requests that none of them
    /// gets; the filters have those of the backends.
    pub series: u32,
}
