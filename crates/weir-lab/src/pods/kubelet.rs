//! Usage of containers whose pod has no agent: CPU, memory, throttling and network. The kubelets of the nodes report
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_kube::{Cluster, KubeError, Kubelet, Page};
use weir_results::words::counted;
use weir_rig::mono_ns;
use weir_rig::prometheus::{Account, ContainerOf, PageClock, Pages, Readings, Span};

use super::{PodError, PodUsage, WatchedContainer};
use crate::cell::remote::{Observed, SCRAPES_WANTED, sentence};

/// Timeout of one request to a kubelet.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two requests to the same kubelet, seconds.
const READ_EVERY_S: f64 = 1.0;
/// How often a waiting thread checks whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Assumed interval at which a kubelet samples a container, until two samples show the real interval.
const INTERVAL: Duration = Duration::from_secs(15);
/// Maximum wait for the first samples after a phase.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// How long readings of a node's clock are kept, nanoseconds.
const CLOCK_KEPT_NS: u64 = 300_000_000_000;
/// Assumed maximum drift between two clocks, seconds per second. Common oscillators drift at most this much if a time
/// daemon runs.
const DRIFT: f64 = 1e-4;

/// Requests samples from kubelets regularly, until it is dropped.
#[derive(Debug)]
pub(crate) struct KubeletWatch {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the kubelets have reported so far.
#[derive(Debug)]
struct State {
    /// The samples of each part's containers, by name of the part.
    pages: BTreeMap<String, Pages>,
    /// One entry per node with a container.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    clock: NodeClock,
    /// The error of the last request to the kubelet; `None` if the request succeeded.
    failure: Option<String>,
}

/// Bounds of a node's clock, from the `Date` headers of its kubelet.
///
/// A kubelet writes its time, rounded down to a second, into the headers of a response. It does so between request and
/// response, so one response bounds how far the clock is ahead of this host's monotonic clock:
///
/// ```text
/// date - answered  <  ahead  <  date + 1 s - asked
/// ```
///
/// A single response leaves an uncertainty of more than a second, but the true value of `ahead` is within the bounds of
/// all responses. weir assumes that `ahead` is in the middle of the remaining range. It times the next request so that
/// the kubelet writes its time just when a new second begins on the node. So each response halves the range, until the
/// range is as short as a response takes.
#[derive(Debug)]
struct NodeClock {
    /// The bounds from each recent response, newest first. Never empty.
    seen: VecDeque<Bounds>,
}

/// How far the node's clock is ahead of this host's monotonic clock, seconds: lower and upper bound from one response.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    min_s: f64,
    max_s: f64,
    /// When the response arrived, by this host's monotonic clock, nanoseconds.
    at_ns: u64,
}

impl KubeletWatch {
    /// Requests samples from the kubelet of each node once, then every second on a thread per node. Needs the
    /// permission `get nodes/metrics`.
    ///
    /// # Errors
    /// [`PodError`] if a kubelet does not respond, or the permission is missing.
    pub(crate) fn start(cluster: &Arc<Cluster>, containers: &[WatchedContainer]) -> Result<Self, PodError> {
        let mut addresses: Vec<IpAddr> = containers.iter().map(|container| container.node).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut of_parts: BTreeMap<String, Vec<ContainerOf>> = BTreeMap::new();
        for watched in containers {
            let WatchedContainer { part, namespace, pod, container, .. } = watched.clone();
            of_parts.entry(part).or_default().push(ContainerOf { namespace, pod, container });
        }
        let pages = of_parts.into_iter().map(|(part, containers)| (part, Pages::new(containers))).collect();
        let (mut state, mut kubelets) = (State { pages, nodes: Vec::new() }, Vec::new());
        for address in addresses {
            let kubelet = cluster.kubelet(address).map_err(|error| unreadable(&error))?;
            let page = kubelet.cadvisor(PAGE_TIMEOUT).map_err(|error| unreadable(&error))?;
            let Some(bounds) = Bounds::of(&page) else {
                let message =
                    format!("the response of the kubelet at {} has no `Date` header", kubelet.address());
                return Err(PodError::new("kubelet", message, "check that no proxy removes the header"));
            };
            state.nodes.push(Node { clock: NodeClock::new(bounds), failure: None });
            state.add(state.nodes.len() - 1, &page);
            kubelets.push(kubelet);
        }
        let mut watch =
            Self { state: Arc::new(Mutex::new(state)), stop: Arc::default(), threads: Vec::new() };
        for (node, kubelet) in kubelets.into_iter().enumerate() {
            let (state, stop) = (Arc::clone(&watch.state), Arc::clone(&watch.stop));
            let thread = thread::Builder::new().name("kubelet".into());
            let thread = thread.spawn(move || follow(&kubelet, node, &state, &stop)).map_err(|error| {
                PodError::new(
                    "kubelet",
                    format!("cannot start a thread: {error}"),
                    "raise the limit on the number of processes and threads",
                )
            })?;
            watch.threads.push(thread);
        }
        Ok(watch)
    }

