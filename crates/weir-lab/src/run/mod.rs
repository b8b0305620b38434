//! Prepares, starts and resumes runs.

pub(crate) mod cells;
pub(crate) mod pilot;
mod shares;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_analysis::compare::CLAIM_REPEATS;
use weir_document::Problem;
use weir_results::{Cell, CellKey, CellOutcome, HostBounds, Part, Role, Run, SCHEMA_VERSION, Store};
use weir_rig::prometheus::Prometheus;
use weir_rig::{Binary, CgroupVersion, Driver, Drivers, Programs, Rig, RigError, Service};

use self::cells::{Ended, measure_all};
use crate::cell::Lab;
use crate::cell::certificates::SharedCertificates;
use crate::cell::control::Medians;
use crate::cell::error::outcome_of;
use crate::cell::from_agents::{Agents, AgentsOptions};
use crate::cell::kube;
use crate::cell::ports::Ports;
use crate::cell::publish;
use crate::cell::remote;
use crate::cell::retry::Retries;
use crate::cell::samplers::Samplers;
use crate::cell::service::ServiceBinaries;
use crate::plan::{self, Plan};
use crate::progress::Observer;
use crate::read::Checked;
use crate::scenario::secured;
use crate::scenario::{Gateway, Network, Scenario};
use crate::watch::Watcher;
use crate::{LabError, clock};

/// What a run needs in addition to its scenario.
pub struct Bench<'a> {
    /// The drivers of gateways, upstreams and services.
    pub drivers: &'a Drivers,
    /// The weir program, which also runs as upstream and as load generator.
    pub weir: &'a Binary,
    /// Set from outside to stop the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Receives the progress.
    pub observer: &'a dyn Observer,
    /// How agents that the user starts join the run.
    pub agents: &'a AgentsOptions,
    /// Receives values of loads while they run.
    pub watcher: Option<&'a dyn Watcher>,
}

/// A scenario whose programs were located on this host.
#[derive(Debug)]
pub struct Prepared {
    /// The scenario without the optional gateways that this host does not have.
    pub checked: Checked,
    /// Notes about skipped gateways and fields without effect.
    pub notes: Vec<String>,
    binaries: BTreeMap<String, Result<Binary, CellOutcome>>,
    /// The binaries of servers that are used as upstream, by driver name.
    origins: BTreeMap<String, Binary>,
    /// By service name: the binaries of the service, or why they are missing.
    services: ServiceBinaries,
    /// The Prometheus of each remote gateway that uses one, by gateway name.
    prometheus: BTreeMap<String, Prometheus>,
}

/// Locates the binary of every gateway. A gateway without a binary is skipped if it is optional; otherwise its cells
/// fail.
///
/// # Errors
/// If a setting or a user-supplied configuration file is invalid, the binary of the upstream server is missing, or a
/// Prometheus credentials file cannot be read.
pub fn prepare(checked: Checked, drivers: &Drivers) -> Result<Prepared, LabError> {
    prepare_with(checked, drivers, &Programs::default())
}

