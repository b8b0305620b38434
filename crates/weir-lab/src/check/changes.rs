//! Loads with several rates, and gateways that change while load runs.

use std::collections::HashSet;
use std::time::Duration;

use weir_document::nearest;
use weir_results::Changed;

use super::{Checked, REQUESTS_MAX, problem};
use crate::scenario::{CHANGED, CertificateScope, Changes, Load, Model, Scenario};

/// Least time between two changes: each is looked for until a request finds it in force.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Refuses several rates where a load has a course of its own, and where their names are taken.
pub(super) fn check_rates(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    if load.rates.is_none() {
        return Ok(());
    }
    let at = ["loads", name, "rates"];
    if load.model == Model::Closed {
        let remedy = "leave the rates out, or make it an open load: `model: open`";
        return Err(problem(&at, format!("the closed load `{name}` has rates"), remedy));
    }
    let others = [("rate", load.rate.is_some()), ("steps", !load.steps.is_empty())];
    if let Some((other, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        let message = format!("the load `{name}` has both `rates` and `{other}`");
        return Err(problem(&at, message, "keep one of the two: each of the rates is a load of its own"));
    }
    let all = scenario.loads.iter().flat_map(|(name, load)| load.at_each_rate(name));
    let all: Vec<String> = all.map(|(name, _)| name).collect();
    let taken = |own: &String| all.iter().filter(|other| *other == own).count() > 1;
    match load.at_each_rate(name).into_iter().find(|(own, _)| taken(own)) {
        Some((own, _)) => {
            let message = format!("two loads are named `{own}`, one of them by a rate of `{name}`");
            Err(problem(&at, message, "give one of them another name"))
        }
        None => Ok(()),
    }
}

/// Refuses changes that nobody could make or see.
pub(super) fn check_changes(scenario: &Scenario) -> Checked {
    let Some(changes) = &scenario.changes else { return Ok(()) };
    if changes.every.0 < EVERY_MIN {
        let message = format!("a change every {}", changes.every);
        return Err(problem(&["changes", "every"], message, "give 100ms or more, like 10s"));
    }
    check_kinds(scenario, changes)?;
    let routes = u64::from(changes.paths) * u64::from(scenario.topology.domains);
    if !(1..=REQUESTS_MAX).contains(&routes) {
        let message = format!("{} paths that come and go", changes.paths);
        let remedy = format!("give 1 or more, and with all domains no more than {REQUESTS_MAX}");
        return Err(problem(&["changes", "paths"], message, remedy));
    }
    let known: HashSet<&str> = scenario.loads.names().collect();
    if let Some((place, name)) =
        changes.loads.iter().enumerate().find(|(_, name)| !known.contains(name.as_str()))
    {
        let remedy = match nearest(name, scenario.loads.names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the loads are: {}", scenario.loads.names().collect::<Vec<_>>().join(", ")),
        };
        let path = ["changes", "loads", &place.to_string()];
        return Err(problem(&path, format!("there is no load `{name}`"), remedy));
    }
    if let Some(path) = scenario.topology.paths().iter().find(|path| path.starts_with(CHANGED)) {
        let message = format!("`{path}` is a path of the topology, and one that comes and goes");
        return Err(problem(&["changes"], message, format!("begin no path with {CHANGED}")));
    }
    check_gateways(scenario)
}

/// Refuses changes of what is not there, or not seen to change.
fn check_kinds(scenario: &Scenario, changes: &Changes) -> Checked {
    if changes.of.is_empty() {
        let remedy = "name some of routes, endpoints, certificates, or leave it out for routes";
        return Err(problem(&["changes", "of"], "nothing changes", remedy));
    }
    for (place, what) in changes.of.iter().enumerate() {
        let at = ["changes", "of", &place.to_string()];
        if changes.of[..place].contains(what) {
            return Err(problem(&at, format!("`{what}` is given twice"), "keep one of the two"));
        }
        let topology = &scenario.topology;
        match what {
            Changed::Endpoints if scenario.origin.replica_count() < 2 => {
                let message = "an endpoint that leaves, and the upstream has one";
                return Err(problem(&at, message, "give the origin two `replicas` or more"));
            }
            Changed::Certificates if !topology.tls => {
                let message = "certificates that are replaced, without TLS";
                return Err(problem(&at, message, "add `tls: true` to the topology"));
            }
            Changed::Certificates if topology.certificates == CertificateScope::Each => {
                let message = "certificates that are replaced, where each domain has its own";
                return Err(problem(
                    &at,
                    message,
                    "let one be for all: leave out the topology's `certificates`",
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses gateways whose routes are not weir's to change.
fn check_gateways(scenario: &Scenario) -> Checked {
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let (why, remedy) = if gateway.is_remote() {
            ("runs elsewhere", "leave `changes` out, or the gateway")
        } else if gateway.config.is_some() {
            ("has a configuration of its own", "leave out `changes`, or `config`")
        } else {
            continue;
        };
        let message = format!("`{}` {why}, so that weir cannot change its routes", gateway.name);
        return Err(problem(&["gateways", &place.to_string()], message, remedy));
    }
    Ok(())
}