    /// Waits until the containers of `part` were sampled after the end of the phase `span`. Waits at most two sample
    /// intervals and a second. Returns the usage of the containers in the phase.
    pub(crate) fn observe(
        &self,
        part: &str,
        span: &Span,
        limit_cpus: Option<f64>,
        stop: &AtomicBool,
    ) -> Observed {
        let begun = Instant::now();
        loop {
            let state = locked(&self.state);
            let Some(pages) = state.pages.get(part) else {
                let said = unknown(part, "none of its containers is sampled");
                return Observed { readings: None, report: None, said };
            };
            let interval = pages.interval_s().map_or(INTERVAL, Duration::from_secs_f64);
            let patience = (interval * 2 + Duration::from_secs(1)).min(WAIT_MAX);
            let is_done = pages.reaches(span, &state.clocks());
            if is_done || begun.elapsed() >= patience || stop.load(Ordering::Relaxed) {
                return state.observed(part, pages, span, limit_cpus);
            }
            drop(state);
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl PodUsage for KubeletWatch {
    fn observe(
        &self,
        part: &str,
        span: &Span,
        limit_cpus: Option<f64>,
        stop: &AtomicBool,
    ) -> (Option<Box<Readings>>, String) {
        let Observed { readings, said, .. } = Self::observe(self, part, span, limit_cpus, stop);
        (readings, said)
    }
}

impl Drop for KubeletWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Requests samples from a kubelet every second. A failed request is not an error, because kubelets repeat their last
/// samples in the next response.
fn follow(kubelet: &Kubelet, node: usize, state: &Mutex<State>, stop: &AtomicBool) {
    loop {
        let next_ns = locked(state).nodes[node].clock.next_ns(mono_ns());
        while let Some(left_ns) = next_ns.checked_sub(mono_ns()).filter(|left_ns| *left_ns > 0) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_nanos(left_ns).min(LOOK_EVERY));
        }
        let page = kubelet.cadvisor(PAGE_TIMEOUT);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut state = locked(state);
        match page {
            Ok(page) => state.add(node, &page),
            Err(error) => state.nodes[node].failure = Some(error.to_string()),
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn add(&mut self, node: usize, page: &Page) {
        for pages in self.pages.values_mut() {
            pages.add(node, &page.text);
        }
        let node = &mut self.nodes[node];
        node.failure = None;
        if let Some(bounds) = Bounds::of(page) {
            node.clock.add(bounds);
        }
    }

    fn clocks(&self) -> Vec<PageClock> {
        let now_ns = mono_ns();
        self.nodes.iter().map(|node| node.clock.at(now_ns)).collect()
    }

    fn observed(&self, part: &str, pages: &Pages, span: &Span, limit_cpus: Option<f64>) -> Observed {
        let readings = pages.read(span, &self.clocks(), limit_cpus);
        let said = match (&readings.usage, &readings.account) {
            (Err(why), _) => {
                let short = too_short(span, pages.interval_s()).unwrap_or_default();
                let failures = self.nodes.iter().filter_map(|node| node.failure.as_deref());
                let failures: String = failures.map(|failure| format!("; {failure}")).collect();
                unknown(part, &format!("{why}{short}{failures}"))
            }
            (Ok(_), Some(account)) => words(part, account, pages.whole_pods()),
            (Ok(_), None) => format!("the CPU time of {part} was read from the kubelet"),
        };
        Observed { readings: Some(Box::new(readings)), report: None, said }
    }
}

fn unknown(part: &str, why: &str) -> String {
    format!("the CPU of {part} is unknown: {why}")
}

/// Describes the source and precision of the CPU time of a part. If a kubelet does not recognize its container runtime,
/// it reports no values per container, only totals of pods. `whole_pods` is the number of series with such totals.
fn words(part: &str, account: &Account, whole_pods: usize) -> String {
    let (series, whole_pods) = (account.series as u64, whole_pods as u64);
    let containers = counted(series.saturating_sub(whole_pods), "container");
    let pods = counted(whole_pods, "whole pod");
    let what = match whole_pods {
        0 => containers,
        _ if whole_pods >= series => pods,
        _ => format!("{containers} and {pods}"),
    };
    let samples = counted(account.scrapes as u64, "sample");
    sentence(part, &format!("{what}, reported by the kubelet"), &samples, account)
}

/// The remedy if the phase is too short for the sample interval of the kubelet; `None` if it is long enough.
fn too_short(span: &Span, interval_s: Option<f64>) -> Option<String> {
    let needed_s = (interval_s? * SCRAPES_WANTED).ceil();
    let phase_s = span.to_ns.saturating_sub(span.from_ns) as f64 / 1e9;
    (phase_s < needed_s).then(|| format!("; use a `duration` of at least {needed_s:.0} s"))
}

fn unreadable(error: &KubeError) -> PodError {
    if error.is_forbidden() {
        let message = format!("{error}; the permission `get nodes/metrics` is missing");
        let remedy = "grant `get` of `nodes/metrics` to the user or service account in the error, with a ClusterRole and \
                      a ClusterRoleBinding";
        return PodError::new("kubelet", message, remedy);
    }
    PodError::new(
        "kubelet",
        error.to_string(),
        "check that port 10250 of the node is reachable from this host",
    )
}

impl NodeClock {
    fn new(bounds: Bounds) -> Self {
        Self { seen: [bounds].into() }
    }

    fn add(&mut self, bounds: Bounds) {
        self.seen.push_front(bounds);
        let is_old = |of: &Bounds| bounds.at_ns.saturating_sub(of.at_ns) > CLOCK_KEPT_NS;
        while self.seen.back().is_some_and(is_old) {
            self.seen.pop_back();
        }
    }

    /// Returns how far the node's clock is ahead of this host's monotonic clock at `now_ns`, from the bounds of all
    /// recent responses. Bounds widen with age, by the maximum drift. If older bounds contradict newer bounds, someone
    /// has set the node's clock. Then the newer bounds apply, and the contradiction adds uncertainty.
    fn at(&self, now_ns: u64) -> PageClock {
        let (mut min_s, mut max_s, mut moved_s) = (f64::NEG_INFINITY, f64::INFINITY, 0.0_f64);
        for bounds in &self.seen {
            let drift_s = now_ns.saturating_sub(bounds.at_ns) as f64 / 1e9 * DRIFT;
            let (low_s, high_s) = (min_s.max(bounds.min_s - drift_s), max_s.min(bounds.max_s + drift_s));
            match low_s <= high_s {
                true => (min_s, max_s) = (low_s, high_s),
                false => moved_s = moved_s.max(low_s - high_s),
            }
        }
        PageClock { ahead_s: f64::midpoint(min_s, max_s), uncertain_s: (max_s - min_s) / 2.0 + moved_s }
    }

    /// The time of the next request, by this host's monotonic clock in nanoseconds: about a second after `now_ns`. The
    /// aim is that the kubelet writes its `Date` header when a second of the node's clock begins.
    fn next_ns(&self, now_ns: u64) -> u64 {
        let ahead_s = self.at(now_ns).ahead_s;
        // Estimated time from sending the request until the kubelet writes its `Date` header: half of the duration of
        // the last response.
        let half_s = self.seen.front().map_or(0.0, |last| (last.max_s - last.min_s - 1.0) / 2.0);
        let next_s = (now_ns as f64 / 1e9 + READ_EVERY_S + half_s + ahead_s).round() - ahead_s - half_s;
        now_ns.max((next_s * 1e9) as u64)
    }
}

impl Bounds {
    /// The bounds of the clock offset from one response; `None` if the response has no `Date` header.
    fn of(page: &Page) -> Option<Self> {
        let (now, now_ns) = (Instant::now(), mono_ns());
        let ns = |at: Instant| now_ns.saturating_sub(now.duration_since(at).as_nanos() as u64);
        Some(Self::new(page.date?, ns(page.asked), ns(page.answered)))
    }

    fn new(date: SystemTime, asked_ns: u64, answered_ns: u64) -> Self {
        let date_s = date.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self {
            min_s: date_s - answered_ns as f64 / 1e9,
            max_s: date_s + 1.0 - asked_ns as f64 / 1e9,
            at_ns: answered_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_rig::prometheus::WallClock;

    use super::*;

    const AHEAD_S: f64 = 1_795_000_000.372_1;
    const SECOND_NS: u64 = 1_000_000_000;

    /// The bounds of the clock offset from one response. The response takes `took_s`, and the kubelet writes its `Date`
    /// header after 90 % of this time.
    fn response(asked_ns: u64, took_s: f64, ahead_s: f64) -> Bounds {
        let answered_ns = asked_ns + (took_s * 1e9) as u64;
        let theirs_s = (asked_ns as f64 / 1e9 + took_s * 0.9 + ahead_s).floor();
        Bounds::new(UNIX_EPOCH + Duration::from_secs(theirs_s as u64), asked_ns, answered_ns)
    }

    /// Simulates `pages` requests, each at its scheduled time. Returns the resulting clock and the time of the last
    /// request. For a given time, `ahead_s` returns how far the node's clock is ahead.
    fn watched(pages: u32, ahead_s: impl Fn(u64) -> f64) -> (NodeClock, u64) {
        let mut now_ns = 7 * SECOND_NS;
        let mut clock = NodeClock::new(response(now_ns, 0.2, ahead_s(now_ns)));
        for page in 1..pages {
            let next_ns = clock.next_ns(now_ns);
            assert!((0.4e9..1.6e9).contains(&((next_ns - now_ns) as f64)), "{now_ns} to {next_ns}");
            now_ns = next_ns;
            clock.add(response(now_ns, [0.03, 0.02, 0.04][page as usize % 3], ahead_s(now_ns)));
        }
        (clock, now_ns)
    }

    #[test]
    fn the_clock_of_a_node_converges_to_the_length_of_a_response() {
        for (pages, at_most_s) in [(1, 0.61), (2, 0.4), (5, 0.08), (8, 0.025), (600, 0.025)] {
            let (clock, now_ns) = watched(pages, |_| AHEAD_S);
            let PageClock { ahead_s, uncertain_s } = clock.at(now_ns);
            assert!(uncertain_s <= at_most_s, "{uncertain_s} after {pages} pages");
            assert!((ahead_s - AHEAD_S).abs() <= uncertain_s, "{ahead_s} after {pages} pages");
            assert!(clock.seen.len() <= 310, "{pages} pages");
        }
    }

    #[test]
    fn a_clock_that_drifts_or_is_set_is_followed() {
        let drifting = |now_ns: u64| AHEAD_S + now_ns as f64 / 1e9 * 5e-5;
        let (clock, now_ns) = watched(600, drifting);
        let found = clock.at(now_ns);
        assert!((found.ahead_s - drifting(now_ns)).abs() <= found.uncertain_s, "{found:?}");
        assert!(found.uncertain_s < 0.03, "{found:?}");
        let set = |now_ns: u64| if now_ns < 100 * SECOND_NS { AHEAD_S } else { AHEAD_S - 5.0 };
        let (clock, now_ns) = watched(120, set);
        let found = clock.at(now_ns);
        assert!((found.ahead_s - set(now_ns)).abs() < 0.03 && found.uncertain_s > 4.9, "{found:?}");
        let (clock, now_ns) = watched(500, set);
        assert!(clock.at(now_ns).uncertain_s < 0.03, "all kept readings are newer than the clock change");
    }

    /// Returns a [`KubeletWatch`] with samples of one container that uses half a core. There is one sample every ten
    /// seconds, from 90 s to `to_s` of the monotonic clock.
    fn watch(to_s: u32, labels: &str) -> KubeletWatch {
        let container =
            ContainerOf { namespace: "n".into(), pod: "envoy-a".into(), container: "envoy".into() };
        let mut pages = Pages::new([container]);
        for at_s in (90..=to_s).step_by(10) {
            let (cpu_s, at_ms) = (f64::from(at_s) / 2.0, 1_000_000_000 + u64::from(at_s) * 1000);
            let labels = format!("cpu=\"total\",id=\"/a\",namespace=\"n\",pod=\"envoy-a\",{labels}");
            pages.add(0, &format!("container_cpu_usage_seconds_total{{{labels}}} {cpu_s} {at_ms}\n"));
        }
        let bounds = Bounds { min_s: 1_000_000.0 - 0.012, max_s: 1_000_000.0 + 0.012, at_ns: u64::MAX };
        let node = Node { clock: NodeClock::new(bounds), failure: Some("no page".into()) };
        let state = State { pages: [("envoy".to_owned(), pages)].into(), nodes: vec![node] };
        KubeletWatch { state: Arc::new(Mutex::new(state)), stop: Arc::default(), threads: Vec::new() }
    }

    fn check(to_s: u32, labels: &str, expected: &str) {
        let at = |s: u64| s * SECOND_NS;
        let span = Span { from_ns: at(101), to_ns: at(161), clock_before: WallClock::now() };
        // The run counts as stopped, so `observe` does not wait for more samples.
        let observed = watch(to_s, labels).observe("envoy", &span, Some(2.0), &AtomicBool::new(true));
        assert_eq!(observed.said, expected);
        assert_eq!(
            observed.readings.is_some_and(|readings| readings.usage.is_ok()),
            expected.contains("30.000 s")
        );
    }

    #[test]
    fn the_source_of_the_cpu_time_is_named() {
        let from = |source: &str| {
            format!(
                "envoy used 30.000 s of CPU in the phase, from {source}, reported by the kubelet. The bounds are \
                 25.000 to 35.000 s, because samples do not match the phase's borders. The value is uncertain by 0 %, \
                 with 6 samples in the phase, one every 10.0 s; the clock is uncertain by 12.0 ms"
            )
        };
        check(170, "name=\"b\",container=\"envoy\"", &from("1 container"));
        check(170, "container=\"\"", &from("1 whole pod"));
        check(
            90,
            "container=\"envoy\"",
            "the CPU of envoy is unknown: no sample of pod n/envoy-a (container envoy) since the phase began; no page",
        );
        check(
            120,
            "container=\"envoy\"",
            "the CPU of envoy is unknown: {container=\"envoy\",namespace=\"n\",pod=\"envoy-a\"}: the phase has 2 scrapes, \
             but weir needs at least 3 (scrape interval 10.0 s); no page",
        );
    }

    #[test]
    fn a_phase_that_is_too_short_reports_the_needed_duration() {
        let span =
            |s: u64| Span { from_ns: SECOND_NS, to_ns: (1 + s) * SECOND_NS, clock_before: WallClock::now() };
        let remedy = too_short(&span(20), Some(10.2)).expect("it is too short");
        assert_eq!(remedy, "; use a `duration` of at least 41 s");
        assert_eq!((too_short(&span(41), Some(10.2)), too_short(&span(1), None)), (None, None));
    }

    #[test]
    fn a_missing_permission_is_named() {
        let refused = |status| KubeError::Refused { what: "cannot read".into(), why: "no".into(), status };
        let error = unreadable(&refused(Some(403)));
        assert_eq!(error.message, "cannot read: no; the permission `get nodes/metrics` is missing");
        assert!(error.remedy.starts_with("grant `get` of `nodes/metrics`"), "{}", error.remedy);
        assert!(unreadable(&refused(None)).remedy.contains("port 10250"));
    }
}
