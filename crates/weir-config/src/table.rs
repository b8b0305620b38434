//! The compiled routing table: immutable, shared by all workers.
//!
//! The host of a request is looked up by hash: exact names first, then suffixes, the longest first. Each host has its
//! own paths. Hosts with the same routes share one path table, so a thousand domains of one site cost a thousand map
//! entries. If the most specific host has no matching route, less specific hosts are tried. If a route names a
//! listener, this listener has a scope with its own hosts (`matching/hosts.rs`). `builder.rs` builds a table from the
//! previous one.

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

/// One compiled version of the whole configuration.
#[derive(Debug)]
pub struct Table {
    /// Number of the version; it increases with every change.
    pub version: u64,
    /// Normalization of request paths.
    pub paths: PathRules,
    /// Limits on sizes and connections.
    pub limits: Limits,
    /// Thresholds for load shedding, if any.
    pub overload: Option<Overload>,
    /// Timeouts for clients and upstreams.
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    pub drain: Drain,
    /// Number of worker threads; `None` means one per CPU, limited by the cgroup quota.
    pub workers: Option<u32>,
    /// The settings of the access log with the parsed format; `None` if there is no access log.
    pub access_log: Option<(AccessLog, LogLine)>,
    /// Log of the program itself, on standard error.
    pub log: ProgramLog,
    /// Optional metrics.
    pub metrics: Metrics,
    /// Headers that the gateway adds to upstream requests, if any.
    pub forwarding: Option<Forwarding>,
    /// Whether to forward request headers whose names contain characters other than letters, digits and `-`.
    pub underscores_in_headers: bool,
    /// Trailers to forward, by name.
    pub trailers: Trailers,
    /// The listeners, in the order of the configuration.
    pub listeners: Arc<[Listener]>,
    /// DNS servers that resolve the host names of endpoints.
    pub resolver: Resolver,
    /// Whether at least one backend gets a PROXY protocol header with the client address.
    pub sends_proxy_protocol: bool,
    /// Whether at least one backend has active health checks.
    pub checks_health: bool,
    /// Whether at least one backend has host names among its endpoints.
    pub has_names: bool,
    /// The transport of each listener, in the order of `listeners`.
    transports: Vec<Transport>,
    /// TLS of each listener, in the order of `listeners`.
    pub(crate) server_tls: Vec<Option<Arc<ServerTls>>>,
    pub(crate) parts: Parts,
    series: Pages<Arc<Series>>,
}

/// The route that matches a request.
#[derive(Clone, Copy, Debug)]
pub struct Match<'t> {
    /// What happens to the request.
    pub target: &'t Target,
    /// Length of the matched part of the path in bytes, which a rewrite replaces.
    pub matched: usize,
    /// The position of the route, for [`Table::key`] and [`Table::label`].
    pub route: usize,
}

impl Table {
    /// Finds the route that matches a request.
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

    /// All backends; [`Target::backend`] is a position in this list. A backend keeps its position until it is removed;
    /// after that, another backend can get the position.
    pub fn backends(&self) -> &Pages<BackendEntry> {
        &self.parts.backends
    }

    /// The filters of all routes; [`Target::filters`] is a position in this list.
    pub fn filters(&self) -> &Pages<Arc<Filters>> {
        &self.parts.filters
    }

    /// The metrics series; [`Target::series`] is a position in this list.
    pub fn series(&self) -> &Pages<Arc<Series>> {
        &self.series
    }

    /// The key of the route at this position, such as `routes[3]`.
    pub fn key(&self, route: usize) -> &str {
        &self.parts.routes[route].entry.key
    }

    /// The position of the backend `name` among [`Table::backends`].
    pub fn backend_named(&self, name: &str) -> Option<usize> {
        self.parts.by_name.get(name).map(|&position| position as usize)
    }

    /// All routes, in the order of their keys.
    pub(crate) fn routes(&self) -> Vec<&Arc<RouteEntry>> {
        let mut routes: Vec<_> = self.parts.routes.iter().map(|CompiledRoute { entry, .. }| entry).collect();
        routes.sort_by(|a, b| a.key.cmp(&b.key));
        routes
    }

    /// The transport of this listener; `None` if there is no such listener.
    pub fn transport(&self, listener: impl Into<ListenerId>) -> Option<&Transport> {
        self.transports.get(self.position_of(listener.into())?)
    }

    /// The scope of this listener. Listeners that are unknown, or that no route names, share one scope.
    #[inline]
    pub fn scope(&self, listener: impl Into<ListenerId>) -> Scope {
        match self.parts.scopes.is_one() {
            true => Scope::default(),
            false => self.parts.scopes.of_listener(self.position_of(listener.into())),
        }
    }

    /// Whether connections to this listener start with a PROXY protocol header; `None` if there is no such listener.
    pub fn requires_proxy_header(&self, listener: impl Into<ListenerId>) -> Option<bool> {
        Some(self.listeners[self.position_of(listener.into())?].proxy_protocol)
    }

    /// Whether clients of this listener can close their sending side early; `None` if there is no such listener.
    pub fn allows_half_close(&self, listener: impl Into<ListenerId>) -> Option<bool> {
        Some(self.listeners[self.position_of(listener.into())?].half_close)
    }

    /// The identities of [`Table::listeners`], in the same order.
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

    /// The position of this listener among [`Table::listeners`].
    pub(crate) fn position_of(&self, id: ListenerId) -> Option<usize> {
        let same = self.listeners.iter().enumerate().filter(|(_, other)| other.address == id.address);
        same.map(|(position, _)| position).nth(id.turn)
    }

    /// Makes a table from these resources and from the parts that `builder` has already built.
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
            sends_proxy_protocol: tallies.proxy_protocol > 0,
            checks_health: tallies.health_checked > 0,
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
