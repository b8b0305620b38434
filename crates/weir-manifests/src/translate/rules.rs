//! Translates HTTPRoutes: each match of each rule becomes a route of the gateway model, with its listeners and hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::{
    Key, NormalTarget, OneOrMany, PathRules, Precedence, Redirect, Resource, Route, RouteTimeouts,
    ValueMatch, WeightedBackend,
};
use weir_document::Time;

use super::attach::Child;
use super::catalog::{Catalog, Referrer, Wanted};
use super::filters::add_filters;
use super::gateways::Gateways;
use super::{Attachments, Misfit, Translation};
use crate::duration::GatewayDuration;
use crate::kind::{GROUP, Kind};
use crate::manifest::Body;
use crate::origin::Origin;
use crate::reference::BackendRef;
use crate::route::{HttpMatch, HttpRule, HttpTimeouts, NamedMatch, PathMatchKind, ValueMatchKind};

/// A rule, with the context for its translation.
pub(super) struct RuleOf<'c, 'm> {
    pub(super) catalog: &'c Catalog<'m>,
    pub(super) referrer: Referrer<'m>,
    pub(super) rule: &'m HttpRule,
    /// The path of the rule, such as `spec.rules[3]`.
    pub(super) path: String,
}

/// A group of listeners at which a route matches the same `hosts`. If `hosts` is empty, the route matches every host.
struct Group {
    hosts: Vec<String>,
    listeners: Vec<String>,
    /// The port of these listeners, if groups are split by port.
    port: Option<u16>,
}

/// Adds the routes for all HTTPRoutes.
pub(super) fn add_http_routes(
    catalog: &Catalog<'_>,
    gateways: &Gateways<'_>,
    translation: &mut Translation,
    misfits: &mut Vec<Misfit>,
) {
    for (manifest, name, body) in catalog.all(Kind::HttpRoute) {
        let Body::HttpRoute(spec) = body else { continue };
        let kind = Kind::HttpRoute;
        let child = Child { manifest, kind, name, parents: &spec.parent_refs, hostnames: &spec.hostnames };
        let attachments = child.attach(catalog, gateways, misfits);
        let referrer = Referrer { manifest, kind, namespace: &name.namespace };
        for (position, rule) in spec.rules.iter().enumerate() {
            let rule = RuleOf { catalog, referrer, rule, path: format!("spec.rules[{position}]") };
            match rule.template() {
                Ok(template) => {
                    add_rule(&rule, position, &template, &child, &attachments, translation);
                }
                Err(found) => misfits.extend(found),
            }
        }
    }
}

/// Adds one route for each match of the rule and each group of listeners.
fn add_rule(
    RuleOf { catalog, rule, .. }: &RuleOf<'_, '_>,
    position: usize,
    template: &Route,
    child: &Child<'_>,
    attachments: &Attachments,
    translation: &mut Translation,
) {
    let groups = groups(attachments, template.redirect.as_deref().is_some_and(leads_to_its_port));
    let whole = HttpMatch::default();
    let matches = match rule.matches.as_slice() {
        [] => std::slice::from_ref(&whole),
        matches => matches,
    };
    for (index, matched) in matches.iter().enumerate() {
        let with_match = Route {
            precedence: Some(Box::new(Precedence {
                created_s: catalog.manifests[child.manifest].created_s,
                resource: child.name.to_string(),
                position: (position, index),
            })),
            ..matched_by(matched, template.clone())
        };
        let of_match = if rule.matches.is_empty() { String::new() } else { format!(".matches[{index}]") };
        let matched = (!rule.matches.is_empty()).then_some(index);
        for (at, group) in groups.iter().enumerate() {
            let route = group.routed(with_match.clone());
            let further = if at == 0 { String::new() } else { group.label() };
            let key = format!("{} {} rules[{position}]{of_match}{further}", child.kind, child.name);
            let origin = Origin::Route { manifest: child.manifest, rule: position, matched };
            translation.add(key.clone(), origin, Key::Route(key), Resource::Route(Arc::new(route)));
        }
    }
}

/// Groups the attachments by hosts, and with `tells_ports` also by port.
fn groups(attachments: &Attachments, tells_ports: bool) -> Vec<Group> {
    let mut by_hosts: BTreeMap<(Vec<String>, Option<u16>), Vec<String>> = BTreeMap::new();
    for (listener, wanted) in attachments {
        let port = tells_ports.then_some(wanted.port);
        if wanted.every {
            by_hosts.entry((Vec::new(), port)).or_default().push(listener.clone());
        }
        if !wanted.names.is_empty() {
            let names = wanted.names.iter().cloned().collect();
            by_hosts.entry((names, port)).or_default().push(listener.clone());
        }
    }
    let group = |((hosts, port), listeners)| Group { hosts, listeners, port };
    by_hosts.into_iter().map(group).collect()
}

/// Whether the redirect leads to the port of the listener.
fn leads_to_its_port(redirect: &Redirect) -> bool {
    redirect.scheme.is_none() && redirect.port.is_none()
}

impl Group {
    /// The route, restricted to the hosts and listeners of this group.
    fn routed(&self, mut route: Route) -> Route {
        route.hosts.clone_from(&self.hosts);
        route.listeners.clone_from(&self.listeners);
        if let Some(redirect) = &mut route.redirect {
            redirect.port = redirect.port.or(self.port);
        }
        route
    }

    /// A label that distinguishes the group's routes from those of the first group.
    fn label(&self) -> String {
        let at = format!(" at {}", self.listeners.join(", "));
        if self.hosts.is_empty() { at } else { format!("{at} for {}", self.hosts.join(", ")) }
    }
}

