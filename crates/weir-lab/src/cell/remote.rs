//! Remote gateways: checks that they respond, and reads their usage from Prometheus.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use weir_agent::SampleReport;
use weir_analysis::quantity;
use weir_document::{Problem, Time};
use weir_engine::TlsSpec;
use weir_results::{ArrivalModel, Part, Role, Usage, UsageSecond};
use weir_rig::RigError;
use weir_rig::prometheus::{Account, Known, Prometheus, Reading, Readings, Span};

use super::error::{CellError, failed};
use crate::LabError;
use crate::progress::Observer;
use crate::scenario::setting::{Setting, requests, setting};
use crate::scenario::{Gateway, Load, Popularity, Scenario, Url};

/// Time-out of the request that checks whether a gateway responds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Minimum length of a phase, in scrape intervals, so that the phase contains enough scrapes.
pub(crate) const SCRAPES_WANTED: f64 = 4.0;
/// Shortest pause between two reads of a Prometheus.
const LOOK_MIN: Duration = Duration::from_millis(50);
/// Longest pause between two reads of a Prometheus.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The longest wait for the scrape that follows a phase.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A server that gets load and that weir does not start: a remote gateway, or its upstream.
#[derive(Clone, Debug)]
pub(crate) struct RemoteTarget {
    url: Url,
    /// The server name that the server's certificate must contain.
    name: String,
    /// The value of the Host header.
    authority: String,
    tls: Option<TlsSpec>,
}

/// A remote gateway, as found before the first cell.
#[derive(Debug)]
pub(crate) struct RemoteGateway<'a> {
    /// The gateway's entry in the manifest of cells.
    pub(crate) part: Part,
    /// How the gateway differs from gateways that weir starts: sentences for the report.
    pub(crate) unequal: Vec<String>,
    prometheus: Option<&'a Prometheus>,
}

/// Usage of a part during a load, as reported by Prometheus, kubelets or an agent.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) readings: Option<Box<Readings>>,
    /// The samples of an agent; `None` if the usage has another source.
    pub(crate) report: Option<Box<SampleReport>>,
    /// A sentence with the source of the values, or the reason if there are none.
    pub(crate) said: String,
}

impl RemoteTarget {
    /// The target at the URL of `gateway`; `None` if the gateway has no URL.
    pub(crate) fn of(gateway: &Gateway) -> Option<Self> {
        let remote = &gateway.remote;
        let url = remote.url.clone()?;
        let authority = remote.host.clone().unwrap_or_else(|| url.authority().to_owned());
        let name = match &remote.host {
            Some(host) => host.split(':').next().unwrap_or_default().to_owned(),
            None => url.host.clone(),
        };
        let tls = url.is_secure.then(|| remote.tls.clone().unwrap_or_default());
        Some(Self { url, name, authority, tls })
    }

    /// The upstream of the gateways, as the target of direct cells; `None` if its URL is not set.
    pub(crate) fn direct(scenario: &Scenario) -> Option<Self> {
        let gateway = scenario.gateways.first()?;
        let through = Self::of(gateway)?;
        let url = gateway.remote.direct.clone()?;
        // The server name in the upstream's certificate differs from the one in the gateway's certificate, so the
        // gateway's `sni` does not apply.
        let tls = gateway.remote.tls.clone().map(|tls| TlsSpec { sni: None, ..tls });
        let tls = url.is_secure.then(|| tls.unwrap_or_default());
        Some(Self { name: url.host.clone(), url, authority: through.authority, tls })
    }

    /// `load` with the TLS settings of this target.
    pub(crate) fn load(&self, load: &Load) -> Load {
        Load { tls: self.tls.clone(), ..load.clone() }
    }

    /// The setting of a load that is sent to this target: addresses, requests, phase lengths and seed.
    pub(crate) fn setting(
        &self,
        scenario: &Scenario,
        popularity: Option<Popularity>,
        direct: bool,
        seed: u64,
    ) -> Setting {
        let hosts = match scenario.topology.domains {
            1 => vec![self.authority.clone()],
            _ => scenario.topology.hosts(),
        };
        let requests = requests(scenario, &hosts, popularity, direct);
        let mut setting = setting(scenario, &[], requests, direct, seed);
        setting.spec.connect = self.url.connect();
        setting.spec.host.clone_from(&self.name);
        setting.authority = hosts.into_iter().next().unwrap_or_default();
        setting
    }

