//! Whether a resource is right by itself, and whether it finds the others that it names.

use std::fmt::Display;
use std::time::Duration;

use weir_document::{Time, nearest};

use crate::change::Resource;
use crate::filters::check_filters;
use crate::host::HostPattern;
use crate::model::{Backend, Drain, Limits, Listener, Route, Settings, Timeouts, Tls};
use crate::path::{NormalTarget, PathParameters, PathProblem, PathRules, Unroutable};
use crate::problem::Problem;
use crate::{
    access_log, backend_limits, backend_timeouts, balance, forwarding, health, keepalive, overload,
    passthrough, policy, resolver, series, trailers, upstream_tls,
};

pub(crate) const WORKERS_MAX: u32 = 1024;
/// The greatest weight, as in Gateway API.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;
const HEAD_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 20;
/// The parser keeps its slots for fields on the stack, which is where the upper end comes from.
pub(crate) const FIELDS: std::ops::RangeInclusive<u32> = 8..=128;
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The upper end is that of TLS 1.3 (RFC 8446, 4.6.1).
const TICKET_LIFETIME: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);

/// What is wrong with `resource` by itself: of each thing that it says, the first. `key` is its place in messages.
pub(crate) fn check(key: &str, resource: &Resource) -> Vec<Problem> {
    match resource {
        Resource::Settings(settings) => check_settings(settings),
        Resource::Route(route) => check_route(key, route),
        Resource::Listener(listener) => check_listener(key, listener),
        // An empty list of endpoints is one that is empty for now.
        Resource::Backend(backend) => wrong([check_backend(key, backend)]),
        // What is in it is known by who names it.
        Resource::File(_) => Vec::new(),
    }
}

/// What is wrong of things that do not depend on each other.
pub(crate) fn wrong<const N: usize>(checked: [Result<(), Problem>; N]) -> Vec<Problem> {
    checked.into_iter().filter_map(Result::err).collect()
}

/// The problem of a field at `place` that names the backend `wanted`, which is not among `names`.
pub(crate) fn no_such_backend<'n>(
    place: String,
    wanted: &str,
    names: impl Iterator<Item = &'n str>,
) -> Problem {
    let problem = Problem::new(place, format!("unknown backend `{wanted}`"));
    let names: Vec<&str> = names.collect();
    match nearest(wanted, names.iter().copied()) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None if names.is_empty() => problem.help("add it under `backends`"),
        None => problem.help(format!("known backends: {}", names[..names.len().min(8)].join(", "))),
    }
}

/// An address that parses is a right one.
fn check_listener(key: &str, listener: &Listener) -> Vec<Problem> {
    let of_tls = listener.tls.as_ref().map_or(Ok(()), |tls| check_tls(&format!("{key}.tls"), tls));
    wrong([of_tls, passthrough::check(key, listener)])
}

fn check_tls(place: &str, tls: &Tls) -> Result<(), Problem> {
    if let Some((field, _)) = tls.files().into_iter().find(|(_, file)| file.is_empty()) {
        return Err(Problem::no_file(format!("{place}.{field}")));
    }
    if tls.client_auth.is_some() && tls.client_ca.is_none() {
        let problem = Problem::new(format!("{place}.client_auth"), "`client_auth` requires `client_ca`");
        return Err(problem.help("add `client_ca`, the CA certificates of the clients"));
    }
    if let Some(keys) = tls.tickets.keys()
        && !TICKET_LIFETIME.contains(&keys.lifetime.0)
    {
        let message = format!("{} is out of range; allowed: 1s to 7 days", keys.lifetime);
        return Err(Problem::new(format!("{place}.tickets.lifetime"), message)
            .help("remove it to use the default, 12h; `tickets: off` turns resumption off"));
    }
    for (position, pair) in tls.pairs().enumerate() {
        for (index, host) in tls.hosts(position).iter().enumerate() {
            passthrough::checked_host(&format!("{place}.{}[{index}]", pair.field("hosts")), host)?;
        }
    }
    policy::check(place, tls)
}

fn check_backend(name: &str, backend: &Backend) -> Result<(), Problem> {
    check_backend_name(name)?;
    if let Some(tls) = &backend.tls {
        upstream_tls::check(&format!("backends.{name}.tls"), tls)?;
        if let Some(host) = backend.names().next().filter(|_| tls.sni.is_none()) {
            let message = format!(
                "required: without `sni`, the certificate must be valid for the IP addresses of `{host}`"
            );
            return Err(Problem::new(format!("backends.{name}.tls.sni"), message)
                .help(format!("write `sni: {host}`, or the name in the certificate")));
        }
        if tls.sni.is_none() && backend.has_unix_sockets() {
            let message = "required: a Unix socket has no host name to check the certificate against";
            return Err(Problem::new(format!("backends.{name}.tls.sni"), message)
                .help("write the name in the certificate of the service"));
        }
    }
    match backend.endpoints.iter().position(|endpoint| endpoint.address.port() == Some(0)) {
        Some(index) => {
            let message = format!("{} has port 0", backend.endpoints[index].address);
            Err(Problem::new(format!("backends.{name}.endpoints[{index}]"), message)
                .help("write the port that the service listens on"))
        }
        None => {
            backend_limits::check(name, &backend.limits)?;
            backend_timeouts::check(name, &backend.timeouts, &backend.limits)?;
            keepalive::check(name, &backend.keepalive)?;
            balance::check(name, backend)?;
            health::check(name, backend)
        }
    }
}

