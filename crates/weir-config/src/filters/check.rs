//! Validation of filters.

use std::collections::BTreeSet;

use weir_document::Problem;

use super::compress::check_compress;
use super::cors::{self, OriginPattern};
use super::forms::{
    Cors, HeaderChanges, Mirror, REDIRECTS, Redirect, Respond, Rewrite, RewriteParts, RouteTimeouts,
};
use crate::host::{HostPattern, host_and_port};
use crate::model::Route;
use crate::model::bounds::{WEIGHT_MAX, check_time};
use crate::model::forms::is_token;
use crate::model::retries::check_retries;
use crate::path::check_path_of;
use crate::problem::failed;

/// The kind of message whose headers are changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Request,
    Response,
}

/// Validates the filters of `route`. Returns at most one problem per filter.
pub(crate) fn check(key: &str, route: &Route) -> Vec<Problem> {
    let of = |field: &str| format!("{key}.{field}");
    let is_from_manifest = route.is_from_manifest();
    let mut found = failed([check_action(key, route), check_weights(key, route)]);
    found.extend(route.rewrite.iter().filter_map(|rewrite| check_rewrite(&of("rewrite"), rewrite).err()));
    found
        .extend(route.redirect.iter().filter_map(|redirect| check_redirect(&of("redirect"), redirect).err()));
    found.extend(route.respond.iter().filter_map(|respond| check_respond(&of("respond"), respond).err()));
    for (field, changes, head) in [
        ("request_headers", &route.request_headers, Head::Request),
        ("response_headers", &route.response_headers, Head::Response),
    ] {
        let check = |changes| check_changes(&of(field), changes, head, is_from_manifest).err();
        found.extend(changes.as_deref().and_then(check));
    }
    found.extend(route.compress.iter().filter_map(|c| check_compress(&of("compress"), c).err()));
    found.extend(route.cors.iter().filter_map(|cors| check_cors(&of("cors"), cors, is_from_manifest).err()));
    found.extend(route.mirror.iter().filter_map(|mirror| check_mirror(&of("mirror"), route, mirror).err()));
    found
        .extend(route.timeouts.iter().filter_map(|timeouts| check_timeouts(&of("timeouts"), timeouts).err()));
    found.extend(route.retries.iter().filter_map(|retries| check_retries(&of("retries"), retries).err()));
    found
}

fn check_weights(key: &str, route: &Route) -> Result<(), Problem> {
    let mut weights = route.backends.iter().flatten().map(|weighted| weighted.weight).enumerate();
    match weights.find(|(_, weight)| *weight > WEIGHT_MAX) {
        Some((index, weight)) => {
            let message = format!("{weight} is larger than {WEIGHT_MAX}");
            Err(Problem::of(format!("{key}.backends[{index}].weight"), message)
                .help("use smaller weights; only their ratio matters"))
        }
        None => Ok(()),
    }
}

/// Validates that a route has exactly one action, and no fields that need another action.
fn check_action(key: &str, route: &Route) -> Result<(), Problem> {
    let actions = [
        ("backend", route.backend.is_some()),
        ("backends", route.backends.is_some()),
        ("redirect", route.redirect.is_some()),
        ("respond", route.respond.is_some()),
    ];
    let mut there = actions.iter().filter(|(_, is_there)| *is_there).map(|(field, _)| *field);
    let Some(action) = there.next() else {
        return Err(Problem::of(key, "the route has no action")
            .help("add `backend`, `backends`, `redirect` or `respond`"));
    };
    if let Some(other) = there.next() {
        let message = format!("`{action}` and `{other}` cannot be combined");
        return Err(Problem::of(format!("{key}.{other}"), message).help("remove one of them"));
    }
    if matches!(action, "backend" | "backends") {
        return Ok(());
    }
    let for_backends = [
        ("rewrite", route.rewrite.is_some()),
        ("request_headers", route.request_headers.is_some()),
        ("compress", route.compress.is_some()),
        ("mirror", route.mirror.is_some()),
        ("timeouts", route.timeouts.is_some()),
        ("retries", route.retries.is_some()),
    ];
    match for_backends.iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => {
            let message = format!("no effect with `{action}`: the route sends no requests to a backend");
            Err(Problem::of(format!("{key}.{field}"), message).help(format!("remove `{field}`")))
        }
        None => Ok(()),
    }
}

fn check_rewrite(place: &str, rewrite: &Rewrite) -> Result<(), Problem> {
    let parts = match rewrite {
        Rewrite::Prefix(prefix) => return check_path_of(&place, prefix),
        Rewrite::Parts(parts) => &**parts,
    };
    if *parts == RewriteParts::default() {
        return Err(Problem::of(place, "the rewrite changes nothing").help("set `host`, `path` or `prefix`"));
    }
    check_one_path(place, parts.path.as_deref(), parts.prefix.as_deref())?;
    let Some(host) = &parts.host else { return Ok(()) };
    let (name, port) = host_and_port(host);
    let has_port = name.len() != host.len();
    if has_port && port.is_none_or(|port| port == 0) {
        let message = format!("`{host}` has no valid port");
        let remedy = format!("write `{name}`, or use a port from 1 to 65535");
        return Err(Problem::of(format!("{place}.host"), message).help(remedy));
    }
    check_host(&format!("{place}.host"), name)
}

