//! The compiled table that requests are routed by: immutable, shared by all workers.
//!
//! A request's host is looked up by hash, exact first, then by its suffixes from the longest; each host has its paths.
//! Hosts with the same routes share one path table, so a thousand domains of one site cost a thousand map entries.
//! Where a more specific host has no route for the request, less specific hosts are asked. Routes for some listeners
//! alone make a scope with hosts of its own for each of them (`scope.rs`). How a table is made, and what it shares with
//! the one before, stands in `builder.rs`.

use std::sync::Arc;

use crate::collections::{Pages, Sharded};
use crate::credentials::Credentials;
use crate::filters::Filters;
use crate::host::{self, LowerHost};
use crate::matching::entry::RouteEntry;
use crate::matching::paths::{Found, PathTable};
use crate::matching::{RequestView, Scope, Values};
use crate::model::{
    AccessLog, Drain, Forwarding, Limits, Listener, LogLine, Metrics, Overload, ProgramLog, Resolver,
    Timeouts, Trailers,
};
use crate::path::PathRules;
use crate::resources::Resources;
use crate::tls::transport::{ServerTls, Transport};

pub(crate) mod builder;
mod explain;
mod listener_id;
mod maglev;
mod parts;
pub(crate) mod series;
mod shown;

use builder::Builder;
pub use explain::PassedOver;
pub use listener_id::ListenerId;
pub use maglev::{Maglev, stable_hash};
pub use parts::{BackendEntry, Target};
use parts::{CompiledRoute, Parts};
pub use series::{OTHER_GROUPS, Series};
pub use shown::ShownCertificate;

/// One version of the whole configuration, compiled.
#[derive(Debug)]
pub struct Table {
    /// Grows with every change.
    pub version: u64,
    /// What is done to the paths of requests.
    pub paths: PathRules,
    /// Limits on sizes and connections.
    pub limits: Limits,
    /// From when on new requests are turned away, if ever.
    pub overload: Option<Overload>,
    /// Timeouts of clients and upstreams.
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    pub drain: Drain,
    /// Worker threads; `None` is one for each CPU.
    pub workers: Option<u32>,
    /// A line for each request, and what it is made of.
    pub access_log: Option<(AccessLog, LogLine)>,
    /// Log of the program itself, on standard error.
    pub log: ProgramLog,
    /// Optional metrics.
    pub metrics: Metrics,
    /// What is added to requests for upstreams, if anything.
    pub forwarding: Option<Forwarding>,
    /// Request fields pass whose names hold other characters than letters, digits and `-`.
    pub underscores_in_headers: bool,
    /// Which trailers pass.
    pub trailers: Trailers,
    /// Where clients connect.
    pub listeners: Arc<[Listener]>,
    /// DNS servers that resolve the host names of endpoints.
    pub resolver: Resolver,
    /// Some backend is told the addresses of each client.
    pub tells_addresses: bool,
    /// Endpoints of some backend are checked.
    pub checks_health: bool,
    /// Endpoints of some backend are known by names alone.
    pub has_names: bool,
    /// One for each of the listeners.
    transports: Vec<Transport>,
    /// TLS of each of the listeners.
    pub(crate) server_tls: Vec<Option<Arc<ServerTls>>>,
    pub(crate) parts: Parts,
    series: Pages<Arc<Series>>,
}

/// A route found.
#[derive(Clone, Copy, Debug)]
pub struct Match<'t> {
    /// What to do.
    pub target: &'t Target,
    /// How many bytes of the path matched, for the rewrite.
    pub matched: usize,
    /// The position among the routes, by which the table knows its key.
    pub route: usize,
}