fn check_backend_name(name: &str) -> Result<(), Problem> {
    let printable = |c: char| !c.is_control() && c != '"' && c != '\\';
    if name.is_empty() || name.len() > 253 || !name.chars().all(printable) {
        let message = format!("invalid backend name `{}`", name.escape_debug());
        return Err(Problem::new("backends", message).help("use 1 to 253 printable characters"));
    }
    Ok(())
}

fn check_route(key: &str, route: &Route) -> Vec<Problem> {
    let hosts = route.hosts.iter().enumerate().map(|(index, host)| {
        HostPattern::parse(host).map_err(|wrong| {
            Problem::new(format!("{key}.hosts[{index}]"), wrong)
                .help("write `example.com`, or `*.example.com` for its subdomains")
        })
    });
    let mut found: Vec<Problem> = hosts.filter_map(Result::err).collect();
    found.extend(check_way(key, route).err());
    found.extend(route.check_matches(key));
    let paths = route.paths().map(|(field, path)| check_path_of(&format_args!("{key}.{field}"), path));
    found.extend(paths.filter_map(Result::err));
    found.extend(check_filters(key, route));
    found.extend(route.metrics_group.as_ref().and_then(|group| series::check_group(key, group).err()));
    if route.tokens.as_deref() == Some("") {
        found.push(Problem::no_file(format!("{key}.tokens")));
    }
    found
}

/// A route is for paths of one kind.
fn check_way(key: &str, route: &Route) -> Result<(), Problem> {
    let ways =
        [("path", route.path.is_some()), ("exact", route.exact.is_some()), ("regex", route.regex.is_some())];
    let mut said = ways.iter().filter(|(_, is_said)| *is_said).map(|(field, _)| *field);
    match (said.next(), said.next()) {
        (None, _) => {
            return Err(Problem::new(key, "the route has no path").help("add `path: /` to match every path"));
        }
        (Some(one), Some(other)) => {
            let message = format!("`{one}` and `{other}` cannot be combined");
            return Err(Problem::new(key, message).help("write two routes"));
        }
        (Some(_), None) => {}
    }
    if route.exact.as_ref().is_some_and(|exact| exact.as_slice().is_empty()) {
        return Err(Problem::new(format!("{key}.exact"), "the list is empty")
            .help("add at least one path, or remove the route"));
    }
    Ok(())
}

/// Whether a request could carry `path`, which stands at `place`.
pub(crate) fn check_path_of(place: &dyn Display, path: &str) -> Result<(), Problem> {
    let wrong = |message: String, remedy: String| Err(Problem::new(place.to_string(), message).help(remedy));
    if !path.starts_with('/') {
        return wrong(format!("`{path}` does not start with `/`"), format!("write `/{path}`"));
    }
    let Some((at, c)) = path.char_indices().find(|&(_, c)| !c.is_ascii_graphic() || c == '?' || c == '#')
    else {
        return check_normal(place, path, &PathRules::AS_SENT);
    };
    let without = format!("write `{}`", &path[..at]);
    match c {
        '?' => wrong(format!("`{path}` contains a query; this field matches only the path"), without),
        '#' => wrong(format!("`{path}` contains a fragment, which clients do not send"), without),
        _ => {
            let mut bytes = [0; 4];
            let encoded: String = c.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")).collect();
            let message = format!(
                "`{}` contains `{}`, which clients send percent-encoded",
                path.escape_debug(),
                c.escape_debug()
            );
            wrong(message, format!("write `{encoded}` instead"))
        }
    }
}