fn check_redirect(place: &str, redirect: &Redirect) -> Result<(), Problem> {
    let Redirect { scheme, host, port, path, prefix, status } = redirect;
    if scheme.is_none() && host.is_none() && port.is_none() && path.is_none() && prefix.is_none() {
        return Err(Problem::of(place, "redirect loop: the target is the URL of the request")
            .help("set `scheme`, `host`, `port`, `path` or `prefix`"));
    }
    if !REDIRECTS.contains(status) {
        return Err(Problem::of(format!("{place}.status"), format!("{status} is not a redirect status"))
            .help("use 301, 302, 303, 307 or 308"));
    }
    if *port == Some(0) {
        let problem = Problem::of(format!("{place}.port"), "port 0 is not valid");
        return Err(problem.help("write a port from 1 to 65535, or remove `port`"));
    }
    if let Some(host) = host {
        check_host(&format!("{place}.host"), host)?;
    }
    check_one_path(place, path.as_deref(), prefix.as_deref())
}

fn check_one_path(place: &str, path: Option<&str>, prefix: Option<&str>) -> Result<(), Problem> {
    match (path, prefix) {
        (Some(_), Some(_)) => {
            Err(Problem::of(format!("{place}.prefix"), "`path` and `prefix` cannot be combined")
                .help("use `path` to replace the whole path, or `prefix` to replace the matched part"))
        }
        (Some(path), None) => check_path_of(&format!("{place}.path"), path),
        (None, Some(prefix)) => check_path_of(&format!("{place}.prefix"), prefix),
        (None, None) => Ok(()),
    }
}

fn check_host(place: &str, host: &str) -> Result<(), Problem> {
    let wrong = |message: String| Err(Problem::of(place, message).help("write a name like `example.com`"));
    match HostPattern::parse(host) {
        Ok(HostPattern::Exact(_)) => Ok(()),
        Ok(HostPattern::Suffix(_)) => {
            wrong(format!("`{host}` is a wildcard; a single host name is required"))
        }
        Err(message) => wrong(message),
    }
}

fn check_respond(place: &str, respond: &Respond) -> Result<(), Problem> {
    if !(200..600).contains(&respond.status) {
        let message = format!("status {} is out of range; allowed: 200 to 599", respond.status);
        return Err(
            Problem::of(format!("{place}.status"), message).help("remove the field to use the default, 200")
        );
    }
    if matches!(respond.status, 204 | 205 | 304) && !respond.body.is_empty() {
        let message = format!("a response with status {} cannot have a body", respond.status);
        return Err(Problem::of(format!("{place}.body"), message).help("remove the body"));
    }
    let mut names = BTreeSet::new();
    for (name, value) in &respond.headers {
        let place = format!("{place}.headers.{name}");
        check_name(&place, name, Head::Response)?;
        if name.eq_ignore_ascii_case("date") {
            return Err(Problem::of(place, "the gateway sets this header itself").help("remove the header"));
        }
        check_value(&place, value)?;
        check_twice(place, name, &mut names)?;
    }
    Ok(())
}

/// Validates header changes. A configuration file can list each header only once. A Gateway API manifest can list a
/// header in each of `remove`, `set` and `add`.
fn check_changes(
    place: &str,
    changes: &HeaderChanges,
    head: Head,
    is_from_manifest: bool,
) -> Result<(), Problem> {
    if changes.is_empty() {
        return Err(Problem::of(place, "no change is listed").help("add `set`, `add` or `remove`"));
    }
    let mut names = BTreeSet::new();
    for (field, map) in [("set", &changes.set), ("add", &changes.add)] {
        for (name, value) in map {
            let place = format!("{place}.{field}.{name}");
            check_name(&place, name, head)?;
            check_value(&place, value)?;
            check_twice(place, name, &mut names)?;
        }
        if is_from_manifest {
            names.clear();
        }
    }
    for (index, name) in changes.remove.iter().enumerate() {
        let place = format!("{place}.remove[{index}]");
        check_name(&place, name, head)?;
        check_twice(place, name, &mut names)?;
    }
    Ok(())
}

fn check_twice(place: String, name: &str, names: &mut BTreeSet<String>) -> Result<(), Problem> {
    match names.insert(name.to_ascii_lowercase()) {
        true => Ok(()),
        false => Err(Problem::of(place, format!("duplicate header `{name}`"))
            .help("list each header once; header names ignore case")),
    }
}