    /// Sends one request for the first host and path of the topology; returns the status, or why there is none.
    pub(crate) fn ask(&self, scenario: &Scenario, direct: bool) -> Result<String, String> {
        self.connect()?;
        let first = scenario.loads.iter().next();
        let load = Load {
            model: ArrivalModel::Closed,
            connections: weir_document::Levels::Constant(1),
            requests: Some(1),
            protocol: first.and_then(|(_, load)| load.protocol),
            ..Load::default()
        };
        let mut setting = self.setting(scenario, None, direct, 0);
        setting.spec.requests.truncate(1);
        let timeout = scenario.timeout.0.min(ANSWERS_WITHIN);
        (setting.spec.workers, setting.spec.warmup_ns, setting.spec.timeout_ns) =
            (1, 0, Time(timeout).as_ns());
        let spec = self.load(&load).spec(setting).map_err(|error| error.message)?;
        let stop = &AtomicBool::new(false);
        let record = thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            // The load engine retries refused connections until it is stopped.
            scope.spawn(move || {
                if ended.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
                    stop.store(true, Ordering::Release);
                }
            });
            let record = weir_engine::run(&spec, &(), stop);
            drop(done);
            record
        });
        let result = record.map_err(|error| error.to_string())?.result;
        if let Some(status) = result.status.keys().next() {
            return Ok(status.clone());
        }
        let said: Vec<&str> = result.said.keys().map(String::as_str).collect();
        match said.is_empty() {
            true => Err(format!("no complete response within {timeout:?}")),
            false => Err(said.join("; ")),
        }
    }

    /// Checks that the target accepts connections.
    fn connect(&self) -> Result<(), String> {
        let place = self.url.connect();
        let addresses = place.to_socket_addrs().map_err(|error| format!("{place}: {error}"))?;
        let mut last = format!("{place}: the name does not resolve");
        for address in addresses {
            match TcpStream::connect_timeout(&address, ANSWERS_WITHIN) {
                Ok(_) => return Ok(()),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(last)
    }

    /// Fails the cell if the target does not respond.
    pub(crate) fn require(&self, scenario: &Scenario, direct: bool) -> Result<(), CellError> {
        let silent = |said: String| failed("never-ready", &self.silence(&said), SILENT, "");
        self.ask(scenario, direct).map(drop).map_err(silent)
    }

    fn silence(&self, said: &str) -> String {
        format!("no response from {}: {said}", self.url)
    }
}

const SILENT: &str = "start the server, or correct its URL; for a private CA, set `tls: { ca: FILE }`";

/// Checks every remote gateway and every Prometheus before the first cell. An error then ends the run before it is
/// stored, instead of failing every cell.
pub(crate) fn meet<'a>(
    scenario: &Scenario,
    prometheus: &'a BTreeMap<String, Prometheus>,
    observer: &dyn Observer,
) -> Result<BTreeMap<String, RemoteGateway<'a>>, LabError> {
    let scenario = &scenario.clone().expanded();
    let mut met = BTreeMap::new();
    for gateway in scenario.gateways.iter().filter(|gateway| gateway.is_remote()) {
        let Some(remote_target) = RemoteTarget::of(gateway) else { continue };
        answers(&remote_target, scenario, false)?;
        let prometheus = prometheus.get(&gateway.name);
        let known = prometheus.map(Prometheus::probe).transpose()?;
        for note in notes(gateway, scenario, prometheus.zip(known.as_ref())) {
            observer.note(&note);
        }
        let is_known = prometheus.is_some() || gateway.remote.sampler.is_some();
        let unequal = unequal(scenario, &remote_target, is_known);
        met.insert(
            gateway.name.clone(),
            RemoteGateway { part: part(gateway, &remote_target, known), unequal, prometheus },
        );
    }
    if let Some(direct) = RemoteTarget::direct(scenario) {
        answers(&direct, scenario, true)?;
    }
    Ok(met)
}

fn answers(remote_target: &RemoteTarget, scenario: &Scenario, direct: bool) -> Result<(), LabError> {
    remote_target.ask(scenario, direct).map(drop).map_err(|said| {
        LabError::Host(
            Problem::of(remote_target.url.to_string(), format!("no response: {said}")).help(SILENT),
        )
    })
}