/// Whether requests under these rules can have this path.
pub(crate) fn check_normal(place: &dyn Display, path: &str, rules: &PathRules) -> Result<(), Problem> {
    let (message, remedy) = match NormalTarget::of(path, rules) {
        Ok(normal) if normal.as_str() == path && normal.path() == path => return Ok(()),
        Ok(normal) if normal.as_str() == path || rules.path_parameters == PathParameters::Strip => {
            let message = format!("`{path}` matches no request: routes match paths without parameters (`;`)");
            (message, format!("write `{}`, or set `paths.path_parameters: keep`", normal.path()))
        }
        Ok(normal) => {
            let message = format!(
                "`{path}` is not in normal form and would match no request; the gateway normalizes request paths"
            );
            (message, format!("write `{}`", normal.as_str()))
        }
        Err(Unroutable::Redirect(target)) => {
            let message =
                format!("no request matches: `paths.escaped_slashes` redirects requests for `{path}`");
            (message, format!("write `{target}`"))
        }
        Err(Unroutable::Refused(problem)) => {
            let remedy = match problem {
                PathProblem::BadEscape => "write `%25` for a percent sign",
                PathProblem::EscapedSlash => "write `/`, or set `paths.escaped_slashes: keep`",
                PathProblem::Parameter | PathProblem::HiddenByParameter => {
                    "leave out what follows `;`, or set `paths.path_parameters: keep`"
                }
                PathProblem::HiddenDotSegment | PathProblem::Nul | PathProblem::NotAbsolute => {
                    "write a path that is not ambiguous"
                }
            };
            (format!("requests for `{path}` get 400: {problem}"), remedy.to_owned())
        }
    };
    Err(Problem::new(place.to_string(), message).help(remedy))
}

fn check_settings(settings: &Settings) -> Vec<Problem> {
    let workers = settings.workers.filter(|workers| !(1..=WORKERS_MAX).contains(workers));
    let workers = workers.map_or(Ok(()), |workers| {
        Err(Problem::new("workers", format!("{workers} is out of range; allowed: 1 to {WORKERS_MAX}"))
            .help("remove it for one worker per CPU"))
    });
    wrong([
        workers,
        settings.access_log.as_ref().map_or(Ok(()), access_log::check),
        forwarding::check(&settings.forwarding),
        trailers::check(&settings.trailers, settings.underscores_in_headers),
        resolver::check(&settings.resolver),
        check_limits(&settings.limits),
        overload::check(&settings.overload),
        check_timeouts(&settings.timeouts),
        check_drain(&settings.drain),
    ])
}

fn check_limits(limits: &Limits) -> Result<(), Problem> {
    let wrong = |field: &str, message: String, default: &dyn std::fmt::Display| {
        let problem = Problem::new(format!("limits.{field}"), message);
        Err(problem.help(format!("remove it to use the default, {default}")))
    };
    let default = Limits::default();
    if !HEAD_BYTES.contains(&limits.head.0) {
        return wrong(
            "head",
            format!("{} is out of range; allowed: 1KiB to 1MiB", limits.head),
            &default.head,
        );
    }
    if !FIELDS.contains(&limits.fields) {
        let message =
            format!("{} is out of range; allowed: {} to {}", limits.fields, FIELDS.start(), FIELDS.end());
        return wrong("fields", message, &default.fields);
    }
    for (field, value, default) in [
        ("connections", limits.connections, default.connections),
        ("upstream_connections", limits.upstream_connections, default.upstream_connections),
    ] {
        if value == 0 {
            return wrong(field, "0 would reject every request".to_owned(), &default);
        }
    }
    if limits.connections_per_address == Some(0) {
        return wrong("connections_per_address", "0 would reject every request".to_owned(), &"no limit");
    }
    Ok(())
}

fn check_timeouts(timeouts: &Timeouts) -> Result<(), Problem> {
    let all = [
        ("head", timeouts.head),
        ("body", timeouts.body),
        ("write", timeouts.write),
        ("connect", timeouts.connect),
        ("response", timeouts.response),
        ("idle", timeouts.idle),
        ("upstream_idle", timeouts.upstream_idle),
        ("upgraded", timeouts.upgraded),
    ];
    for (field, time) in all {
        check_time(
            &format!("timeouts.{field}"),
            time,
            "write a time in this range; this timeout cannot be turned off",
        )?;
    }
    Ok(())
}

fn check_drain(drain: &Drain) -> Result<(), Problem> {
    check_time(
        "drain.timeout",
        drain.timeout,
        "write a time in this range; this timeout cannot be turned off",
    )?;
    if drain.delay.0 >= drain.timeout.0 {
        let message = format!(
            "`drain.delay` ({}) must be shorter than `drain.timeout` ({})",
            drain.delay, drain.timeout
        );
        return Err(Problem::new("drain.delay", message)
            .help("make `timeout` longer than `delay`; both start at the signal"));
    }
    Ok(())
}

/// Whether `time`, which stands at `place`, can be kept.
pub(crate) fn check_time(place: &str, time: Time, remedy: &str) -> Result<(), Problem> {
    if time.0.is_zero() || time.0 > TIMEOUT_MAX {
        let message = format!("{time} is out of range; allowed: 1ns to 30 days");
        return Err(Problem::new(place, message).help(remedy));
    }
    Ok(())
}