/// Like [`prepare`], but locates programs with `programs`.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_with(
    mut checked: Checked,
    drivers: &Drivers,
    programs: &Programs<'_>,
) -> Result<Prepared, LabError> {
    let uses_namespaces = checked.points.iter().any(|point| point.scenario.network() == Network::Namespaces);
    let located = |binary: Result<Binary, RigError>, part: &str| {
        let binary = binary?;
        match &binary.image {
            Some(image) if uses_namespaces => image.engine().check_namespaces(part).map(|()| binary),
            _ => Ok(binary),
        }
    };
    let located_each = |service: &Service| -> Result<BTreeMap<String, Binary>, RigError> {
        let binaries = service.locate_with(programs)?.into_iter();
        binaries.map(|(name, binary)| Ok((name, located(Ok(binary), service.name())?))).collect()
    };
    let mut images = BTreeMap::new();
    let mut binaries = BTreeMap::new();
    let mut notes = Vec::new();
    let mut controlled = false;
    let mut services = ServiceBinaries::new();
    let mut prometheus = BTreeMap::new();
    for gateway in &checked.scenario.gateways {
        if gateway.is_remote() {
            if let Some(source) = &gateway.remote.prometheus {
                let known = Prometheus::new(&source.address(), source.asked())?;
                prometheus.insert(gateway.name.clone(), known);
            }
            continue;
        }
        let driver = drivers.driver(&gateway.driver)?;
        if checked.points.iter().any(|point| point.scenario.changes.is_some()) {
            driver.check_apply()?;
        }
        controlled |= driver.file().processes.iter().any(|process| process.role == Role::Control);
        controlled |= driver.kubernetes().is_some_and(|of| of.control.is_some());
        if let Some(configuration) = checked.configurations.get(&gateway.name) {
            driver.check_configuration(configuration, gateway.listen.is_some())?;
            if checked.points.iter().any(|point| point.scenario.topology.tls) {
                driver.check_own_tls(configuration)?;
            }
        }
        for point in &checked.points {
            driver.require(&point.scenario.wants())?;
            // Settings can be an axis, so each point can have other settings.
            let mut same = point.scenario.gateways.iter().filter(|other| other.name == gateway.name);
            same.try_for_each(|other| driver.check_settings(&other.set.to_map()))?;
        }
        if driver.kubernetes().is_some() {
            let message = "weir measures this gateway only in its cluster";
            match (programs.pods.is_some(), gateway.optional) {
                (true, _) => {
                    binaries.insert(gateway.name.clone(), Ok(Binary::default()));
                }
                (false, true) => notes.push(format!("{} is skipped: {message} (add --on k8s)", gateway.name)),
                (false, false) => {
                    let problem = Problem::of(format!("gateway `{}`", gateway.name), message);
                    return Err(LabError::Scenario(problem.help("add --on k8s, or remove the gateway")));
                }
            }
            continue;
        }
        if let Some(feature) = missing_feature(drivers, driver)? {
            let message = format!("its driver needs the feature `{feature}`, which this build of weir lacks");
            if gateway.optional {
                notes.push(format!("{} is skipped: {message}", gateway.name));
                continue;
            }
            let problem = Problem::of(format!("gateway `{}`", gateway.name), message);
            let remedy = format!("build weir with `--features {feature}`, or remove the gateway");
            return Err(LabError::Scenario(problem.help(remedy)));
        }
        let mut missing_service = None;
        for service in drivers.needed_by(&gateway.driver)? {
            if !services.contains_key(service.name()) {
                let found = located_each(service).map_err(|error| outcome_of(&error));
                services.insert(service.name().to_owned(), found);
            }
            if let Some(Err(outcome)) = services.get(service.name()) {
                missing_service = missing_service.or(Some(outcome.clone()));
            }
        }
        if let Some(CellOutcome::Failed { message, remedy, .. }) = &missing_service {
            if gateway.optional {
                notes.push(format!("{} is skipped: {message} ({remedy})", gateway.name));
                continue;
            }
            notes.push(format!("{} cannot be measured: {message} ({remedy})", gateway.name));
        }
        let (binary, image) = (gateway.binary.as_deref(), gateway.image.as_ref());
        let found = match located(driver.locate_with(binary, image, programs), &gateway.name) {
            Err(error) if gateway.optional && error.cause() == "binary-missing" => {
                notes.push(format!("{} is skipped: {error} ({})", gateway.name, error.remedy()));
                continue;
            }
            Err(error) => {
                notes.push(format!("{} cannot be measured: {error} ({})", gateway.name, error.remedy()));
                Err(outcome_of(&error))
            }
            Ok(binary) => Ok(binary),
        };
        if let Some(image) = found.as_ref().ok().and_then(|binary| binary.image.as_ref()) {
            if gateway.image.is_none() {
                notes.push(format!(
                    "{} runs in a container of image {}, started by {}",
                    gateway.name,
                    image.name(),
                    image.engine()
                ));
            }
            images.insert(gateway.name.clone(), image.name().clone());
        }
        binaries.insert(gateway.name.clone(), found);
    }
    if checked.points.iter().any(|point| point.scenario.limits.control.is_some()) && !controlled {
        notes.push("limits.control has no effect: no gateway of this run has a control process".to_owned());
    }
    let mut origins = BTreeMap::new();
    for name in checked.points.iter().filter_map(|point| point.scenario.origin.driver.as_ref()) {
        if !origins.contains_key(name) {
            let found = drivers.driver(name)?.locate_with(None, None, programs);
            origins.insert(name.clone(), located(found, name)?);
        }
    }
    for point in &checked.points {
        let Some(name) = point.scenario.origin.service.name() else { continue };
        let service = drivers.service(name)?;
        service.check_settings(&point.scenario.origin.prepare.to_map())?;
        if service.uses_kubernetes() && !kube::IS_SUPPORTED {
            let message =
                format!("service `{name}` needs the feature `{KUBERNETES}`, which this build of weir lacks");
            let remedy = format!("build weir with `--features {KUBERNETES}`");
            return Err(LabError::Scenario(Problem::of("origin.service", message).help(remedy)));
        }
        if !services.contains_key(name) {
            // A missing program is an error here: the service is the upstream, and no cell can be measured without it.
            services.insert(name.to_owned(), Ok(located_each(service)?));
        }
    }
    checked.configurations.retain(|name, _| binaries.contains_key(name));
    let is_kept = |gateway: &Gateway| gateway.is_remote() || binaries.contains_key(&gateway.name);
    checked.scenario.gateways.retain(is_kept);
    for point in &mut checked.points {
        point.scenario.gateways.retain(is_kept);
    }
    notes.extend(fit_faults(&mut checked, drivers)?);
    // Images are stored with the run, so that a resumed run uses the same ones.
    let points = checked.points.iter_mut().map(|point| &mut point.scenario);
    for gateway in points.chain([&mut checked.scenario]).flat_map(|scenario| &mut scenario.gateways) {
        gateway.image = images.get(&gateway.name).cloned().or(gateway.image.take());
    }
    notes.extend(check_control(&mut checked)?);
    if checked.scenario.is_in_pods() && checked.scenario.cold_start {
        notes.push("cold starts are not measured in a cluster".to_owned());
    }
    notes.extend(remote::destinations(&checked.scenario));
    let relative = pilot::relative_loads(&checked);
    if !relative.is_empty() {
        notes.push(format!(
            "rates of {} are shares of a capacity, which a pilot measures first",
            relative.join(", ")
        ));
    }
    Ok(Prepared { checked, notes, binaries, origins, services, prometheus })
}

