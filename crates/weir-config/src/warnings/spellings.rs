//! Rules that another spelling of their path gets around: the gateway gives it to a route that allows more, and some
//! upstreams read it as the path of the rule. The rules for paths are such by default that there is none; what is left
//! then is the slash behind a whole path.

use std::borrow::Cow;
use std::sync::Arc;

use crate::entry::RouteEntry;
use crate::model::{OneOrMany, Route};
use crate::path::{EscapedSlashes, NormalTarget, PathParameters, PathRules};
use crate::problem::Problem;
use crate::table::Table;
use crate::view::RequestView;

/// How much a route keeps from upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Guard {
    Nothing,
    /// Requests without a token.
    Tokens,
    /// Every request.
    All,
}

/// Spellings that have the same readers and the same remedy.
struct Kind {
    /// Whether the rules let them through.
    passes: fn(&PathRules) -> bool,
    /// For whole paths only.
    is_exact: bool,
    /// What stands before and behind the path.
    around: &'static [(&'static str, &'static str)],
    readers: &'static str,
    remedy: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        passes: |rules| !rules.merge_slashes,
        is_exact: false,
        around: &[("/", "")],
        readers: "nginx, Tomcat and others",
        remedy: "set `paths.merge_slashes: true`",
    },
    Kind {
        passes: |rules| rules.escaped_slashes == EscapedSlashes::Keep,
        is_exact: false,
        around: &[("/%2F", ""), ("/%5C", "")],
        readers: "nginx and others",
        remedy: "set `paths.escaped_slashes: reject`",
    },
    Kind {
        passes: |rules| rules.path_parameters == PathParameters::Keep,
        is_exact: false,
        around: &[("/x/..;", ""), ("/;", ""), ("", ";x")],
        readers: "Tomcat and other servlet containers",
        remedy: "set `paths.path_parameters: ignore`",
    },
    Kind {
        passes: |_| true,
        is_exact: true,
        around: &[("", "/")],
        readers: "Express, Spring before version 6 and others",
        remedy: "use `path` in place of `exact`: it matches both",
    },
];

/// A spelling that gets around a rule.
struct Bypass<'t> {
    rule: &'t RouteEntry,
    field: &'static str,
    path: &'t str,
    spelling: String,
    /// Where it leads.
    other: usize,
}

/// One problem for each kind of spelling that gets around a rule of `table`.
pub(super) fn around_rules(table: &Table) -> Vec<Problem> {
    let routes = table.routes();
    let rules: Vec<&Arc<RouteEntry>> =
        routes.into_iter().filter(|entry| guard(&entry.route) > Guard::Nothing).collect();
    let kinds = KINDS.iter().filter(|kind| (kind.passes)(&table.paths));
    kinds
        .filter_map(|kind| {
            let mut around = rules.iter().filter_map(|rule| bypass(table, rule, kind));
            let first = around.next()?;
            Some(told(table, kind, &first, around.count()))
        })
        .collect()
}

fn bypass<'t>(table: &Table, rule: &'t RouteEntry, kind: &Kind) -> Option<Bypass<'t>> {
    let scopes = &table.parts.scopes;
    let scope = scopes.all().find(|scope| scopes.has(*scope, &rule.route))?;
    let route = &rule.route;
    let prefix = route.path.iter().filter(|_| !kind.is_exact);
    let prefix = prefix.map(|path| ("path", path.strip_suffix('/').unwrap_or(path)));
    let exact = route.exact.iter().flat_map(OneOrMany::as_slice);
    let exact = exact.map(|path| ("exact", path.as_str())).filter(|(_, path)| !path.ends_with('/'));
    let host = match route.hosts.first().map(String::as_str) {
        Some(host) => Cow::Owned(host.replacen('*', "x", 1)),
        None => Cow::Borrowed(""),
    };
    let method = route.methods.first().map_or("GET", String::as_str);
    let find = |path: &str| {
        let view = RequestView { method, scope, ..RequestView::get(&host, path) };
        table.find(&view).map(|found| found.route)
    };
    let own = rule.position as usize;
    for (field, path) in prefix.chain(exact).filter(|(_, path)| !path.is_empty()) {
        // What asks for more than host, path and method is not asked here.
        if find(path) != Some(own) {
            continue;
        }
        for (before, behind) in kind.around {
            let inner = if before.ends_with(['F', 'C']) { &path[1..] } else { path };
            let spelling = format!("{before}{inner}{behind}");
            let Ok(target) = NormalTarget::of(&spelling, &table.paths) else { continue };
            let Some(other) = find(target.path()) else { continue };
            let other_route = &table.parts.routes[other].entry.route;
            let is_passed_on = other_route.backend.is_some() || other_route.backends.is_some();
            if is_passed_on && guard(other_route) < guard(route) {
                return Some(Bypass { rule, field, path, spelling, other });
            }
        }
    }
    None
}

fn guard(route: &Route) -> Guard {
    match &route.respond {
        Some(respond) if respond.status >= 400 => Guard::All,
        _ if route.tokens.is_some() => Guard::Tokens,
        _ => Guard::Nothing,
    }
}

fn told(table: &Table, kind: &Kind, first: &Bypass<'_>, more: usize) -> Problem {
    let Bypass { rule, field, path, spelling, other } = first;
    let more = match more {
        0 => String::new(),
        1 => "; the same for 1 more route".to_owned(),
        more => format!("; the same for {more} more routes"),
    };
    let message = format!(
        "`{spelling}` gets around this rule: it matches {}, and {} read it as `{path}`{more}",
        table.label(*other),
        kind.readers
    );
    Problem::new(format!("{}.{field}", rule.key), message).help(kind.remedy)
}
