//! What a scenario says that cannot be, beyond what its types refuse.

mod changes;
mod faults;
mod objective;
mod origin;
mod popularity;
mod remote;
mod search;
mod secure;
mod shares;
mod slow;

use std::collections::HashSet;
use std::time::Duration;

use weir_analysis::compare::Measure;
use weir_document::nearest;
use weir_engine::RequestSpec;
use weir_engine::request_file;
use weir_results::words::counted;
use weir_results::{DIRECT, is_baseline};

use self::changes::{check_changes, check_rates};
use self::faults::check_faults;
use self::objective::check_objectives;
use self::origin::check_origin;
use self::popularity::{check_cold_start, check_popularity};
use self::remote::check_remote;
use self::search::check_search;
use self::secure::{check_secure, check_secure_load};
use self::shares::{check_share, check_twin};
use self::slow::check_slow;
use crate::overlay::Fault;
use crate::scenario::{Gateway, Limit, Load, Model, Network, Paths, Protocol, Scenario, Topology};
use crate::{cell, secured};

/// Least memory limit that lets any process start at all.
const MEMORY_MIN_BYTES: u64 = 4 << 20;

/// Least CPU limit: the kernel's quotas end at a millisecond in every hundred.
const CPUS_MIN: f64 = 0.01;

/// Greatest number of repeats, domains, paths and workers that anybody can mean.
const REPEATS_MAX: u32 = 1_000;
/// Greatest number of times that a cell may be measured again.
const RETRIES_MAX: u32 = 100;
const WARMUP_GROWTH_MAX: f64 = 10.0;
const DOMAINS_MAX: u32 = 100_000;
const REQUESTS_MAX: u64 = 1_000_000;
const WORKERS_MAX: u32 = 1_024;

/// What gateways carry, while nobody knows: what is wrong with a share is not its rate.
const PLACEHOLDER_PER_S: f64 = 10_000.0;

/// What the scenario is checked against.
#[derive(Clone, Debug)]
pub struct Known {
    /// Names of the drivers.
    pub drivers: Vec<String>,
    /// Names of those that can play the upstream.
    pub origins: Vec<String>,
    /// Logical CPUs of this host that the run may use.
    pub cpus: usize,
    /// Says why this host or user cannot make network namespaces; asked only where a scenario wants them.
    pub namespaces: fn() -> Result<(), String>,
}

/// Something impossible, with the path of the value that says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: Vec<String>,
    pub(crate) fault: Fault,
    /// Whether the host is what cannot, not the scenario.
    pub(crate) of_host: bool,
}

type Checked = Result<(), Problem>;

fn problem(path: &[&str], message: impl Into<String>, remedy: impl Into<String>) -> Problem {
    let path = path.iter().map(|name| (*name).to_owned()).collect();
    Problem { path, fault: Fault::new(message, remedy), of_host: false }
}

/// Checks one scenario: the one that is written, or one with the values of a point laid over it.
pub(crate) fn check(scenario: &Scenario, known: &Known) -> Checked {
    if scenario.name.trim().is_empty() {
        return Err(problem(&["name"], "`name` is empty", "give the scenario a name"));
    }
    check_gateways(&scenario.gateways, known)?;
    check_remote(scenario)?;
    check_limits(scenario, known)?;
    check_topology(&scenario.topology)?;
    check_secure(scenario)?;
    check_origin(scenario, known)?;
    check_network(scenario, known)?;
    check_times(scenario)?;
    check_twin(scenario)?;
    check_cold_start(scenario)?;
    check_loads(scenario)?;
    check_changes(scenario)?;
    check_faults(scenario)?;
    check_slow(scenario)?;
    check_objectives(scenario)?;
    check_thresholds(scenario)
}