/// Cargo features of weir that drivers and services may need.
const NATS: &str = "nats";
const KUBERNETES: &str = "kubernetes";

/// A feature that the driver or one of its services needs and this build lacks; `None` if none is missing.
fn missing_feature(drivers: &Drivers, driver: &Driver) -> Result<Option<&'static str>, LabError> {
    if driver.publishes() && !publish::IS_SUPPORTED {
        return Ok(Some(NATS));
    }
    let mut services = drivers.needed_by(driver.name())?.into_iter();
    let is_needed = driver.uses_kubernetes() || services.any(Service::uses_kubernetes);
    Ok((is_needed && !kube::IS_SUPPORTED).then_some(KUBERNETES))
}

/// Removes the faults of services that no gateway needs. Returns a note for each service whose faults are skipped for
/// at least one gateway, because the gateway does not need the service. The upstream gets no note.
fn fit_faults(checked: &mut Checked, drivers: &Drivers) -> Result<Vec<String>, LabError> {
    let mut needs = Vec::new();
    for gateway in checked.scenario.gateways.iter().filter(|gateway| !gateway.is_remote()) {
        needs.push((gateway.name.clone(), drivers.needed_by(&gateway.driver)?));
    }
    let is_needed = |service: &str| needs.iter().any(|(_, needed)| has(needed, service));
    let faulted: BTreeSet<String> = checked
        .points
        .iter()
        .flat_map(|point| point.scenario.faulted_services())
        .map(str::to_owned)
        .collect();
    for scenario in checked.points.iter_mut().map(|point| &mut point.scenario).chain([&mut checked.scenario])
    {
        scenario.keep_faults_of(is_needed);
    }
    let is_upstream = |service: &str| {
        checked.points.iter().any(|point| point.scenario.origin.service.name() == Some(service))
    };
    let note = |service: &String| {
        let without = needs.iter().filter(|(_, needed)| !has(needed, service));
        let without: Vec<&str> = without.map(|(name, _)| name.as_str()).collect();
        (!without.is_empty() && !is_upstream(service)).then(|| {
            let names = without.join(", ");
            format!("faults of the service `{service}` are skipped for gateways that do not use it: {names}")
        })
    };
    Ok(faulted.iter().filter_map(note).collect())
}

