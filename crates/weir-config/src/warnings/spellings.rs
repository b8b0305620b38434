//! Rules that another spelling of their path gets around: the gateway gives it to a route that allows more, and some
//! upstreams read it as the path of the rule. The rules for paths are such by default that there is none; what is left
//! then is the slash behind a whole path.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::host::HostPattern;
use crate::matching::RequestView;
use crate::matching::Scope;
use crate::matching::entry::RouteEntry;
use crate::model::{OneOrMany, Route};
use crate::path::{NormalTarget, PathParameters};
use crate::problem::Problem;
use crate::table::Table;

/// How much a route keeps from upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Guard {
    Nothing,
    /// Requests without a token.
    Tokens,
    /// Every request.
    All,
}

/// The most look-ups for all rules together: a second or two, for configurations with many hosts and many rules.
const LOOK_UPS_MAX: usize = 1_000_000;

/// Spellings that have the same readers and the same remedy.
struct Kind {
    /// For whole paths only.
    is_exact: bool,
    /// The spellings of a path, the simplest first.
    spell: fn(&str, &Laxer<'_>) -> Vec<String>,
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
        remedy: "use `path` in place of `exact`: it matches both",
    },
];

/// What the routes of a table name, as far as requests for it may get around a rule.
struct Laxer<'t> {
    /// The prefixes of routes that pass requests on.
    prefixes: BTreeSet<&'t str>,
    /// A host for each pattern.
    hosts: BTreeSet<String>,
    methods: BTreeSet<&'t str>,
    keeps_parameters: bool,
    look_ups_left: Cell<usize>,
}

/// Whoever asks for a path.
#[derive(Clone, PartialEq)]
struct Asker<'a> {
    scope: Scope,
    host: &'a str,
    method: &'a str,
}

/// A spelling that gets around a rule.
struct Bypass<'t> {
    rule: &'t RouteEntry,
    field: &'static str,
    path: &'t str,
    spelling: String,
    /// Who asks, where a plain GET does not do.
    by: String,
    /// Where it leads.
    other: usize,
}

/// One problem for each kind of spelling that gets around a rule of `table`.
pub(super) fn around_rules(table: &Table) -> Vec<Problem> {
    let routes = table.routes();
    let laxer = Laxer::of(table, &routes);
    let rules: Vec<&Arc<RouteEntry>> =
        routes.into_iter().filter(|entry| guard(&entry.route) > Guard::Nothing).collect();
    let told_of = |kind: &Kind| {
        let mut around = rules.iter().filter_map(|rule| bypass(table, rule, kind, &laxer));
        let first = around.next()?;
        Some(told(table, kind, &first, around.count()))
    };
    KINDS.iter().filter_map(told_of).collect()
}

/// The first spelling that gets around the rule. Each is put to the table itself, by everyone who gets the rule.
fn bypass<'t>(table: &Table, rule: &'t RouteEntry, kind: &Kind, laxer: &Laxer<'_>) -> Option<Bypass<'t>> {
    let route = &rule.route;
    let prefix = route.path.iter().filter(|_| !kind.is_exact);
    let prefix = prefix.map(|path| ("path", path.strip_suffix('/').unwrap_or(path)));
    let exact = route.exact.iter().flat_map(OneOrMany::as_slice);
    let exact = exact.map(|path| ("exact", path.as_str())).filter(|(_, path)| !path.ends_with('/'));
    let hosts = hosts_of(route, laxer);
    let own = rule.position as usize;
    for (field, path) in prefix.chain(exact).filter(|(_, path)| !path.is_empty()) {
        let spellings = (kind.spell)(path, laxer);
        // What is refused or normalized gets around nothing.
        let passing = spellings.into_iter().filter_map(|spelling| {
            let matched = NormalTarget::of(&spelling, &table.paths).ok()?.path().to_owned();
            (matched != path).then_some((spelling, matched))
        });
        let passing: Vec<(String, String)> = passing.collect();
        if passing.is_empty() {
            continue;
        }
        for asker in askers(table, route, &hosts, laxer) {
            let find = |path: &str| laxer.find(table, &asker, path);
            // What asks for more than host, path and method is not asked here.
            if find(path) != Some(own) {
                continue;
            }
            for (spelling, matched) in &passing {
                let Some(other) = find(matched) else { continue };
                let other_route = &table.parts.routes[other].entry.route;
                if is_passed_on(other_route) && guard(other_route) < guard(route) {
                    let by = told_asker(table, route, &hosts, &asker);
                    return Some(Bypass { rule, field, path, spelling: spelling.clone(), by, other });
                }
            }
        }
    }
    None
}

