//! Examines this host: its gateways, CPU and memory limits, network namespaces, containers and background load.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_results::{HostBounds, HostProcess, HostShare, Manifest, Thresholds};
use weir_rig::{Binary, CgroupVersion, Driver, Drivers, Engines, Rig, RigError, Service};

use super::advice;
use super::precision::Precision;

/// How long the CPU use of other processes is measured.
const WATCH: Duration = Duration::from_secs(1);

/// What an examination of this host has found.
#[derive(Debug, Serialize)]
pub(super) struct Examination {
    pub(super) gateways: Vec<Gateway>,
    /// The programs of services that gateways may need.
    pub(super) services: Vec<Gateway>,
    pub(super) host: Manifest,
    pub(super) limits: Limits,
    pub(super) namespaces: Namespaces,
    pub(super) containers: Containers,
    /// Timer slack of this process in nanoseconds. The workers of weir set their own to 1.
    pub(super) timer_slack_ns: Option<u64>,
    /// CPU use of other processes during `WATCH`, as shares of the host's CPU time.
    pub(super) disturbance: Option<HostShare>,
    /// The largest CPU limit with which the gateway is saturated before the load generator is.
    pub(super) data_cpus_max: f64,
    /// The processes that used the most CPU time while weir measured `disturbance`.
    pub(super) busiest: Vec<HostProcess>,
    /// The smallest differences that a comparison can detect on this host; `None` if they were not measured.
    pub(super) precision: Option<Precision>,
    /// The limits of this host for measurements, measured now or earlier; `None` if they are unknown.
    pub(super) bounds: Option<HostBounds>,
    /// Advice for the user, as sentences.
    pub(super) advice: Vec<String>,
}

/// A driver or a service, and its program on this host.
#[derive(Debug, Serialize)]
pub(super) struct Gateway {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) binary: Option<PathBuf>,
    pub(super) version: Option<String>,
    pub(super) sha256: Option<String>,
    /// Why the program cannot run, and what to do; `None` if it can.
    pub(super) problem: Option<String>,
}

/// Which limits weir can apply to processes on this host.
#[derive(Debug, Serialize)]
pub(super) struct Limits {
    /// Version of control groups: `v1`, `v2` or `none`.
    pub(super) cgroup: &'static str,
    /// The command that tests the limits with this version of control groups; `None` without control groups.
    pub(super) tested_by: Option<&'static str>,
    /// Whether limits can be fractions of a CPU.
    pub(super) cpu_shares: bool,
    /// Whether limits can be whole CPUs. This is always possible: without control groups, weir pins processes to CPUs.
    pub(super) whole_cpus: bool,
    /// Whether memory can be limited.
    pub(super) memory: bool,
    /// Why control groups cannot be used; `None` if they can.
    pub(super) why_not: Option<String>,
}

/// Whether the parts of a run can have their own network namespaces.
#[derive(Debug, Serialize)]
pub(super) struct Namespaces {
    /// Whether two namespaces could be created and connected.
    pub(super) usable: bool,
    /// Why namespaces cannot be used; `None` if they can.
    pub(super) why_not: Option<String>,
}

/// Whether missing programs can run in containers (`weir run --images`).
#[derive(Debug, Serialize)]
pub(super) struct Containers {
    /// The container engine that weir would use, with its version; `None` if there is none.
    pub(super) engine: Option<String>,
    /// Why no container engine can be used; `None` if there is one.
    pub(super) why_not: Option<String>,
}

impl Examination {
    pub(super) fn of_this_host(drivers: &Drivers) -> Self {
        // Gateways that run only in a cluster have no program on this host.
        let named = drivers.names().into_iter().filter_map(|name| drivers.driver(name).ok());
        let gateways = named.filter(|driver| driver.kubernetes().is_none()).map(gateway).collect();
        let mut host = Rig::host_facts();
        let limits = limits(weir_rig::try_limits());
        host.cgroup = Some(limits.cgroup.to_owned());
        let cpus = host.cpus.unwrap_or(1);
        let (disturbance, busiest) = weir_rig::disturbance(WATCH).unzip();
        let busiest = busiest.unwrap_or_default();
        Self {
            gateways,
            services: drivers.services().flat_map(service).collect(),
            limits,
            namespaces: namespaces(weir_rig::try_namespaces()),
            containers: containers(),
            timer_slack_ns: fs::read_to_string("/proc/self/timerslack_ns")
                .ok()
                .and_then(|ns| ns.trim().parse().ok()),
            disturbance,
            busiest,
            precision: None,
            data_cpus_max: advice::data_cpus_max(cpus),
            host,
            bounds: None,
            advice: Vec::new(),
        }
    }

    /// The name of a gateway that can run on this host: weir's own if possible, otherwise the first one.
    pub(super) fn found(&self) -> Option<&str> {
        let mut found =
            self.gateways.iter().filter(|gateway| gateway.problem.is_none() && gateway.binary.is_some());
        let own = found.clone().find(|gateway| gateway.name == "weir");
        own.or_else(|| found.next()).map(|gateway| gateway.name.as_str())
    }

