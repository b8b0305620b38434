//! Validation of a route.

use std::collections::{BTreeMap, BTreeSet};

use weir_document::Problem;

use crate::filters;
use crate::host::HostPattern;
use crate::model::forms::is_token;
use crate::model::{Route, ValueMatch};
use crate::path::check_path_of;
use crate::problem::{failed, no_file};
use crate::table::series;

/// Standard methods, which are upper case. Methods are case-sensitive, so `get` is probably a mistake.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

pub(super) fn check(key: &str, route: &Route) -> Vec<Problem> {
    let hosts = route.hosts.iter().enumerate().map(|(index, host)| {
        HostPattern::parse(host).map_err(|wrong| {
            Problem::of(format!("{key}.hosts[{index}]"), wrong)
                .help("write `example.com`, or `*.example.com` for its subdomains")
        })
    });
    let mut found: Vec<Problem> = hosts.filter_map(Result::err).collect();
    found.extend(check_path_kind(key, route).err());
    found.extend(check_conditions(key, route));
    let paths = route.paths().map(|(field, path)| check_path_of(&format_args!("{key}.{field}"), path));
    found.extend(paths.filter_map(Result::err));
    found.extend(filters::check(key, route));
    found.extend(route.metrics_group.as_ref().and_then(|group| series::check_group(key, group).err()));
    if route.tokens.as_deref() == Some("") {
        found.push(no_file(format!("{key}.tokens")));
    }
    found
}

/// Validates that exactly one of `path`, `exact` and `regex` is set.
fn check_path_kind(key: &str, route: &Route) -> Result<(), Problem> {
    let ways =
        [("path", route.path.is_some()), ("exact", route.exact.is_some()), ("regex", route.regex.is_some())];
    let mut said = ways.iter().filter(|(_, is_said)| *is_said).map(|(field, _)| *field);
    match (said.next(), said.next()) {
        (None, _) => {
            return Err(Problem::of(key, "the route has no path").help("add `path: /` to match every path"));
        }
        (Some(one), Some(other)) => {
            let message = format!("`{one}` and `{other}` cannot be combined");
            return Err(Problem::of(key, message).help("write two routes"));
        }
        (Some(_), None) => {}
    }
    if route.exact.as_ref().is_some_and(|exact| exact.as_slice().is_empty()) {
        return Err(Problem::of(format!("{key}.exact"), "the list is empty")
            .help("add at least one path, or remove the route"));
    }
    Ok(())
}

/// Validates the conditions on method, headers and query.
fn check_conditions(key: &str, route: &Route) -> Vec<Problem> {
    let of_query = match route.query.contains_key("") {
        true => Err(Problem::of(format!("{key}.query"), "a query parameter has an empty name")
            .help("write `name: value`, or remove the parameter")),
        false => Ok(()),
    };
    failed([check_methods(key, &route.methods), check_headers(key, &route.headers), of_query])
}

fn check_methods(key: &str, methods: &[String]) -> Result<(), Problem> {
    for (index, method) in methods.iter().enumerate() {
        let wrong = |message: String, remedy: String| {
            Err(Problem::of(format!("{key}.methods[{index}]"), message).help(remedy))
        };
        let capitals = method.to_ascii_uppercase();
        if !is_token(method) {
            let message = format!("invalid method `{}`", method.escape_debug());
            return wrong(message, "use a method such as `GET`".to_owned());
        }
        if *method != capitals && METHODS.contains(&capitals.as_str()) {
            let message = format!("unknown method `{method}`; methods are case-sensitive");
            return wrong(message, format!("write `{capitals}`"));
        }
        if method == "CONNECT" {
            return wrong("CONNECT is not supported (status 501)".to_owned(), "remove `CONNECT`".to_owned());
        }
        if methods[..index].contains(method) {
            return wrong(format!("duplicate method `{method}`"), "remove one of them".to_owned());
        }
    }
    Ok(())
}

fn check_headers(key: &str, headers: &BTreeMap<String, ValueMatch>) -> Result<(), Problem> {
    let mut names = BTreeSet::new();
    for (name, value) in headers {
        let wrong = |message: String, remedy: &str| {
            Err(Problem::of(format!("{key}.headers.{name}"), message).help(remedy))
        };
        if !is_token(name) {
            let message = format!("invalid header name `{}`", name.escape_debug());
            return wrong(message, "use letters, digits and hyphens");
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return wrong(
                format!("duplicate header `{name}`; header names ignore case"),
                "remove one of them",
            );
        }
        let Some(exact) = value.exact() else { continue };
        let has_controls = exact.bytes().any(|b| b != b'\t' && b.is_ascii_control());
        if has_controls || exact.trim_matches([' ', '\t']) != exact {
            let message = format!("no header can have the value `{}`", exact.escape_debug());
            return wrong(message, "remove control characters, and whitespace at both ends");
        }
    }
    Ok(())
}