impl Table {
    /// Where a request goes.
    pub fn find(&self, request: &RequestView<'_>) -> Option<Match<'_>> {
        let host = LowerHost::of(request.host);
        let host = host.as_ref().map_or("", LowerHost::as_str);
        let hosts = self.parts.scopes.hosts(request.scope);
        let values = Values::of(request);
        let found = hosts
            .exact
            .get(host)
            .and_then(|paths| paths.find(&values))
            .or_else(|| find_by_suffix(&hosts.suffixes, host, &values))
            .or_else(|| hosts.every.as_ref().and_then(|paths| paths.find(&values)));
        let Found { target, matched } = found?;
        let route = target as usize;
        Some(Match { target: &self.parts.routes.get(route)?.target, matched, route })
    }

    /// All backends, at the positions that [`Target::backend`] tells. One has its position in every version until it is
    /// gone; then another may get it.
    pub fn backends(&self) -> &Pages<BackendEntry> {
        &self.parts.backends
    }

    /// What routes do beside passing requests on, at the positions that [`Target::filters`] tells.
    pub fn filters(&self) -> &Pages<Arc<Filters>> {
        &self.parts.filters
    }

    /// Which requests are counted together, at the positions that [`Target::series`] tells.
    pub fn series(&self) -> &Pages<Arc<Series>> {
        &self.series
    }

    /// The key of the route at this position, as in `routes[3]`.
    pub fn key(&self, route: usize) -> &str {
        &self.parts.routes[route].entry.key
    }

    /// The position of the backend that routes call `name`.
    pub fn backend_named(&self, name: &str) -> Option<usize> {
        self.parts.by_name.get(name).map(|&position| position as usize)
    }

    /// The routes in the order of their keys, for who looks at all of them.
    pub(crate) fn routes(&self) -> Vec<&Arc<RouteEntry>> {
        let mut routes: Vec<_> = self.parts.routes.iter().map(|CompiledRoute { entry, .. }| entry).collect();
        routes.sort_by(|a, b| a.key.cmp(&b.key));
        routes
    }

    /// How clients of this listener are spoken with; `None` where there is no such listener.
    pub fn transport(&self, listener: impl Into<ListenerId>) -> Option<&Transport> {
        self.transports.get(self.position_of(listener.into())?)
    }

    /// The routes that clients of this listener may have; those for every listener where there is no such one.
    #[inline]
    pub fn scope(&self, listener: impl Into<ListenerId>) -> Scope {
        match self.parts.scopes.is_one() {
            true => Scope::default(),
            false => self.parts.scopes.of_listener(self.position_of(listener.into())),
        }
    }

    /// Whether clients of this listener begin with a header of the PROXY protocol; `None` where there is no such
    /// listener.
    pub fn wants_proxy_header(&self, listener: impl Into<ListenerId>) -> Option<bool> {
        Some(self.listeners[self.position_of(listener.into())?].proxy_protocol)
    }

    /// Whether clients of this listener may end their side and still be answered; `None` where there is no such listener.
    pub fn allows_half_close(&self, listener: impl Into<ListenerId>) -> Option<bool> {
        Some(self.listeners[self.position_of(listener.into())?].half_close)
    }

    /// What each of [`Table::listeners`] is known by.
    pub fn listener_ids(&self) -> Vec<ListenerId> {
        let listeners = self.listeners.iter().enumerate();
        listeners
            .map(|(position, listener)| {
                let before = &self.listeners[..position];
                let turn = before.iter().filter(|other| other.address == listener.address).count();
                ListenerId { address: listener.address, turn }
            })
            .collect()
    }

    /// The position of the listener among [`Table::listeners`].
    pub(crate) fn position_of(&self, id: ListenerId) -> Option<usize> {
        let same = self.listeners.iter().enumerate().filter(|(_, other)| other.address == id.address);
        same.map(|(position, _)| position).nth(id.turn)
    }

    /// The table of a state for which the parts are made.
    pub(crate) fn of(
        version: u64,
        resources: &Resources,
        credentials: &Credentials,
        builder: &Builder,
        listeners: Arc<[Listener]>,
    ) -> Table {
        let Resources { settings, tallies, .. } = resources;
        let mut parts = builder.parts.clone();
        parts.scopes.assign(&listeners);
        Table {
            version,
            paths: settings.paths,
            limits: settings.limits.clone(),
            overload: Some(settings.overload).filter(Overload::is_any),
            timeouts: settings.timeouts.clone(),
            drain: settings.drain.clone(),
            workers: settings.workers,
            access_log: settings.access_log.as_ref().and_then(AccessLog::with_line),
            log: settings.log.clone(),
            metrics: settings.metrics.clone(),
            forwarding: Some(settings.forwarding.clone()).filter(Forwarding::is_any),
            underscores_in_headers: settings.underscores_in_headers,
            trailers: settings.trailers.clone(),
            listeners,
            resolver: (*settings.resolver).clone(),
            tells_addresses: tallies.told > 0,
            checks_health: tallies.checked > 0,
            has_names: tallies.named > 0,
            transports: resources.listeners.iter().map(|(name, l)| credentials.transport(name, l)).collect(),
            server_tls: resources.listeners.keys().map(|name| credentials.server(name)).collect(),
            parts,
            series: builder.series.all.clone(),
        }
    }
}

fn find_by_suffix(suffixes: &Sharded<Arc<PathTable>>, host: &str, values: &Values<'_, '_>) -> Option<Found> {
    if suffixes.is_empty() {
        return None;
    }
    host::suffixes(host).find_map(|suffix| suffixes.get(suffix)?.find(values))
}

#[cfg(test)]
mod tests;