impl<'t> Laxer<'t> {
    fn of(table: &Table, routes: &[&'t Arc<RouteEntry>]) -> Laxer<'t> {
        let all = || routes.iter().map(|entry| &*entry.route);
        let lax = all().filter(|route| is_passed_on(route));
        Laxer {
            prefixes: lax.filter_map(|route| route.path.as_deref()).collect(),
            hosts: all().flat_map(|route| &route.hosts).map(|host| sample(host)).collect(),
            methods: all().flat_map(|route| &route.methods).map(String::as_str).collect(),
            keeps_parameters: table.paths.path_parameters == PathParameters::Keep,
            look_ups_left: Cell::new(LOOK_UPS_MAX),
        }
    }

    fn find(&self, table: &Table, asker: &Asker<'_>, path: &str) -> Option<usize> {
        self.look_ups_left.set(self.look_ups_left.get().checked_sub(1)?);
        let Asker { scope, host, method } = *asker;
        let view = RequestView { method, scope, ..RequestView::get(host, path) };
        table.find(&view).map(|found| found.route)
    }
}

/// A host that the pattern matches.
fn sample(pattern: &str) -> String {
    pattern.replacen('*', "x", 1).to_ascii_lowercase()
}

/// The hosts to ask for: those of the rule, and those of other routes that it matches as well.
fn hosts_of(route: &Route, laxer: &Laxer<'_>) -> Vec<String> {
    let patterns: Vec<HostPattern> =
        route.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect();
    let own: Vec<String> = match patterns.is_empty() {
        true => vec![String::new()],
        false => route.hosts.iter().map(|host| sample(host)).collect(),
    };
    let is_matched =
        |host: &&String| patterns.is_empty() || patterns.iter().any(|pattern| pattern.takes(host));
    let others = laxer.hosts.iter().filter(is_matched).filter(|host| !own.contains(host));
    let others: Vec<String> = others.cloned().collect();
    [own, others].concat()
}

/// Who gets the rule: the nearest first. Rules without methods are asked with those of all routes.
fn askers<'a>(
    table: &Table,
    route: &'a Route,
    hosts: &'a [String],
    laxer: &'a Laxer<'_>,
) -> impl Iterator<Item = Asker<'a>> {
    let methods: Vec<&str> = match route.methods.is_empty() {
        true => std::iter::once("GET").chain(laxer.methods.iter().copied().filter(|m| *m != "GET")).collect(),
        false => route.methods.iter().map(String::as_str).collect(),
    };
    let scopes: Vec<Scope> = scopes_of(table, route).collect();
    scopes.into_iter().flat_map(move |scope| {
        let methods = methods.clone();
        hosts.iter().flat_map(move |host| {
            methods.clone().into_iter().map(move |method| Asker { scope, host: host.as_str(), method })
        })
    })
}

fn scopes_of(table: &Table, route: &Route) -> impl Iterator<Item = Scope> {
    let scopes = &table.parts.scopes;
    scopes.all().filter(|scope| scopes.has(*scope, route))
}

/// What of `asker` is not what one expects of a request for `route`.
fn told_asker(table: &Table, route: &Route, hosts: &[String], asker: &Asker<'_>) -> String {
    let listener = table.parts.scopes.name(asker.scope);
    let listener = listener.filter(|_| scopes_of(table, route).next() != Some(asker.scope));
    let host = Some(asker.host).filter(|host| *host != hosts[0]);
    let usual = route.methods.first().map_or("GET", String::as_str);
    let method = Some(asker.method).filter(|method| *method != usual);
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

/// `//a/b`, `/a//b`
fn with_empty_segments(path: &str, _: &Laxer<'_>) -> Vec<String> {
    slashes(path).map(|at| format!("{}/{}", &path[..at], &path[at..])).collect()
}

/// `/%2Fa/b`, `/a/%2Fb`, `/a%2Fb`
fn with_escaped_slashes(path: &str, _: &Laxer<'_>) -> Vec<String> {
    let of_escape = |escape: &str| {
        let behind = slashes(path).map(|at| format!("{}{escape}{}", &path[..=at], &path[at + 1..]));
        // Every path begins with a plain slash.
        let instead = slashes(path).skip(1).map(|at| format!("{}{escape}{}", &path[..at], &path[at + 1..]));
        behind.chain(instead).collect::<Vec<_>>()
    };
    ["%2F", "%5C"].into_iter().flat_map(of_escape).collect()
}

/// `/x/..;/a/b`, `/;/a/b`, `/a;x/b`, and `/c/..;/a/b` where a route matches `/c`.
fn with_parameters(path: &str, laxer: &Laxer<'_>) -> Vec<String> {
    if !laxer.keeps_parameters {
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
    let climbing = laxer.prefixes.iter().map(|prefix| prefix.strip_suffix('/').unwrap_or(prefix));
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

fn told(table: &Table, kind: &Kind, first: &Bypass<'_>, more: usize) -> Problem {
    let Bypass { rule, field, path, spelling, by, other } = first;
    let more = match more {
        0 => String::new(),
        1 => "; the same for 1 more route".to_owned(),
        more => format!("; the same for {more} more routes"),
    };
    let message = format!(
        "`{spelling}` bypasses this route{by}: it matches {}, and {} read it as `{path}`{more}",
        table.label(*other),
        kind.readers
    );
    Problem::new(format!("{}.{field}", rule.key), message).help(kind.remedy)
}
