//! Rejects scenarios whose values are well-formed but contradict each other, the drivers or this host.

mod changes;
mod control;
mod faults;
mod generator;
mod objective;
mod origin;
mod pods;
mod popularity;
pub(crate) mod problem;
mod remote;
pub(crate) mod reserved;
mod search;
mod secure;
mod shares;
mod silent;
mod slow;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use weir_analysis::compare::Measure;
use weir_engine::request_file;
use weir_engine::{ProtocolSpec, RequestSpec};
use weir_results::words::counted;
use weir_results::{ArrivalModel, DIRECT, Plane, is_baseline};

use self::changes::{check_changes, check_rates};
use self::control::check_control;
use self::faults::check_faults;
use self::generator::check_generator;
use self::objective::check_objectives;
use self::origin::check_origin;
use self::pods::check_pods;
use self::popularity::{check_cold_start, check_popularity};
use self::problem::{Problems, ScenarioProblem, suggestion};
use self::remote::check_remote;
use self::search::check_search;
use self::secure::{check_secure, check_secure_load};
use self::shares::{check_share, check_twin};
use self::silent::check_silent;
use self::slow::check_slow;
use crate::scenario::secured::supposed;
use crate::scenario::setting::setting;
use crate::scenario::{Gateway, Limit, Load, Network, Numbered, Paths, Scenario, Topology};

/// Minimum memory limit: below it no process starts.
const MEMORY_MIN_BYTES: u64 = 4 << 20;

/// Minimum CPU limit: the shortest quota of the kernel is 1 ms in 100 ms.
const CPUS_MIN: f64 = 0.01;

/// Maximum number of repeats. A larger value is probably a typing error. The other maxima below have the same reason.
const REPEATS_MAX: u32 = 1_000;
/// Maximum number of times that weir re-measures a load.
const RETRIES_MAX: u32 = 100;
const WARMUP_GROWTH_MAX: f64 = 10.0;
const DOMAINS_MAX: u32 = 100_000;
const REQUESTS_MAX: u64 = 1_000_000;
const WORKERS_MAX: u32 = 1_024;

/// Placeholder for the capacity of gateways, which is measured only later. No check depends on this value.
const PLACEHOLDER_PER_S: f64 = 10_000.0;

/// What this version of weir and this host offer. Scenarios that need anything else are rejected.
#[derive(Clone, Debug)]
pub struct Known {
    /// Names of the drivers.
    pub drivers: Vec<String>,
    /// Names of the drivers that can serve as the upstream.
    pub origins: Vec<String>,
    /// Names of the services that can serve as the upstream.
    pub services: Vec<String>,
    /// By driver: the services that its gateway needs. Drivers that need none may be absent.
    pub needs: BTreeMap<String, Vec<String>>,
    /// By driver: the planes of its gateway. Contains only drivers whose gateway already runs in a cluster.
    pub in_cluster: BTreeMap<String, Vec<Plane>>,
    /// Logical CPUs of this host that the run may use.
    pub cpus: usize,
    /// Returns why this host or user cannot create network namespaces; called only for scenarios that need them.
    pub namespaces: fn() -> Result<(), String>,
}

impl Known {
    /// Whether one of the gateways needs a service.
    pub(crate) fn is_needed(&self, service: &str, gateways: &[Gateway]) -> bool {
        self.needed(gateways).any(|needed| needed == service)
    }

    /// The services that gateways need. If several gateways need a service, it is repeated.
    fn needed<'a>(&'a self, gateways: &'a [Gateway]) -> impl Iterator<Item = &'a str> {
        let needs = gateways.iter().filter_map(|gateway| self.needs.get(&gateway.driver));
        needs.flatten().map(String::as_str)
    }
}

/// Checks one scenario: the original, or a copy with the values of one combination of axes and cases. Returns every
/// error.
pub(crate) fn check(scenario: &Scenario, known: &Known) -> Vec<ScenarioProblem> {
    let mut found = Problems::default();
    let f = &mut found;
    if scenario.name.trim().is_empty() {
        f.add(&["name"], "the name is empty", "give the scenario a name");
    }
    check_gateways(&scenario.gateways, known, f);
    check_remote(scenario, f);
    check_limits(scenario, known, f);
    check_topology(&scenario.topology, f);
    check_secure(scenario, f);
    check_origin(scenario, known, f);
    check_network(scenario, known, f);
    check_generator(scenario, f);
    check_pods(scenario, known, f);
    check_times(scenario, f);
    check_twin(scenario, f);
    check_control(scenario, f);
    check_cold_start(scenario, f);
    check_loads(scenario, f);
    check_changes(scenario, f);
    check_faults(scenario, known, f);
    check_slow(scenario, f);
    check_silent(scenario, f);
    check_objectives(scenario, f);
    check_thresholds(scenario, f);
    found.0
}

