//! Finds rules that clients can bypass with another spelling of the path. A rule is a route that rejects requests or
//! requires tokens. The gateway matches the other spelling to a route that allows more, but some upstreams treat this
//! spelling like the path of the rule. With the default path settings, only a trailing slash after an exact path can
//! bypass a rule.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use weir_document::Problem;

use crate::host::HostPattern;
use crate::matching::RequestView;
use crate::matching::Scope;
use crate::matching::entry::RouteEntry;
use crate::model::{OneOrMany, Route};
use crate::path::{NormalTarget, PathParameters};
use crate::table::Table;

/// How much a route protects upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Guard {
    Nothing,
    /// Rejects requests without a token.
    Tokens,
    /// Rejects every request.
    All,
}

/// Maximum number of lookups for all rules together. This limits the check to a second or two for configurations with
/// many hosts and rules.
const LOOK_UPS_MAX: usize = 1_000_000;

/// A way to spell a path that some servers (`readers`) read as the plain path. The setting in `remedy` prevents it.
struct Kind {
    /// Whether this kind applies only to exact paths.
    is_exact: bool,
    /// Returns the spellings of a path, the simplest first.
    spell: fn(&str, &Probes<'_>) -> Vec<String>,
    readers: &'static str,
    remedy: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        is_exact: false,
        spell: with_empty_segments,
        readers: "nginx, Tomcat and others",
        remedy: "set `paths.merge_slashes: true`",
    },
    Kind {
        is_exact: false,
        spell: with_escaped_slashes,
        readers: "nginx and others",
        remedy: "set `paths.escaped_slashes: reject`",
    },
    Kind {
        is_exact: false,
        spell: with_parameters,
        readers: "Tomcat and other servlet containers",
        remedy: "set `paths.path_parameters: ignore`",
    },
    Kind {
        is_exact: true,
        spell: |path, _| vec![format!("{path}/")],
        readers: "Express, Spring before version 6 and others",
        remedy: "use `path` instead of `exact`: `path` matches with and without the trailing slash",
    },
];

/// Prefixes, hosts and methods of routes, from which the check builds test requests.
struct Probes<'t> {
    /// The prefixes of routes that forward requests to backends.
    prefixes: BTreeSet<&'t str>,
    /// One matching host for each host pattern.
    hosts: BTreeSet<String>,
    methods: BTreeSet<&'t str>,
    keeps_parameters: bool,
    look_ups_left: Cell<usize>,
}

/// The listener, host and method of a test request.
#[derive(Clone, PartialEq)]
struct Sender<'a> {
    scope: Scope,
    host: &'a str,
    method: &'a str,
}

/// A spelling of a path that bypasses a rule.
struct Bypass<'t> {
    rule: &'t RouteEntry,
    field: &'static str,
    path: &'t str,
    spelling: String,
    /// The listener, host and method of the test request, as text, but only where they differ from a usual request for
    /// the rule. Empty if nothing differs.
    by: String,
    /// The position of the route that matches the spelling.
    other: usize,
}

/// Returns at most one problem per kind of spelling that bypasses rules of `table`.
pub(super) fn around_rules(table: &Table) -> Vec<Problem> {
    let routes = table.routes();
    let probes = Probes::of(table, &routes);
    let rules: Vec<&Arc<RouteEntry>> =
        routes.into_iter().filter(|entry| guard(&entry.route) > Guard::Nothing).collect();
    let problem_of = |kind: &Kind| {
        let mut around = rules.iter().filter_map(|rule| bypass(table, rule, kind, &probes));
        let first = around.next()?;
        Some(problem(table, kind, &first, around.count()))
    };
    KINDS.iter().filter_map(problem_of).collect()
}