fn check_gateways(gateways: &[Gateway], known: &Known) -> Checked {
    if gateways.is_empty() {
        return Err(problem(
            &["gateways"],
            "no gateways",
            format!("name some of: {}", known.drivers.join(", ")),
        ));
    }
    let mut names = HashSet::new();
    for (place, gateway) in gateways.iter().enumerate() {
        let path = ["gateways", &place.to_string()];
        let name = &gateway.name;
        if is_baseline(name) {
            let remedy = match name == DIRECT {
                true => "choose another name: this is the baseline's, which is always measured",
                false => "choose another name: this is that of the baseline's twin",
            };
            return Err(problem(&path, format!("a gateway named `{name}`"), remedy));
        }
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            let remedy = "use letters, digits, `-`, `_` and `.`";
            return Err(problem(&path, format!("`{name}` cannot name a gateway"), remedy));
        }
        if !names.insert(name) {
            let remedy =
                format!("give one of them another name: {{ name: {name}-2, driver: {} }}", gateway.driver);
            return Err(problem(&path, format!("two gateways are named `{name}`"), remedy));
        }
        if !gateway.is_remote() && !known.drivers.contains(&gateway.driver) {
            let near = nearest(&gateway.driver, known.drivers.iter().map(String::as_str));
            let remedy = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the drivers are: {}", known.drivers.join(", ")),
            };
            return Err(problem(
                &path,
                format!("there is no gateway or driver `{}`", gateway.driver),
                remedy,
            ));
        }
    }
    Ok(())
}

fn check_limits(scenario: &Scenario, known: &Known) -> Checked {
    let limits = &scenario.limits;
    let roles = [
        ("data", limits.data),
        ("control", limits.control),
        ("origin", limits.origin),
        ("generator", limits.generator),
    ];
    for (role, limit) in roles {
        let Some(Limit { cpus, memory }) = limit else { continue };
        if let Some(cpus) = cpus {
            let path = ["limits", role, "cpus"];
            if !(cpus >= CPUS_MIN && cpus.is_finite()) {
                let message = format!("a limit of {cpus} CPUs");
                return Err(problem(&path, message, format!("give {CPUS_MIN} or more, or leave it out")));
            }
            if cpus > known.cpus as f64 {
                let message = format!("a limit of {cpus} CPUs, and this host has {}", known.cpus);
                let remedy = format!("give at most {}, or run it on a larger host", known.cpus);
                return Err(Problem { of_host: true, ..problem(&path, message, remedy) });
            }
        }
        if let Some(memory) = memory.filter(|memory| memory.0 < MEMORY_MIN_BYTES) {
            let message = format!("a memory limit of {memory} lets no process start");
            return Err(problem(&["limits", role, "memory"], message, "give 4MiB or more, or leave it out"));
        }
    }
    Ok(())
}

fn check_topology(topology: &Topology) -> Checked {
    if !(1..=DOMAINS_MAX).contains(&topology.domains) {
        let message = format!("{} domains", topology.domains);
        return Err(problem(&["topology", "domains"], message, format!("give 1 to {DOMAINS_MAX}")));
    }
    let paths = match &topology.paths {
        Paths::Count(count) => u64::from(*count),
        Paths::List(paths) => paths.len() as u64,
    };
    if paths == 0 {
        return Err(problem(
            &["topology", "paths"],
            "no paths",
            "give a number of them, or a list like [/ping]",
        ));
    }
    if paths * u64::from(topology.domains) > REQUESTS_MAX {
        let message =
            format!("{} with {} each", counted(topology.domains.into(), "domain"), counted(paths, "path"));
        let remedy = format!("stay below {REQUESTS_MAX} in all");
        return Err(problem(&["topology", "paths"], message, remedy));
    }
    if let Paths::List(paths) = &topology.paths {
        let mut seen = HashSet::new();
        for (place, path) in paths.iter().enumerate() {
            let at = ["topology", "paths", &place.to_string()];
            check_path(&at, path)?;
            if !seen.insert(path) {
                return Err(problem(&at, format!("the path `{path}` is given twice"), "keep one of the two"));
            }
        }
    }
    topology.rewrite.as_deref().map_or(Ok(()), |path| check_path(&["topology", "rewrite"], path))
}

fn check_network(scenario: &Scenario, known: &Known) -> Checked {
    if scenario.network == Network::Loopback {
        return Ok(());
    }
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        if let Some(listen) = gateway.listen.filter(|listen| !listen.ip().is_unspecified()) {
            let message = format!("nobody can ask {listen} from another network namespace");
            let remedy =
                format!("listen on every address, 0.0.0.0:{}, or take `network: loopback`", listen.port());
            return Err(problem(&["gateways", &place.to_string(), "listen"], message, remedy));
        }
    }
    (known.namespaces)().map_err(|why| {
        let message = format!("no network namespaces can be made: {why}");
        let remedy = "run weir as root, or leave it out: `network: loopback` needs no rights";
        Problem { of_host: true, ..problem(&["network"], message, remedy) }
    })
}