fn check_gateways(gateways: &[Gateway], known: &Known, found: &mut Problems) {
    let drivers = || known.drivers.iter().map(String::as_str);
    if gateways.is_empty() {
        let remedy = format!("add at least one of: {}", known.drivers.join(", "));
        found.add(&["gateways"], "the scenario has no gateways", remedy);
    }
    let mut names = HashSet::new();
    for (place, gateway) in gateways.iter().enumerate() {
        let path = ["gateways", &place.to_string()];
        let name = &gateway.name;
        if is_baseline(name) {
            let message = match name == DIRECT {
                true => format!("`{name}` is the name of the direct baseline, which weir always measures"),
                false => format!("`{name}` is the name of the second direct baseline (`twin: true`)"),
            };
            found.add(&path, message, "choose another name");
            continue;
        }
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            found.add(
                &path,
                format!("invalid gateway name `{name}`"),
                "use letters, digits, `-`, `_` and `.`",
            );
        } else if !names.insert(name) {
            let remedy = format!("rename one of them, like {{ name: {name}-2, driver: {} }}", gateway.driver);
            found.add(&path, format!("duplicate gateway name `{name}`"), remedy);
        }
        if !gateway.is_remote() && !known.drivers.contains(&gateway.driver) {
            let message = format!("unknown gateway or driver `{}`", gateway.driver);
            found.add(&path, message, suggestion(&gateway.driver, drivers(), "drivers"));
        }
    }
}

fn check_limits(scenario: &Scenario, known: &Known, found: &mut Problems) {
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
                found.add_range(&path, cpus, format!("use at least {CPUS_MIN}, or remove the limit"));
            } else if cpus > known.cpus as f64 {
                let host = if scenario.is_in_pods() { "the largest node" } else { "this host" };
                let message = format!("the limit of {cpus} CPUs exceeds the {} CPUs of {host}", known.cpus);
                let remedy = format!("use at most {}, or run the scenario on a larger host", known.cpus);
                found.add_of_host(&path, message, remedy);
            }
        }
        if let Some(memory) = memory.filter(|memory| memory.0 < MEMORY_MIN_BYTES) {
            let message = format!("the memory limit of {memory} is too small for any process to start");
            found.add(&["limits", role, "memory"], message, "use at least 4MiB, or remove the limit");
        }
    }
}

fn check_topology(topology: &Topology, found: &mut Problems) {
    if !(1..=DOMAINS_MAX).contains(&topology.domains) {
        found.add_range(&["topology", "domains"], topology.domains, format!("use 1 to {DOMAINS_MAX}"));
    }
    let paths = match &topology.paths {
        Paths::Count(count) => u64::from(*count),
        Paths::List(paths) => {
            paths.iter().map(|path| Numbered::of(path).map_or(1, |numbered| numbered.count())).sum()
        }
    };
    if paths == 0 {
        let remedy = "give the number of paths, or a list like [/ping]";
        found.add(&["topology", "paths"], "the topology has no paths", remedy);
    }
    if paths * u64::from(topology.domains) > REQUESTS_MAX {
        let message = format!(
            "{} and {} per domain exceed the limit of {REQUESTS_MAX} routes",
            counted(topology.domains.into(), "domain"),
            counted(paths, "path")
        );
        found.add(&["topology", "paths"], message, "use fewer domains or paths");
    }
    if let Paths::List(paths) = &topology.paths {
        let mut seen = HashSet::new();
        for (place, path) in paths.iter().enumerate() {
            let at = ["topology", "paths", &place.to_string()];
            match Numbered::of(path) {
                Some(numbered) if numbered.numbers.is_empty() => {
                    let message = format!("the range of `{path}` is empty");
                    found.add(&at, message, "write the smaller number first");
                }
                Some(numbered) => check_path(&at, &numbered.first(), found),
                None => check_path(&at, path, found),
            }
            if !seen.insert(path) {
                found.add_duplicate(&at, path);
            }
        }
    }
    if let Some(path) = &topology.rewrite {
        check_path(&["topology", "rewrite"], path, found);
    }
}