    /// Adds advice for the user to the examination.
    pub(super) fn advise(&mut self) {
        self.advice = advice::sentences(self, &Thresholds::default());
    }

    /// The results for people, as pairs of name and value.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let unknown = || "unknown".to_owned();
        let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
        let host = &self.host;
        let memory = host.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64));
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let quiet = self.disturbance.map(|share| {
            format!(
                "other processes {}, steal {}, idle {}",
                percent(share.others),
                percent(share.steal),
                percent(share.idle)
            )
        });
        let limits = match self.limits.tested_by {
            None => "CPU affinity, for whole CPUs only; no memory limits".to_owned(),
            Some(tests) => {
                format!("cgroup {}, for CPU and memory (tested by `{tests}`)", self.limits.cgroup)
            }
        };
        vec![
            ("kernel", text(&host.kernel)),
            ("system", text(&host.os)),
            ("CPU", text(&host.cpu_model)),
            ("usable cores", host.cpus.map_or_else(unknown, |cpus| cpus.to_string())),
            ("governor", text(&host.cpu_governor)),
            (
                "virtual machine",
                host.virtualized.map_or_else(unknown, |yes| if yes { "yes" } else { "no" }.to_owned()),
            ),
            ("memory", memory.unwrap_or_else(unknown)),
            ("clock source", text(&host.clock_source)),
            ("timer slack", self.timer_slack_ns.map_or_else(unknown, |ns| format!("{ns} ns"))),
            ("open files", host.open_files_max.map_or_else(|| "unlimited".into(), |files| files.to_string())),
            ("limits", limits),
            ("network", self.network()),
            ("containers", self.containers.words()),
            ("CPU in the last second", quiet.unwrap_or_else(unknown)),
            ("highest open-loop rate", self.ceiling()),
            ("latency floor", self.floor()),
        ]
    }

    fn network(&self) -> String {
        match &self.namespaces.why_not {
            None => "loopback, or a network namespace per run".into(),
            Some(why) => format!("loopback only: {why}"),
        }
    }

    fn ceiling(&self) -> String {
        match self.bounds.as_ref().map(|bounds| bounds.ceiling) {
            None => "not measured yet".into(),
            Some(None) => "none: requests were late at every tested rate".into(),
            Some(Some(ceiling)) => format!(
                "{:.0}/s with {}, p99 of the lateness {:.0} µs",
                ceiling.rate_per_s,
                weir_results::words::counted(ceiling.workers.into(), "worker"),
                ceiling.lateness_p99_ns as f64 / 1e3
            ),
        }
    }

    fn floor(&self) -> String {
        let floor = |bounds: &HostBounds| Some((bounds.floor_min_ns?, bounds.floor_p50_ns?));
        match self.bounds.as_ref().and_then(floor) {
            None => "not measured yet".into(),
            Some((min, p50)) => format!("min {:.1} µs, median {:.1} µs", min as f64 / 1e3, p50 as f64 / 1e3),
        }
    }
}

fn gateway(driver: &Driver) -> Gateway {
    with_binary(driver.name(), &driver.file().about, driver.locate(None).map(Some))
}

/// The programs of a service. If there are several, each entry is named after the service and the program.
fn service(service: &Service) -> Vec<Gateway> {
    let found = service.locate_each();
    let is_one = found.len() == 1;
    let name = |binary: &str| {
        if is_one { service.name().to_owned() } else { format!("{}: {binary}", service.name()) }
    };
    found
        .into_iter()
        .map(|(binary, found)| with_binary(&name(&binary), &service.file().about, found.map(Some)))
        .collect()
}

fn with_binary(name: &str, about: &str, found: Result<Option<Binary>, RigError>) -> Gateway {
    let problem = found.as_ref().err().map(|error| format!("{error}; {}", error.remedy()));
    let binary = found.ok().flatten();
    Gateway {
        name: name.to_owned(),
        about: about.to_owned(),
        version: binary.as_ref().map(|binary| binary.version.clone()),
        sha256: binary.as_ref().map(|binary| binary.sha256.clone()),
        binary: binary.map(|binary| binary.path),
        problem,
    }
}

fn namespaces(tried: Result<(), String>) -> Namespaces {
    Namespaces { usable: tried.is_ok(), why_not: tried.err() }
}

fn containers() -> Containers {
    let engines = Engines::default();
    let found = engines.find();
    Containers { engine: found.ok().map(ToString::to_string), why_not: found.err().map(str::to_owned) }
}

impl Containers {
    fn words(&self) -> String {
        match (&self.engine, &self.why_not) {
            (Some(engine), _) => {
                format!("{engine} (`weir run --images` runs gateways in it that are not installed here)")
            }
            (None, why) => format!("none: {}", why.as_deref().unwrap_or("no engine responds")),
        }
    }
}

fn limits(tried: Result<CgroupVersion, String>) -> Limits {
    let can = tried.is_ok();
    Limits {
        cgroup: tried.as_ref().map_or("none", |version| version.name()),
        tested_by: tried.as_ref().ok().map(|version| version.tested_by()),
        cpu_shares: can,
        whole_cpus: true,
        memory: can,
        why_not: tried.err(),
    }
}
