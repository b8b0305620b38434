//! What gateways that run elsewhere cannot be.

use weir_rig::REMOTE;

use super::{Checked, Problem, problem};
use crate::scenario::{Gateway, Origin, PrometheusSource, Scenario};

/// Names of parts that a cell has beside the gateway, which bears its own name there.
const PARTS: [&str; 2] = ["generator", "origin"];

/// Checks where each gateway is, and that all of them have one upstream.
pub(super) fn check_remote(scenario: &Scenario) -> Checked {
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let at = |field: &str| {
            let names = ["gateways", &place.to_string()].map(str::to_owned);
            let fields = field.split('.').filter(|name| !name.is_empty()).map(str::to_owned);
            names.into_iter().chain(fields).collect::<Vec<_>>()
        };
        match gateway.is_remote() {
            true => check_gateway(gateway).map_err(|(field, found)| Problem { path: at(field), ..found })?,
            false => {
                if let Some(field) = gateway.remote.given() {
                    let message = format!("weir starts `{}` itself, and it has no `{field}`", gateway.name);
                    let remedy =
                        format!("leave it out, or add `driver: {REMOTE}` for one that runs elsewhere");
                    return Err(Problem { path: at(field), ..problem(&[], message, remedy) });
                }
            }
        }
    }
    match scenario.gateways.iter().any(Gateway::is_remote) {
        true => check_upstream(scenario),
        false => Ok(()),
    }
}

/// What is wrong, and the field that says it.
type Found = Result<(), (&'static str, Problem)>;

fn check_gateway(gateway: &Gateway) -> Found {
    let found = |field, message: String, remedy: &str| Err((field, problem(&[], message, remedy)));
    let remote = &gateway.remote;
    let Some(url) = &remote.url else {
        let message = format!("`{}` runs elsewhere, and nothing says where", gateway.name);
        return found("", message, "add its `url`, like https://gw.example");
    };
    if PARTS.contains(&gateway.name.as_str()) {
        let message = format!("a gateway that runs elsewhere named `{}`", gateway.name);
        return found("", message, "choose another name: this one is of a part of the rig");
    }
    let of_drivers = [
        ("binary", gateway.binary.is_some()),
        ("config", gateway.config.is_some()),
        ("listen", gateway.listen.is_some()),
        ("set", !gateway.set.is_empty()),
        ("optional", gateway.optional),
    ];
    if let Some((field, _)) = of_drivers.into_iter().find(|(_, is_given)| *is_given) {
        let message = format!("`{}` runs elsewhere, and weir has no `{field}` for it", gateway.name);
        return found(field, message, "leave it out");
    }
    for (field, url) in [("url", Some(url)), ("direct", remote.direct.as_ref())] {
        if let Some(url) = url.filter(|url| !url.path.is_empty()) {
            let message = format!("`{url}` has a path");
            return found(field, message, "leave it out: paths stand in `topology.paths`");
        }
    }
    let is_secure = url.is_secure || remote.direct.as_ref().is_some_and(|direct| direct.is_secure);
    if remote.tls.is_some() && !is_secure {
        return found("tls", format!("TLS on connections to {url}"), "write https://, or leave it out");
    }
    if let Some(limits) = remote.limits {
        if limits.cpus.is_some_and(|cpus| !(cpus > 0.0 && cpus.is_finite())) {
            let message = format!("a limit of {} CPUs", limits.cpus.unwrap_or_default());
            return found("limits.cpus", message, "give what it may use there, like 2, or leave it out");
        }
        if limits.memory.is_some_and(|memory| memory.0 == 0) {
            let message = "a memory limit of nothing".to_owned();
            return found("limits.memory", message, "give what it may use there, or leave it out");
        }
    }
    if remote
        .host
        .as_deref()
        .is_some_and(|host| host.is_empty() || !host.bytes().all(|b| b.is_ascii_graphic()))
    {
        return found(
            "host",
            "not a value of Host".into(),
            "write a name like shop.example, or leave it out",
        );
    }
    remote.prometheus.as_ref().map_or(Ok(()), check_prometheus)?;
    let mut remote = remote.clone();
    for (field, path) in remote.files_mut() {
        if let Err(error) = std::fs::File::open(&path) {
            let message = format!("{}: {error}", path.display());
            return found(
                field,
                message,
                "name a file that can be read; a path is relative to the scenario's folder",
            );
        }
    }
    Ok(())
}

fn check_prometheus(source: &PrometheusSource) -> Found {
    let found = |field, message: &str, remedy: &str| Err((field, problem(&[], message, remedy)));
    let is_blank =
        source.selector.as_deref().is_some_and(|selector| selector.trim_matches(['{', '}', ' ']).is_empty());
    if is_blank || (source.selector.is_none() && source.queries.cpu.is_none()) {
        let remedy =
            "add a `selector` like namespace=\"shop\",pod=~\"gw-.*\", or `queries: { cpu: .. }` of your own";
        return found("prometheus", "nothing says which series are the gateway's", remedy);
    }
    match (&source.token_file, &source.user, &source.password_file) {
        (Some(_), Some(_), _) => found("prometheus.user", "both a token and a user", "keep one of the two"),
        (_, Some(_), None) => found("prometheus.user", "a user without a password", "add `password_file`"),
        (_, None, Some(_)) => found("prometheus.password_file", "a password without its user", "add `user`"),
        _ => Ok(()),
    }
}

/// The upstream of all gateways is one, or direct would not be their baseline; and weir has no hand in it.
fn check_upstream(scenario: &Scenario) -> Checked {
    let gateways = &scenario.gateways;
    if let Some(place) = gateways.iter().position(|gateway| !gateway.is_remote()) {
        let message = format!("`{}` is started by weir, and others here run elsewhere", gateways[place].name);
        let remedy = "make two runs: their upstreams differ, so no direct baseline holds for both";
        return Err(problem(&["gateways", &place.to_string()], message, remedy));
    }
    let direct = |gateway: &Gateway| gateway.remote.direct.as_ref().map(|url| (url.is_secure, url.connect()));
    if let Some(place) = (1..gateways.len()).find(|place| direct(&gateways[*place]) != direct(&gateways[0])) {
        let message = format!("`{}` and `{}` differ in `direct`", gateways[0].name, gateways[place].name);
        let remedy = "give all of them the same, or make two runs: a block has one direct baseline";
        return Err(problem(&["gateways", &place.to_string()], message, remedy));
    }
    if scenario.origin != Origin::default() {
        let message = "an origin beside gateways that run elsewhere, which never ask it";
        return Err(problem(
            &["origin"],
            message,
            "leave it out; `direct` of a gateway names its own upstream",
        ));
    }
    let limits = &scenario.limits;
    let roles = [("data", limits.data), ("control", limits.control), ("origin", limits.origin)];
    match roles.into_iter().find(|(_, limit)| limit.is_some()) {
        Some((role, _)) => {
            let message = format!("a limit of the role `{role}`, of which weir starts nothing");
            let remedy =
                "leave it out; the limits that a gateway has where it runs stand in its own `limits`";
            Err(problem(&["limits", role], message, remedy))
        }
        None => Ok(()),
    }
}
