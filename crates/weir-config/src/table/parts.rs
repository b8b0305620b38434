//! What a table is made of. Versions share the parts that did not change.

use std::sync::Arc;

use super::maglev::Maglev;
use crate::collections::{Pages, Sharded};
use crate::credentials::tokens::TokenSet;
use crate::filters::Filters;
use crate::matching::entry::RouteEntry;
use crate::matching::hosts::Scopes;
use crate::model::Backend;
use crate::tls::UpstreamTls;

/// What tables share as far as it did not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) backends: Pages<BackendEntry>,
    /// Where backends are, by their names.
    pub(crate) by_name: Sharded<u32>,
    pub(crate) routes: Pages<CompiledRoute>,
    pub(crate) filters: Pages<Arc<Filters>>,
    pub(crate) scopes: Scopes,
}

/// A backend under its name.
#[derive(Clone, Debug, Default)]
pub struct BackendEntry {
    /// The name that routes use.
    pub name: String,
    /// The backend; the same allocation in every version that did not change it.
    pub backend: Arc<Backend>,
    /// TLS with its endpoints; the same allocation in every version that changed nothing of it.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Its requests in flight are counted, as something depends on their number.
    pub counts_requests: bool,
    /// What a request carries decides which endpoint gets it.
    pub has_affinity: bool,
    /// Some of its endpoints are known by names alone.
    pub has_names: bool,
    /// What its requests come to may take endpoints out.
    pub has_ejection: bool,
    /// Which endpoint has a key, where the backend is balanced by hashes and has no names.
    pub maglev: Option<Arc<Maglev>>,
}

/// A route as a table finds it.
#[derive(Clone, Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) target: Target,
    pub(crate) entry: Arc<RouteEntry>,
}

/// What a route does with a request.
#[derive(Clone, Debug)]
pub struct Target {
    /// Position among [`crate::Table::backends`]; beyond them where the filters say what answers.
    pub backend: usize,
    /// Replaces what matched.
    pub rewrite: Option<Arc<str>>,
    /// A request must carry one of these bearer tokens.
    pub tokens: Option<Arc<TokenSet>>,
    /// Position among [`crate::Table::filters`]; most routes have none.
    pub filters: Option<u32>,
    /// Position among [`crate::Table::series`]. Where several backends share the requests, that is for those that none
    /// of them gets, and the filters have the backends' own.
    pub series: u32,
}