impl RuleOf<'_, '_> {
    pub(super) fn misfit(
        &self,
        field: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Misfit {
        Misfit::new(self.referrer.manifest, format!("{}.{field}", self.path), message, remedy)
    }

    /// Translates the parts that all routes of the rule have in common.
    fn template(&self) -> Result<Route, Vec<Misfit>> {
        let mut route = Route { name: self.rule.name.clone(), ..Route::default() };
        let mut misfits = Vec::new();
        if let Some(timeouts) = &self.rule.timeouts {
            route.timeouts = bounds(timeouts).map(Box::new);
        }
        misfits.extend(add_filters(self, &mut route).err());
        let mut backends = Vec::new();
        for (index, reference) in self.rule.backend_refs.iter().enumerate() {
            match self.backend(reference, &format!("backendRefs[{index}]")) {
                Ok(backend) => backends.push(WeightedBackend { backend, weight: reference.weight() }),
                Err(misfit) => misfits.push(misfit),
            }
        }
        if route.redirect.is_some() {
            // A redirect sends no request upstream.
            route = Route { request_headers: None, mirror: None, timeouts: None, ..route };
        }
        match backends.as_slice() {
            // A redirect needs no backend.
            [] if route.redirect.is_some() => {}
            [only] if only.weight > 0 => route.backend = Some(only.backend.clone()),
            // Without backends, or if all weights are 0, the response is 500.
            _ => route.backends = Some(backends),
        }
        if misfits.is_empty() { Ok(route) } else { Err(misfits) }
    }

    /// The name, in the gateway model, of the backend that `field` references.
    pub(super) fn backend(&self, reference: &BackendRef, field: &str) -> Result<String, Misfit> {
        if !reference.filters.is_empty() {
            let message = "filters per backend are not supported";
            return Err(self.misfit(
                &format!("{field}.filters"),
                message,
                "move them to `filters` of the rule",
            ));
        }
        backend_name(self.catalog, self.referrer, reference, &format!("{}.{field}", self.path))
    }
}

/// The name, in the gateway model, of the backend that is referenced at `path`.
pub(super) fn backend_name(
    catalog: &Catalog<'_>,
    referrer: Referrer<'_>,
    reference: &BackendRef,
    path: &str,
) -> Result<String, Misfit> {
    let wrong = |field: &str, message: String, remedy: String| {
        Err(Misfit::new(referrer.manifest, format!("{path}{field}"), message, remedy))
    };
    if !reference.is_backend() {
        let kind = reference.kind.as_deref().unwrap_or("Service");
        let message = format!(
            "the addresses of {kind} `{}` are unknown: the gateway does not query a Kubernetes API server",
            reference.name
        );
        return wrong("", message, format!("reference a Backend: `group: {GROUP}, kind: Backend`"));
    }
    if reference.port.is_some() {
        let message = "the Backend already sets a port for each address".to_owned();
        return wrong(".port", message, "remove `port`".to_owned());
    }
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_str());
    let wanted = Wanted { kind: Kind::Backend, namespace, name };
    let (_, name) = catalog.resolve(referrer, path, wanted)?;
    Ok(name.to_string())
}

/// Adds the conditions of this match to the route.
fn matched_by(matched: &HttpMatch, mut route: Route) -> Route {
    let path = &matched.path.value;
    match matched.path.kind {
        PathMatchKind::Exact => route.exact = Some(OneOrMany::One(normal_path(path))),
        PathMatchKind::PathPrefix => route.path = Some(normal_path(path)),
        PathMatchKind::RegularExpression => route.regex = Some(path.clone()),
    }
    route.methods = matched.method.iter().cloned().collect();
    route.headers = values(&matched.headers, str::eq_ignore_ascii_case);
    route.query = values(&matched.query_params, str::eq);
    route
}

/// Normalizes a path in the same way as request paths. An invalid path stays unchanged, so that `weir-config` reports
/// its error.
pub(super) fn normal_path(path: &str) -> String {
    match NormalTarget::of(path, &PathRules::AS_SENT) {
        Ok(normal) => normal.as_str().to_owned(),
        Err(_) => path.to_owned(),
    }
}

/// Translates conditions on headers or parameters. If several have the same name, only the first is used.
fn values(all: &[NamedMatch], is_same: fn(&str, &str) -> bool) -> BTreeMap<String, ValueMatch> {
    let mut values: BTreeMap<String, ValueMatch> = BTreeMap::new();
    for NamedMatch { kind, name, value } in all {
        if values.keys().any(|there| is_same(there, name)) {
            continue;
        }
        let value = value.clone();
        let wanted = match kind {
            ValueMatchKind::Exact => ValueMatch::Value(value),
            ValueMatchKind::RegularExpression => ValueMatch::Regex { regex: value },
        };
        values.insert(name.clone(), wanted);
    }
    values
}

/// The timeouts of a rule. The longest of them also limits response headers and body. Otherwise the timeouts of the
/// gateway or the backend would apply, which could be shorter.
fn bounds(timeouts: &HttpTimeouts) -> Option<RouteTimeouts> {
    let most = RouteTimeouts::LONGEST;
    let bound = |said: GatewayDuration| said.bound().map(|duration| Time(duration).min(most));
    let said = [timeouts.request, timeouts.backend_request];
    let longest = said.into_iter().flatten().map(|said| bound(said).unwrap_or(most)).max()?;
    Some(RouteTimeouts {
        request: timeouts.request.and_then(bound),
        backend: timeouts.backend_request.and_then(bound),
        response: Some(longest),
        body: Some(longest),
        upgraded: None,
    })
}