fn has(services: &[&Service], name: &str) -> bool {
    services.iter().any(|service| service.name() == name)
}

/// Selects the gateway that the positive control copies. The gateway must be available on this host, and must not run
/// in a container. Returns notes about the limitations of the control.
fn check_control(checked: &mut Checked) -> Result<Vec<String>, LabError> {
    let Scenario { gateways, origin, repeats, control, .. } = &checked.scenario;
    let Some(mut control) = control.clone() else { return Ok(Vec::new()) };
    let mut notes = Vec::new();
    if *repeats < CLAIM_REPEATS as u32 {
        notes.push(format!(
            "positive control: detection needs {CLAIM_REPEATS} valid repeats, but this run has {repeats}; use \
             --repeats {CLAIM_REPEATS}"
        ));
    }
    if let Some(driver) = &origin.driver {
        notes.push(format!(
            "positive control: the upstream `{driver}` cannot delay responses, so the control adds only CPU time"
        ));
    }
    let name = control.of(gateways).map(|gateway| gateway.name.clone());
    if let (None, Some(wanted)) = (&name, &control.gateway) {
        let problem =
            Problem::of("control.gateway", format!("gateway `{wanted}` is not available on this host"));
        return Err(LabError::Scenario(
            problem.help("see the notes of `weir run --plan`, or name another gateway"),
        ));
    }
    let is_in_container =
        |gateway: &&Gateway| gateway.image.is_some() && Some(&gateway.name) == name.as_ref();
    if let Some(gateway) = gateways.iter().find(is_in_container) {
        let message =
            format!("gateway `{}` runs in a container, where weir cannot add CPU time", gateway.name);
        let remedy = "select a gateway without an image (`--control GATEWAY=SHARE`), or install the program of this \
        gateway";
        return Err(LabError::Scenario(Problem::of("control.gateway", message).help(remedy)));
    }
    control.gateway = name;
    checked.scenario.control = Some(control);
    for point in &mut checked.points {
        point.scenario.control.clone_from(&checked.scenario.control);
    }
    Ok(notes)
}