fn check_path(at: &[&str], path: &str) -> Checked {
    if !path.starts_with('/') {
        let message = format!("the path `{path}` has no slash at its beginning");
        return Err(problem(at, message, format!("write `/{path}`")));
    }
    match path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"\\`{}<>^|;$'".contains(&byte)) {
        true => Ok(()),
        false => Err(problem(
            at,
            format!("`{path}` is not a plain path"),
            "use letters, digits, `/`, `-`, `.`, `_`, `~` and percent escapes, without a query",
        )),
    }
}

fn check_loads(scenario: &Scenario) -> Checked {
    if scenario.loads.is_empty() {
        let remedy = "add one, like `loads: { full: { model: closed, connections: 10 } }`";
        return Err(problem(&["loads"], "no loads", remedy));
    }
    if !(1..=WORKERS_MAX).contains(&scenario.workers) {
        let message = format!("a load generator with {} workers", scenario.workers);
        return Err(problem(&["workers"], message, format!("give 1 to {WORKERS_MAX}")));
    }
    scenario.loads.iter().try_for_each(|(name, load)| {
        check_rates(scenario, name, load)?;
        load.at_each_rate(name).iter().try_for_each(|(_, load)| check_load(scenario, name, load))
    })
}

fn check_load(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    let at = |field| ["loads", name, field];
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        let remedy = "use letters, digits, `-` and `_`";
        return Err(problem(&["loads", name], format!("`{name}` cannot name a load"), remedy));
    }
    let trial = match &load.search {
        Some(search) => {
            check_search(scenario, name, load, search)?;
            Some(load.trial(load.first_per_s()))
        }
        None => None,
    };
    let load = trial.as_ref().unwrap_or(load);
    if load.connections.greatest() == 0 {
        return Err(problem(&at("connections"), "a load without connections", "give 1 or more"));
    }
    if load.connections.greatest() < scenario.workers && load.steps.is_empty() {
        let message = format!(
            "{} for {}",
            counted(load.connections.greatest().into(), "connection"),
            counted(scenario.workers.into(), "worker")
        );
        return Err(problem(&at("connections"), message, "give each worker one at least"));
    }
    let rated = load.rate.is_some() || load.steps.iter().any(|step| step.rate.is_some());
    match (load.model, rated) {
        (Model::Open, false) => {
            let remedy = "add one, like `rate: 5000/s`, or make it a closed load";
            return Err(problem(&at("rate"), format!("the open load `{name}` has no rate"), remedy));
        }
        (Model::Closed, true) => {
            let remedy = "leave the rate out, or make it an open load: `model: open`";
            return Err(problem(&at("rate"), format!("the closed load `{name}` has a rate"), remedy));
        }
        _ => {}
    }
    if load.model == Model::Closed && load.spacing.is_some() {
        let remedy = "leave it out: a closed load sends when it has been answered";
        return Err(problem(&at("spacing"), format!("the closed load `{name}` has a spacing"), remedy));
    }
    if load.duration.is_some_and(|duration| duration.0 == Duration::ZERO) {
        return Err(problem(&at("duration"), "a duration of zero", "give more, like 10s"));
    }
    check_share(scenario, name, load)?;
    check_listener(scenario, name, load)?;
    check_mix(scenario, name, load)?;
    check_popularity(name, load)?;
    // Whatever else cannot be, the engine knows; where it goes makes no difference to that, and one request of the
    // topology is as good as all.
    let setting = cell::setting(scenario, &[], vec![RequestSpec::default()], false, 0);
    let (load, setting) = secured::supposed(scenario, load, setting);
    let spec = load.of_carried(PLACEHOLDER_PER_S).spec(setting).map_err(|fault| {
        let path: Vec<&str> = ["loads", name].into_iter().chain(fault.field.split('.')).collect();
        problem(&path, format!("the load `{name}`: {}", fault.message), fault.remedy)
    })?;
    let Some(file) = spec.request_file else { return Ok(()) };
    let base = file.base(spec.tls.is_some());
    match request_file::read(&file.path, &base) {
        Ok(_) => Ok(()),
        Err(error) => Err(problem(&at("file"), format!("the load `{name}`: {error}"), error.remedy)),
    }
}