fn check_network(scenario: &Scenario, known: &Known, found: &mut Problems) {
    if scenario.network() == Network::Loopback {
        return;
    }
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        if let Some(listen) = gateway.listen.filter(|listen| !listen.ip().is_unspecified()) {
            let message = format!("{listen} cannot be reached from another network namespace");
            let remedy = format!("listen on 0.0.0.0:{}, or use `network: loopback`", listen.port());
            found.add(&["gateways", &place.to_string(), "listen"], message, remedy);
        }
    }
    if let Err(why) = (known.namespaces)() {
        let message = format!("cannot create network namespaces: {why}");
        let remedy = "run weir as root, or use `network: loopback`, which needs no privileges";
        found.add_of_host(&["network"], message, remedy);
    }
}

fn check_path(at: &[&str], path: &str, found: &mut Problems) {
    if !path.starts_with('/') {
        found.add(at, format!("path `{path}` does not start with a slash"), format!("write `/{path}`"));
    } else if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"\\`{}<>^|;$'".contains(&byte)) {
        found.add(
            at,
            format!("path `{path}` contains a query, a space or a special character"),
            "use letters, digits, `/`, `-`, `.`, `_`, `~` and percent-encoding, without a query",
        );
    }
}

fn check_loads(scenario: &Scenario, found: &mut Problems) {
    if scenario.loads.is_empty() {
        let remedy = "add a load, like `loads: { full: { model: closed, connections: 10 } }`";
        found.add(&["loads"], "the scenario has no loads", remedy);
    }
    if !(1..=WORKERS_MAX).contains(&scenario.workers) {
        found.add_range(&["workers"], scenario.workers, format!("use 1 to {WORKERS_MAX}"));
    }
    for (name, load) in scenario.loads.iter() {
        let before = found.0.len();
        check_rates(scenario, name, load, found);
        for (_, load) in load.at_each_rate(name) {
            // The loads of a list of rates differ only in their rate, so the errors of the first one are enough.
            if found.0.len() == before {
                check_load(scenario, name, &load, found);
            }
        }
    }
}

fn check_load(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    let before = found.0.len();
    let at = |field| ["loads", name, field];
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        let remedy = "use letters, digits, `-` and `_`";
        found.add(&["loads", name], format!("invalid load name `{name}`"), remedy);
    }
    let trial = match &load.search {
        Some(search) => {
            check_search(scenario, name, load, search, found);
            // A trial can be derived only from a search without errors.
            if found.0.len() > before {
                return;
            }
            Some(load.trial(load.first_per_s()))
        }
        None => None,
    };
    let load = trial.as_ref().unwrap_or(load);
    let connections = load.connections.greatest();
    if connections == 0 {
        found.add(&at("connections"), "the load has no connections", "use at least 1");
    } else if connections < scenario.workers && load.steps.is_empty() {
        let message = format!(
            "{} cannot be shared by {}",
            counted(connections.into(), "connection"),
            counted(scenario.workers.into(), "worker")
        );
        found.add(&at("connections"), message, "use at least 1 connection per worker");
    }
    check_model(name, load, found);
    if load.duration.is_some_and(|duration| duration.0 == Duration::ZERO) {
        found.add(&at("duration"), "the duration is zero", "use a longer time, like 10s");
    }
    check_share(scenario, name, load, found);
    check_listener(scenario, name, load, found);
    check_mix(scenario, name, load, found);
    check_popularity(name, load, found);
    // Skip this after errors in this load or in scenario-wide values: the load engine would report the same errors
    // again.
    let whole = ["workers", "duration", "timeout", "warmup", "topology"];
    let is_clear = !found.0.iter().any(|problem| whole.contains(&problem.place()[0].as_str()));
    if is_clear && found.0.len() == before {
        check_spec(scenario, name, load, found);
    }
}

/// Rejects rates that contradict the model of a load.
fn check_model(name: &str, load: &Load, found: &mut Problems) {
    let at = |field| ["loads", name, field];
    let rated = load.rate.is_some() || load.steps.iter().any(|step| step.rate.is_some());
    match (load.model, rated) {
        (ArrivalModel::Open, false) => {
            let remedy = "add a rate, like `rate: 5000/s`, or use `model: closed`";
            found.add(&at("rate"), "an open load needs a rate", remedy);
        }
        (ArrivalModel::Closed, true) => {
            let remedy = "remove the rate, or use `model: open`";
            found.add(&at("rate"), "a closed load cannot have a rate", remedy);
        }
        _ => {}
    }
    if load.model == ArrivalModel::Closed && load.spacing.is_some() {
        let message = "a closed load cannot have a spacing: it sends each request after a response";
        found.add(&at("spacing"), message, "remove the spacing, or use `model: open`");
    }
}