/// Plans a new run of `prepared`; stores nothing yet.
pub fn new_run(prepared: &Prepared, command_line: Vec<String>) -> Run {
    let scenario = &prepared.checked.scenario;
    let Plan { seed, cells } = planned(&prepared.checked);
    let started_unix_ms = clock::unix_ms();
    let mut manifest = Rig::host_facts();
    manifest.command_line = command_line;
    let networks: BTreeSet<_> =
        prepared.checked.points.iter().map(|point| point.scenario.network()).collect();
    manifest.network = match scenario.is_in_pods() {
        true => "pod network of the cluster".into(),
        false => networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut topologies = prepared.checked.points.iter().map(|point| &point.scenario.topology);
    manifest.tls = topologies.any(|topology| topology.tls).then(|| secured::NEGOTIATED.to_owned());
    manifest.configurations = prepared.checked.configurations.clone();
    Run {
        schema_version: SCHEMA_VERSION,
        id: clock::run_id(started_unix_ms),
        name: scenario.name.clone(),
        question: scenario.question.clone(),
        scenario: serde_json::to_value(scenario).expect("a scenario always serializes to JSON"),
        seed,
        started_unix_ms,
        ended_unix_ms: None,
        plan: cells,
        objective: prepared.checked.objective(),
        thresholds: scenario.thresholds.clone(),
        manifest,
    }
}

/// Plans `checked` with its seed, or with a new one.
fn planned(checked: &Checked) -> Plan {
    plan::plan(checked, checked.scenario.seed.unwrap_or_else(clock::new_seed))
}

/// Measures every cell of `run` that is not in the store. First stores the run if it is new, or its added cells if it
/// was extended.
///
/// # Errors
/// If the host cannot be used, or a finished cell cannot be stored; earlier cells are kept.
pub fn execute(
    run: &Run,
    prepared: &Prepared,
    store: &mut Store,
    bench: &Bench<'_>,
) -> Result<Ended, LabError> {
    if cells::pending(run, store)?.is_empty() {
        return measure_all(run, store, bench.stop, bench.observer, |_| Default::default(), |_| Ok(None));
    }
    let mut rig = Rig::open(&run.id, store.path())?;
    rig.give_up_on(Arc::clone(bench.stop));
    let rig = rig;
    // In a cluster, the kubelet limits the parts, so weir needs no control groups.
    if let Err(why) = rig.cgroups()
        && !prepared.checked.scenario.is_in_pods()
    {
        bench.observer.note(&format!(
            "weir cannot use control groups: {why}. Whole CPUs are limited by affinity. Other limits do not apply, and \
             values of processes with such limits are invalid"
        ));
    }
    if prepared.checked.scenario.is_elsewhere() {
        // A remote gateway may run on this host. Give CPU time to the run's cgroup first, so that the load generator
        // does not wait for the gateway.
        rig.put_first();
    }
    let remotes = remote::meet(&prepared.checked.scenario, &prepared.prometheus, bench.observer)?;
    let ports = Ports::new();
    let certificates = SharedCertificates::default();
    let bounds = match HostBounds::fingerprint(&Rig::host_facts()) {
        Some(host) => store.bounds(&host)?,
        None => None,
    };
    let lab = Lab {
        rig: &rig,
        drivers: bench.drivers,
        weir: bench.weir,
        binaries: &prepared.binaries,
        origins: &prepared.origins,
        services: &prepared.services,
        configurations: &prepared.checked.configurations,
        remotes: &remotes,
        run,
        stop: bench.stop,
        observer: bench.observer,
        // The pilot runs first. Its loads are not part of any result, so nobody watches them.
        watcher: None,
        ports: &ports,
        bounds,
        certificates: &certificates,
        retries: Retries::of_run(Duration::ZERO),
        medians: Medians::default(),
        agents: Agents::new(bench.agents),
        samplers: Samplers::new(bench.agents),
    };
    let Some((run, checked)) = with_rates(&lab, &prepared.checked)? else {
        rig.close()?;
        return Ok(Ended::Interrupted);
    };
    // Stores the run only now, when this host is locked for it. So a run that cannot start is not stored.
    match store.runs()?.iter().find(|kept| kept.id == run.id) {
        None => store.begin_run(&with_limits(&run, &rig))?,
        Some(kept) if (kept.cells_planned as usize) < run.plan.len() => store.extend_run(&run)?,
        Some(_) => {}
    }
    let pending = cells::pending(&run, store)?;
    let retries = Retries::of_run(plan::time(&checked, &pending).min);
    let scenario_of = |key: &CellKey| plan::point_of(&checked, key).map(|point| &point.scenario);
    let medians = Medians::default();
    if checked.scenario.control.is_some() {
        for cell in &store.cells(&run.id)? {
            if let Some(scenario) = scenario_of(&cell.key) {
                medians.note(scenario, cell);
            }
        }
    }
    let lab = Lab { run: &run, watcher: bench.watcher, retries, medians, ..lab };
    let takes = |key: &CellKey| scenario_of(key).map(plan::cell_time).unwrap_or_default();
    let ended = measure_all(&run, store, bench.stop, bench.observer, takes, |key| {
        let scenario = scenario_of(key).ok_or_else(|| LabError::Resume {
            run: run.id.clone(),
            why: format!("the scenario does not contain cell {} of the plan", key.index + 1),
        })?;
        lab.measure(scenario, key)
    });
    let closed = rig.close();
    let ended = ended?;
    closed?;
    Ok(ended)
}

/// If a rate is a share of a capacity, measures the capacities first. Returns the run and its scenario with absolute
/// rates; `None` if the run was stopped meanwhile.
fn with_rates(lab: &Lab<'_>, checked: &Checked) -> Result<Option<(Run, Checked)>, LabError> {
    let mut run = lab.run.clone();
    if pilot::relative_loads(checked).is_empty() {
        return Ok(Some((run, checked.clone())));
    }
    let Some(carried) = lab.pilot(checked)? else { return Ok(None) };
    let (checked, pilot) = shares::resolved(checked, carried)?;
    for rate in &pilot.rates {
        lab.observer.note(&rate.words());
    }
    run.plan = plan::plan(&checked, run.seed).cells;
    run.scenario = serde_json::to_value(&checked.scenario).expect("a scenario always serializes to JSON");
    run.manifest.pilot = Some(pilot);
    Ok(Some((run, checked)))
}

/// Returns `run` with the cgroup version that weir can use for limits on this host. Only an open rig can find out this
/// version.
fn with_limits(run: &Run, rig: &Rig) -> Run {
    let mut run = run.clone();
    run.manifest.cgroup = Some(rig.try_limits().map_or("none", CgroupVersion::name).to_owned());
    run
}

/// Notes about changes of the host and of programs since `cells` of `run` were measured.
pub fn differences(run: &Run, cells: &[Cell], prepared: &Prepared, weir: &Binary) -> Vec<String> {
    let mut notes = Vec::new();
    if HostBounds::fingerprint(&run.manifest) != HostBounds::fingerprint(&Rig::host_facts()) {
        notes.push("this host differs from the host of the earlier cells".to_owned());
    }
    for (name, kept) in &prepared.checked.configurations {
        let is_as_then = weir_rig::read_configuration(Path::new(&kept.path)).is_ok_and(|now| now == *kept);
        if !is_as_then {
            notes.push(format!("{name}: {} has changed; the run continues with its stored copy", kept.path));
        }
    }
    let mut reported = |name: &str, part: &Part, now: &Binary| {
        let same = part.binary_sha256 == now.sha256;
        let note = match now.version == part.version {
            true => {
                format!("{name} has changed: earlier cells used another build of version {}", now.version)
            }
            false => format!(
                "{name} has changed: its version is {}, but earlier cells used {}",
                now.version, part.version
            ),
        };
        if !same && !notes.contains(&note) {
            notes.push(note);
        }
    };
    let played_by = |part: &Part| {
        let mut origins = prepared.origins.iter();
        origins.find(|(_, binary)| Path::new(&part.binary) == binary.path)
    };
    for cell in cells {
        for part in &cell.parts {
            match (part.role, prepared.binaries.get(&cell.key.gateway)) {
                (Role::Data, Some(Ok(binary))) if Path::new(&part.binary) == binary.path => {
                    reported(&cell.key.gateway, part, binary);
                }
                (Role::Origin, _) => match played_by(part) {
                    Some((name, binary)) => reported(name, part, binary),
                    None => reported("weir", part, weir),
                },
                (Role::Generator, _) => reported("weir", part, weir),
                _ => {}
            }
        }
    }
    notes
}