/// Refuses what the gateways have no listener for.
fn check_listener(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    let at = |field| ["loads", name, field];
    let remedy = "leave it out; `weir load` speaks it to a server that does";
    if scenario.is_elsewhere() {
        let message = format!("the load `{name}` speaks TLS of its own");
        let remedy = "give `tls` to the gateway, whose URL says whether it is spoken";
        return if load.tls.is_some() { Err(problem(&at("tls"), message, remedy)) } else { Ok(()) };
    }
    check_secure_load(scenario, name, load)?;
    if load.protocol == Some(Protocol::Http2) {
        let message = format!("the load `{name}` speaks HTTP/2, and the gateways listen for HTTP/1.1");
        return Err(problem(&at("protocol"), message, remedy));
    }
    Ok(())
}

/// Refuses paths that no gateway has a route for; what templates make of one is not known before.
fn check_mix(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    if load.mix.is_empty() {
        return Ok(());
    }
    let routed = scenario.topology.paths();
    for (place, request) in load.mix.iter().enumerate() {
        let path = request.path.split('?').next().unwrap_or_default();
        if !path.contains('{') && !routed.iter().any(|routed| routed == path) {
            let at = ["loads", name, "mix", &place.to_string(), "path"];
            let message = format!("no gateway has a route for `{path}`");
            return Err(problem(&at, message, "add it to `topology.paths`"));
        }
    }
    Ok(())
}

fn check_times(scenario: &Scenario) -> Checked {
    for (field, time) in [("duration", scenario.duration), ("timeout", scenario.timeout)] {
        if time.0 == Duration::ZERO {
            return Err(problem(&[field], format!("a {field} of zero"), "give more, like 10s"));
        }
    }
    if !(1..=REPEATS_MAX).contains(&scenario.repeats) {
        let message = format!("{} repeats", scenario.repeats);
        return Err(problem(&["repeats"], message, format!("give 1 to {REPEATS_MAX}; a headline needs 3")));
    }
    if scenario.retries > RETRIES_MAX {
        let message = format!("{} retries", scenario.retries);
        return Err(problem(&["retries"], message, format!("give 0 to {RETRIES_MAX}")));
    }
    Ok(())
}

fn check_thresholds(scenario: &Scenario) -> Checked {
    let t = &scenario.thresholds;
    if let Some(share) = t.interval_share.filter(|share| !(*share > 0.0 && share.is_finite())) {
        let remedy = "give more than 0, like 0.1, or leave it out";
        return Err(problem(&["thresholds", "interval_share"], format!("a share of {share}"), remedy));
    }
    if !(1.0..=WARMUP_GROWTH_MAX).contains(&t.warmup_growth) {
        let message = format!("a warm-up of {} times its length", t.warmup_growth);
        let remedy = format!("give a number from 1, which keeps it as it is, to {WARMUP_GROWTH_MAX}");
        return Err(problem(&["thresholds", "warmup_growth"], message, &remedy));
    }
    let shares = [
        ("bound_share", t.bound_share),
        ("worker_busy_share", t.worker_busy_share),
        ("gateway_idle_share", t.gateway_idle_share),
        ("lateness_share", t.lateness_share),
        ("completed_share", t.completed_share),
        ("upstream_delay_share", t.upstream_delay_share),
        ("disturbed_share", t.disturbed_share),
        ("throttled_share", t.throttled_share),
        ("drift_share", t.drift_share),
        ("full_load_share", t.full_load_share),
        ("error_share", t.error_share),
    ];
    for (name, share) in &t.margins {
        let path = ["thresholds", "margins", name.as_str()];
        if Measure::named(name).is_none() {
            let remedy = "name one that datasets are compared in: throughput, cpu, or a latency like p99";
            return Err(problem(&path, format!("there is no figure `{name}`"), remedy));
        }
        if !(*share > 0.0 && share.is_finite()) {
            return Err(problem(
                &path,
                format!("a margin of {share}"),
                "give more than 0, like 0.05 for 5 %",
            ));
        }
    }
    match shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
        Some((name, share)) => {
            Err(problem(&["thresholds", name], format!("a share of {share}"), "give a number from 0 to 1"))
        }
        None => Ok(()),
    }
}