fn part(gateway: &Gateway, remote_target: &RemoteTarget, known: Option<Known>) -> Part {
    let given = gateway.remote.limits.unwrap_or_default();
    let limit_cpus = given.cpus.or(known.and_then(|known| known.limit_cpus));
    let told_bytes = known.and_then(|known| known.limit_memory_bytes);
    let limit_memory_bytes = given.memory.map(|memory| memory.0).or(told_bytes);
    Part {
        name: gateway.name.clone(),
        role: Role::Data,
        version: "n/a".into(),
        binary: remote_target.url.to_string(),
        binary_sha256: String::new(),
        config_sha256: None,
        command: Vec::new(),
        limit_cpus,
        limit_memory_bytes,
        limits_applied: true,
        limited_by: weir_results::ELSEWHERE.into(),
        image: None,
    }
}

/// Sentences for the report: how the conditions of a remote gateway differ from those of gateways that weir starts.
fn unequal(scenario: &Scenario, remote_target: &RemoteTarget, is_known: bool) -> Vec<String> {
    let mut said = vec![format!(
        "remote gateway at {}: weir does not control its version, configuration, workers, keep-alive and time-outs, \
         and all repeats use the same processes",
        remote_target.url
    )];
    if !scenario.has_direct() {
        said.push(
            "`direct`, the URL of its upstream, is not set: weir cannot compute the added latency".into(),
        );
    }
    if !is_known {
        said.push(
            "neither `prometheus` nor `sampler` is set: the gateway's CPU and memory are unknown".into(),
        );
    }
    said
}

/// One line per URL that gets load, with its loads; printed before any request.
pub(crate) fn destinations(scenario: &Scenario) -> Vec<String> {
    let scenario = &scenario.clone().expanded();
    let loads: Vec<String> = scenario.loads.iter().map(|(name, load)| load_words(name, load)).collect();
    let loads = loads.join(", ");
    let gateways = scenario.gateways.iter().filter(|gateway| gateway.is_remote());
    let sites = gateways.filter_map(|gateway| Some((gateway.name.as_str(), RemoteTarget::of(gateway)?)));
    let direct = RemoteTarget::direct(scenario).map(|remote_target| (weir_results::DIRECT, remote_target));
    let line = |(name, remote_target): (&str, RemoteTarget)| {
        let warning = if remote_target.url.is_loopback() {
            ""
        } else {
            "; send load only to systems that you are allowed to test"
        };
        format!("{name}: loads sent to {}: {loads}{warning}", remote_target.url)
    };
    sites.chain(direct).map(line).collect()
}

/// Describes a load, like `tail (open, 500/s, at most 32 connections)`.
fn load_words(name: &str, load: &Load) -> String {
    let connections = quantity::counted(load.connections.greatest().into(), "connection");
    let arrivals = match (load.model, load.mean_rate_per_s()) {
        (ArrivalModel::Closed, _) => "closed".to_owned(),
        (ArrivalModel::Open, Some(rate)) => format!("open, {}", quantity::rate(rate)),
        (ArrivalModel::Open, None) => "open, rate found by a pilot".to_owned(),
    };
    format!("{name} ({arrivals}, at most {connections})")
}

/// Notes about the metrics of a gateway, printed before any load.
fn notes(gateway: &Gateway, scenario: &Scenario, known: Option<(&Prometheus, &Known)>) -> Vec<String> {
    let name = &gateway.name;
    let mut notes = Vec::new();
    let Some((prometheus, known)) = known else { return notes };
    let every = known.interval_s.map(|interval_s| format!(", scrape interval {interval_s:.1} s"));
    let series = if known.series == 1 { "1 series" } else { &format!("the sum of {} series", known.series) };
    let every = every.unwrap_or_default();
    notes.push(format!("{name}: CPU comes from {series} of {}{every}", prometheus.url()));
    let Some(interval_s) = known.interval_s else { return notes };
    let needed = Duration::from_secs_f64(interval_s * SCRAPES_WANTED);
    for (load, of_load) in scenario.loads.iter() {
        if of_load.sustained(scenario.duration.0).is_some_and(|phase| phase < needed) {
            notes.push(format!(
                "{name}: load `{load}` is too short to measure CPU; use a `duration` of at least {:.0} s",
                needed.as_secs_f64().ceil()
            ));
        }
    }
    notes
}