/// Rejects invalid names, and headers that the gateway sets itself.
fn check_name(place: &str, name: &str, head: Head) -> Result<(), Problem> {
    if !is_token(name) {
        let message = format!("invalid header name `{}`", name.escape_debug());
        return Err(Problem::of(place, message).help("use letters, digits and hyphens, as in `X-Request-Id`"));
    }
    let leave_out = "remove this name";
    let (reason, remedy) = match (name.to_ascii_lowercase().as_str(), head) {
        ("connection" | "keep-alive" | "proxy-connection" | "te" | "upgrade", _) => (
            "it applies to one connection; the gateway sets it for clients and upstreams separately",
            leave_out,
        ),
        ("content-length" | "transfer-encoding" | "trailer", _) => {
            ("it describes the body, which the gateway does not change", leave_out)
        }
        ("host", Head::Request) => {
            ("`rewrite` sets the host", "write `rewrite: { host: NAME }` in the route")
        }
        ("expect", Head::Request) => ("the gateway handles 100-continue itself", leave_out),
        _ => return Ok(()),
    };
    Err(Problem::of(place, format!("cannot change `{name}`: {reason}")).help(remedy))
}

fn check_value(place: &str, value: &str) -> Result<(), Problem> {
    let wrong = |message: &str, remedy: &str| Err(Problem::of(place, message).help(remedy));
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return wrong(
            "the value contains a line break or another control character",
            "write one line of text",
        );
    }
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return wrong(
            "the value starts or ends with whitespace, which HTTP removes",
            "remove the whitespace",
        );
    }
    Ok(())
}

/// Validates `cors`. Gateway API manifests can have an empty list of origins, and `*` together with credentials.
fn check_cors(place: &str, cors: &Cors, is_from_manifest: bool) -> Result<(), Problem> {
    if cors.origins.is_empty() && !is_from_manifest {
        return Err(Problem::of(format!("{place}.origins"), "the list of origins is empty")
            .help("add `https://app.example.org`, `https://*.example.org` or `*`, or remove `cors`"));
    }
    for (index, origin) in cors.origins.iter().enumerate() {
        let wrong = |message: String, remedy: &str| {
            Err(Problem::of(format!("{place}.origins[{index}]"), message).help(remedy.to_owned()))
        };
        let has_every_host = match OriginPattern::parse(origin) {
            Ok(pattern) => pattern.has_every_host(),
            Err(_) if origin == cors::EVERY => true,
            Err(message) => {
                return wrong(message, "write it like `https://app.example.org` or `https://*.example.org`");
            }
        };
        if origin == cors::EVERY && cors.origins.len() > 1 {
            return wrong(
                "`*` already allows every origin".to_owned(),
                "keep either `*` or the other origins",
            );
        }
        if has_every_host && cors.credentials && !is_from_manifest {
            let message = "`*` together with `credentials` would let every website act as the user";
            return wrong(message.to_owned(), "list the origins, for example `https://*.example.org`");
        }
    }
    for (field, names) in [("methods", &cors.methods), ("headers", &cors.headers), ("expose", &cors.expose)] {
        if let Some(index) = names.iter().position(|name| !is_token(name)) {
            let message = format!("invalid name `{}`", names[index].escape_debug());
            return Err(Problem::of(format!("{place}.{field}[{index}]"), message)
                .help("write one name per list item"));
        }
    }
    if cors.credentials && cors.expose.iter().any(|name| name == cors::EVERY) {
        let message = "with `credentials`, browsers treat `*` as a literal header name, not as a wildcard";
        return Err(Problem::of(format!("{place}.expose"), message).help("list the header names"));
    }
    match &cors.max_age {
        Some(age) if age.0.subsec_nanos() != 0 => {
            Err(Problem::of(format!("{place}.max_age"), format!("`{age}` is not a whole number of seconds"))
                .help("write whole seconds, for example `600s`"))
        }
        _ => Ok(()),
    }
}

fn check_mirror(place: &str, route: &Route, mirror: &Mirror) -> Result<(), Problem> {
    // In a Gateway API manifest, a route may mirror requests to its own backend, so routes from manifests are accepted.
    match route.backend.as_ref() == Some(&mirror.backend) && !route.is_from_manifest() {
        true => Err(Problem::of(
            format!("{place}.backend"),
            "the route already sends its requests to this backend",
        )
        .help("use another backend, or remove `mirror`")),
        false => Ok(()),
    }
}

fn check_timeouts(place: &str, timeouts: &RouteTimeouts) -> Result<(), Problem> {
    if *timeouts == RouteTimeouts::default() {
        return Err(Problem::of(place, "no timeout is set")
            .help("set `request`, `backend`, `response`, `body` or `upgraded`"));
    }
    let of_none = "remove the field to set no timeout for this route";
    let of_backend =
        "remove the field to use the value of the backend, or of the gateway if the backend has none";
    let of_gateway = "remove the field to use the value of the gateway";
    let times = [
        ("request", timeouts.request, of_none),
        ("backend", timeouts.backend, of_none),
        ("response", timeouts.response, of_backend),
        ("body", timeouts.body, of_gateway),
        ("upgraded", timeouts.upgraded, of_gateway),
    ];
    for (field, time, remedy) in times {
        if let Some(time) = time {
            check_time(&format!("{place}.{field}"), time, remedy)?;
        }
    }
    match (timeouts.request, timeouts.backend) {
        (Some(request), Some(backend)) if backend > request => {
            let message = format!("`backend` ({backend}) is longer than `request` ({request})");
            Err(Problem::of(format!("{place}.backend"), message)
                .help("make `backend` at most as long as `request`"))
        }
        _ => Ok(()),
    }
}