/// Checks the load with the load engine, which reports only the first error. For this check, the load has no addresses,
/// and a single request instead of all requests of the topology.
fn check_spec(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    let setting = setting(scenario, &[], vec![RequestSpec::default()], false, 0);
    let (load, setting) = supposed(scenario, load, setting);
    let spec = match load.at_capacity(PLACEHOLDER_PER_S).spec(setting) {
        Ok(spec) => spec,
        Err(error) => {
            let path: Vec<&str> = ["loads", name].into_iter().chain(error.place.split('.')).collect();
            return found.add(&path, error.message, error.remedy);
        }
    };
    let Some(file) = spec.request_file else { return };
    let base = file.base(spec.tls.is_some());
    if let Err(error) = request_file::read(&file.path, &base) {
        found.add(&["loads", name, "file"], error.to_string(), error.remedy);
    }
}

/// Rejects protocols that the gateways do not listen for.
fn check_listener(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    let at = |field| ["loads", name, field];
    if scenario.is_elsewhere() {
        if load.tls.is_some() {
            let message = "the TLS settings of a remote gateway belong to the gateway, not to the load";
            found.add(
                &at("tls"),
                message,
                "move these settings to `tls` of the gateway, and use https:// in its `url`",
            );
        }
        return;
    }
    check_secure_load(scenario, name, load, found);
    if load.protocol == Some(ProtocolSpec::Http2) {
        let message = "the gateways listen for HTTP/1.1 only";
        let remedy = "remove `protocol`; `weir load --http2` sends HTTP/2 to any server";
        found.add(&at("protocol"), message, remedy);
    }
}

/// Rejects paths in a mix that no route matches. Paths with placeholders are known only at run time.
fn check_mix(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    if load.mix.is_empty() {
        return;
    }
    let routed = scenario.topology.paths();
    for (place, request) in load.mix.iter().enumerate() {
        let path = request.path.split('?').next().unwrap_or_default();
        if !path.contains('{') && !routed.iter().any(|routed| routed == path) {
            let at = ["loads", name, "mix", &place.to_string(), "path"];
            found.add(&at, format!("no route matches `{path}`"), "add the path to `topology.paths`");
        }
    }
}

fn check_times(scenario: &Scenario, found: &mut Problems) {
    for (field, time) in [("duration", scenario.duration), ("timeout", scenario.timeout)] {
        if time.0 == Duration::ZERO {
            found.add(&[field], format!("the {field} is zero"), "use a longer time, like 10s");
        }
    }
    if !(1..=REPEATS_MAX).contains(&scenario.repeats) {
        let remedy = format!("use 1 to {REPEATS_MAX}; a headline result needs at least 3 repeats");
        found.add_range(&["repeats"], scenario.repeats, remedy);
    }
    if scenario.retries > RETRIES_MAX {
        found.add_range(&["retries"], scenario.retries, format!("use 0 to {RETRIES_MAX}"));
    }
}

fn check_thresholds(scenario: &Scenario, found: &mut Problems) {
    let t = &scenario.thresholds;
    if let Some(share) = t.interval_share.filter(|share| !(*share > 0.0 && share.is_finite())) {
        let remedy = "use a share above 0, like 0.1, or remove the threshold";
        found.add_range(&["thresholds", "interval_share"], share, remedy);
    }
    if !(1.0..=WARMUP_GROWTH_MAX).contains(&t.warmup_growth) {
        let remedy = format!("use 1 to {WARMUP_GROWTH_MAX}; with 1, the warm-up does not grow");
        found.add_range(&["thresholds", "warmup_growth"], t.warmup_growth, remedy);
    }
    for (name, share) in &t.margins {
        let path = ["thresholds", "margins", name.as_str()];
        if Measure::named(name).is_none() {
            let remedy = "use a metric that weir compares: throughput, cpu, or a latency like p99";
            found.add(&path, format!("unknown metric `{name}`"), remedy);
        } else if !(*share > 0.0 && share.is_finite()) {
            found.add_range(&path, share, "use a share above 0, like 0.05 for 5 %");
        }
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
        ("throughput_tolerance", t.throughput_tolerance),
        ("cpu_tolerance", t.cpu_tolerance),
        ("median_tolerance", t.median_tolerance),
        ("tail_tolerance", t.tail_tolerance),
        ("full_load_share", t.full_load_share),
        ("error_share", t.error_share),
    ];
    for (name, share) in shares.into_iter().filter(|(_, share)| !(0.0..=1.0).contains(share)) {
        found.add_range(&["thresholds", name], share, "use a share from 0 to 1");
    }
}