/// Finds the first spelling that bypasses the rule. Looks up each spelling with every listener, host and method with
/// which the plain path matches the rule.
fn bypass<'t>(table: &Table, rule: &'t RouteEntry, kind: &Kind, probes: &Probes<'_>) -> Option<Bypass<'t>> {
    let route = &rule.route;
    let prefix = route.path.iter().filter(|_| !kind.is_exact);
    let prefix = prefix.map(|path| ("path", path.strip_suffix('/').unwrap_or(path)));
    let exact = route.exact.iter().flat_map(OneOrMany::as_slice);
    let exact = exact.map(|path| ("exact", path.as_str())).filter(|(_, path)| !path.ends_with('/'));
    let hosts = hosts_of(route, probes);
    let own = rule.position as usize;
    for (field, path) in prefix.chain(exact).filter(|(_, path)| !path.is_empty()) {
        let spellings = (kind.spell)(path, probes);
        // Spellings that the gateway rejects, or normalizes to the path of the rule, bypass nothing.
        let passing = spellings.into_iter().filter_map(|spelling| {
            let matched = NormalTarget::of(&spelling, &table.paths).ok()?.path().to_owned();
            (matched != path).then_some((spelling, matched))
        });
        let passing: Vec<(String, String)> = passing.collect();
        if passing.is_empty() {
            continue;
        }
        for sender in senders(table, route, &hosts, probes) {
            let find = |path: &str| probes.find(table, &sender, path);
            // Skip the sender if its request for the plain path does not match the rule, for example because the rule
            // also requires a header.
            if find(path) != Some(own) {
                continue;
            }
            for (spelling, matched) in &passing {
                let Some(other) = find(matched) else { continue };
                let other_route = &table.parts.routes[other].entry.route;
                if is_passed_on(other_route) && guard(other_route) < guard(route) {
                    let by = describe_sender(table, route, &hosts, &sender);
                    return Some(Bypass { rule, field, path, spelling: spelling.clone(), by, other });
                }
            }
        }
    }
    None
}

impl<'t> Probes<'t> {
    fn of(table: &Table, routes: &[&'t Arc<RouteEntry>]) -> Probes<'t> {
        let all = || routes.iter().map(|entry| &*entry.route);
        let lax = all().filter(|route| is_passed_on(route));
        Probes {
            prefixes: lax.filter_map(|route| route.path.as_deref()).collect(),
            hosts: all().flat_map(|route| &route.hosts).map(|host| sample(host)).collect(),
            methods: all().flat_map(|route| &route.methods).map(String::as_str).collect(),
            keeps_parameters: table.paths.path_parameters == PathParameters::Keep,
            look_ups_left: Cell::new(LOOK_UPS_MAX),
        }
    }

    fn find(&self, table: &Table, sender: &Sender<'_>, path: &str) -> Option<usize> {
        self.look_ups_left.set(self.look_ups_left.get().checked_sub(1)?);
        let Sender { scope, host, method } = *sender;
        let view = RequestView { method, scope, ..RequestView::get(host, path) };
        table.find(&view).map(|found| found.route)
    }
}

/// A host that the pattern matches.
fn sample(pattern: &str) -> String {
    pattern.replacen('*', "x", 1).to_ascii_lowercase()
}

/// The hosts to try: the hosts of `route`, then hosts of other routes that `route` also matches.
fn hosts_of(route: &Route, probes: &Probes<'_>) -> Vec<String> {
    let patterns: Vec<HostPattern> =
        route.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect();
    let own: Vec<String> = match patterns.is_empty() {
        true => vec![String::new()],
        false => route.hosts.iter().map(|host| sample(host)).collect(),
    };
    let is_matched =
        |host: &&String| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(host));
    let others = probes.hosts.iter().filter(is_matched).filter(|host| !own.contains(host));
    let others: Vec<String> = others.cloned().collect();
    [own, others].concat()
}

/// The combinations of listener, host and method whose requests match the rule, the most usual first. If the rule has
/// no methods, GET and the methods of all other routes are tried.
fn senders<'a>(
    table: &Table,
    route: &'a Route,
    hosts: &'a [String],
    probes: &'a Probes<'_>,
) -> impl Iterator<Item = Sender<'a>> {
    let methods: Vec<&str> = match route.methods.is_empty() {
        true => {
            std::iter::once("GET").chain(probes.methods.iter().copied().filter(|m| *m != "GET")).collect()
        }
        false => route.methods.iter().map(String::as_str).collect(),
    };
    let scopes: Vec<Scope> = scopes_of(table, route).collect();
    scopes.into_iter().flat_map(move |scope| {
        let methods = methods.clone();
        hosts.iter().flat_map(move |host| {
            methods.clone().into_iter().map(move |method| Sender { scope, host: host.as_str(), method })
        })
    })
}