impl RemoteGateway<'_> {
    /// Waits for the first scrape after the load, then reads all series of the load; `None` without a Prometheus.
    pub(crate) fn observe(&self, span: &Span, stop: &AtomicBool) -> Result<Option<Observed>, CellError> {
        let Some(prometheus) = self.prometheus else { return Ok(None) };
        let begun = Instant::now();
        let mut patience = WAIT_MAX;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            let is_last = begun.elapsed() >= patience;
            match prometheus.read(span, self.part.limit_cpus, is_last) {
                Ok(Reading::Read(readings)) => return Ok(Some(observed(prometheus, readings))),
                Ok(Reading::NotYet(interval_s)) => {
                    let interval = Duration::from_secs_f64(interval_s);
                    patience = (interval * 2 + ANSWERS_WITHIN).min(WAIT_MAX);
                    thread::sleep((interval / 4).clamp(LOOK_MIN, LOOK_MAX));
                }
                Err(error) => {
                    return Ok(Some(Observed { readings: None, report: None, said: unknown(&error) }));
                }
            }
        }
    }
}

fn unknown(error: &RigError) -> String {
    format!("the CPU of the gateway is unknown: {error}")
}

fn observed(prometheus: &Prometheus, readings: Box<Readings>) -> Observed {
    let said = match (&readings.usage, &readings.account) {
        (Err(why), _) => format!("the CPU of the gateway is unknown: {}: {why}", prometheus.url()),
        (Ok(_), Some(account)) => {
            let source = format!("{} series of {}", account.series, prometheus.url());
            let scrapes = quantity::counted(account.scrapes as u64, "scrape");
            sentence("the gateway", &source, &scrapes, account)
        }
        (Ok(_), None) => format!("the CPU of the gateway comes from {}", prometheus.url()),
    };
    Observed { readings: Some(readings), report: None, said }
}

/// A sentence with the CPU time of `part`, its precision and its source. `samples` is the number of samples in words.
pub(crate) fn sentence(part: &str, source: &str, samples: &str, account: &Account) -> String {
    let share =
        |seconds: f64| quantity::percent(if account.cpu_s > 0.0 { seconds / account.cpu_s } else { 0.0 });
    format!(
        "{part} used {:.3} s of CPU in the phase, from {source}. The bounds are {:.3} to {:.3} s, because samples do \
         not match the phase's borders. The value is uncertain by {}, with {samples} in the phase, one every {:.1} s; \
         the clock is uncertain by {}",
        account.cpu_s,
        account.cpu_s_least,
        account.cpu_s_most,
        share(account.cpu_s_uncertain),
        account.interval_s,
        quantity::time_ns(account.clock_uncertain_s * 1e9)
    )
}

impl Observed {
    /// Adds the values of the part `name` to `usage` (sustained phase) and to `seconds` (from `start_ns` to `to_ns` of
    /// the monotonic clock).
    pub(crate) fn add_to(
        &self,
        name: &str,
        usage: &mut BTreeMap<String, Usage>,
        seconds: &mut [UsageSecond],
        start_ns: u64,
        to_ns: u64,
    ) {
        if let Some(report) = &self.report {
            usage.extend(report.usage.clone().map(|used| (name.to_owned(), used)));
            for (second, sampled) in seconds.iter_mut().zip(&report.seconds) {
                second.cpu_cores.extend(sampled.cpu_cores.get(name).map(|cores| (name.to_owned(), *cores)));
                second
                    .memory_bytes
                    .extend(sampled.memory_bytes.get(name).map(|bytes| (name.to_owned(), *bytes)));
            }
        }
        let Some(readings) = &self.readings else { return };
        if let Ok(used) = &readings.usage {
            usage.insert(name.to_owned(), used.clone());
        }
        for second in seconds {
            let from_ns = start_ns + (second.t_s * 1e9) as u64;
            let (cores, memory_bytes) = readings.between(from_ns, (from_ns + 1_000_000_000).min(to_ns));
            second.cpu_cores.extend(cores.map(|cores| (name.to_owned(), cores)));
            second.memory_bytes.extend(memory_bytes.map(|bytes| (name.to_owned(), bytes)));
        }
    }
}