fn scopes_of(table: &Table, route: &Route) -> impl Iterator<Item = Scope> {
    let scopes = &table.parts.scopes;
    scopes.all().filter(|scope| scopes.has(*scope, route))
}

/// Text about how `sender` differs from a usual request for `route`.
fn describe_sender(table: &Table, route: &Route, hosts: &[String], sender: &Sender<'_>) -> String {
    let listener = table.parts.scopes.name(sender.scope);
    let listener = listener.filter(|_| scopes_of(table, route).next() != Some(sender.scope));
    let host = Some(sender.host).filter(|host| *host != hosts[0]);
    let usual = route.methods.first().map_or("GET", String::as_str);
    let method = Some(sender.method).filter(|method| *method != usual);
    let parts = [("listener", listener), ("host", host), ("method", method)];
    let named = parts.into_iter().filter_map(|(kind, name)| name.map(|name| format!("{kind} `{name}`")));
    match named.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        parts => format!(" ({})", parts.join(", ")),
    }
}

fn slashes(path: &str) -> impl Iterator<Item = usize> {
    path.match_indices('/').map(|(at, _)| at)
}

/// Spellings with an empty segment: `//a/b`, `/a//b`.
fn with_empty_segments(path: &str, _: &Probes<'_>) -> Vec<String> {
    slashes(path).map(|at| format!("{}/{}", &path[..at], &path[at..])).collect()
}

/// Spellings with an escaped slash: `/%2Fa/b`, `/a/%2Fb`, `/a%2Fb`.
fn with_escaped_slashes(path: &str, _: &Probes<'_>) -> Vec<String> {
    let of_escape = |escape: &str| {
        let behind = slashes(path).map(|at| format!("{}{escape}{}", &path[..=at], &path[at + 1..]));
        // The first slash stays plain, because every path begins with a plain slash.
        let instead = slashes(path).skip(1).map(|at| format!("{}{escape}{}", &path[..at], &path[at + 1..]));
        behind.chain(instead).collect::<Vec<_>>()
    };
    ["%2F", "%5C"].into_iter().flat_map(of_escape).collect()
}

/// Spellings with path parameters: `/x/..;/a/b`, `/;/a/b`, `/a;x/b`, and `/c/..;/a/b` if a route has the prefix `/c`.
fn with_parameters(path: &str, probes: &Probes<'_>) -> Vec<String> {
    if !probes.keeps_parameters {
        return Vec::new();
    }
    let put = |at: usize, text: &str| format!("{}{text}{}", &path[..at], &path[at..]);
    let ends = slashes(path).skip(1).chain([path.len()]);
    let mut all: Vec<String> = ["/x/..;", "/;"]
        .into_iter()
        .flat_map(|text| slashes(path).map(move |at| (at, text)))
        .chain(ends.map(|at| (at, ";x")))
        .map(|(at, text)| put(at, text))
        .collect();
    let climbing = probes.prefixes.iter().map(|prefix| prefix.strip_suffix('/').unwrap_or(prefix));
    all.extend(climbing.filter(|prefix| !prefix.is_empty()).map(|prefix| {
        let up = "/..;".repeat(slashes(prefix).count());
        format!("{prefix}{up}{path}")
    }));
    all
}

fn is_passed_on(route: &Route) -> bool {
    route.backend.is_some() || route.backends.is_some()
}

fn guard(route: &Route) -> Guard {
    match &route.respond {
        Some(respond) if respond.status >= 400 => Guard::All,
        _ if route.tokens.is_some() => Guard::Tokens,
        _ => Guard::Nothing,
    }
}

fn problem(table: &Table, kind: &Kind, first: &Bypass<'_>, more: usize) -> Problem {
    let Bypass { rule, field, path, spelling, by, other } = first;
    let more = match more {
        0 => String::new(),
        1 => "; the same for 1 more route".to_owned(),
        more => format!("; the same for {more} more routes"),
    };
    let message = format!(
        "requests for `{spelling}` bypass this route{by} and match {}, but {} read the path as `{path}`{more}",
        table.label(*other),
        kind.readers
    );
    Problem::of(format!("{}.{field}", rule.key), message).help(kind.remedy)
}
