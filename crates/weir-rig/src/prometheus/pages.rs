//! Computes the resources of containers from the cAdvisor metrics of kubelets, which weir scrapes itself. A *page* is
//! the text of one such HTTP response.
//!
//! A kubelet samples each container every 10 to 20 s, and writes the timestamp of the sample at the end of each line.
//! weir scrapes more often, and drops samples whose timestamp it already has.

use std::collections::{BTreeMap, BTreeSet};

use weir_results::NetworkUsage;

use super::phase::{Phase, Point, Series, total_grown};
use super::readings::Scrapes;
use super::{PAUSE_CONTAINER, Readings, Span};
use crate::driver::MetricLine;

/// Samples older than this are dropped, seconds.
const KEPT_S: f64 = 3600.0;
/// Maximum number of samples per series (one per second for [`KEPT_S`]), which limits memory if timestamps are wrong.
const POINTS_MAX: usize = 3600;
const LOOPBACK: &str = "lo";

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerOf {
    /// The Kubernetes namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The name of the container in the pod.
    pub container: String,
}

/// The clock of a node, compared with this host's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageClock {
    /// The node's clock (seconds since the Unix epoch) minus this host's monotonic clock, seconds.
    pub ahead_s: f64,
    /// The maximum error of `ahead_s`, seconds.
    pub uncertain_s: f64,
}

/// Collects the samples of selected containers from the cAdvisor pages of kubelets.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    containers: BTreeSet<ContainerOf>,
    series: BTreeMap<Key, Series>,
    /// Pods with samples of single containers: namespace and name. If a kubelet cannot identify its container runtime,
    /// it prints only samples of whole pods.
    split: BTreeSet<(String, String)>,
}

/// A metric that weir collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Metric {
    Cpu,
    CpuUser,
    CpuSystem,
    Memory,
    Periods,
    PeriodsThrottled,
    Throttled,
    OpenFiles,
    ReceivedBytes,
    SentBytes,
    ReceivedPackets,
    SentPackets,
}

/// Identifies a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    metric: Metric,
    /// The container; its name is empty for a series of the whole pod.
    of: ContainerOf,
    node: usize,
    /// The path of the cgroup (label `id`), which changes when the container restarts.
    id: String,
    /// The network interface; empty for metrics that have none.
    interface: String,
}

impl Metric {
    const ALL: [(&'static str, Self); 12] = [
        ("container_cpu_usage_seconds_total", Self::Cpu),
        ("container_cpu_user_seconds_total", Self::CpuUser),
        ("container_cpu_system_seconds_total", Self::CpuSystem),
        ("container_memory_working_set_bytes", Self::Memory),
        ("container_cpu_cfs_periods_total", Self::Periods),
        ("container_cpu_cfs_throttled_periods_total", Self::PeriodsThrottled),
        ("container_cpu_cfs_throttled_seconds_total", Self::Throttled),
        ("container_file_descriptors", Self::OpenFiles),
        ("container_network_receive_bytes_total", Self::ReceivedBytes),
        ("container_network_transmit_bytes_total", Self::SentBytes),
        ("container_network_receive_packets_total", Self::ReceivedPackets),
        ("container_network_transmit_packets_total", Self::SentPackets),
    ];

    fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
    }

    fn is_network(self) -> bool {
        matches!(self, Self::ReceivedBytes | Self::SentBytes | Self::ReceivedPackets | Self::SentPackets)
    }
}

impl Pages {
    /// Creates an empty collection for the samples of `containers`.
    pub fn new(containers: impl IntoIterator<Item = ContainerOf>) -> Self {
        Self { containers: containers.into_iter().collect(), ..Self::default() }
    }

    /// Adds the samples in `text`, a page of metrics from a node. `node` is the index of the node, and of its clock in
    /// the `clocks` of [`Pages::read`].
    pub fn add(&mut self, node: usize, text: &str) {
        let mut sampled = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("container_")) {
            let Some(line) = MetricLine::of(line) else { continue };
            let Some(metric) = Metric::of(line.metric) else { continue };
            let Some(key) = self.key(node, metric, &line) else { continue };
            let Some((value, at_ms)) = line.value().zip(line.timestamp_ms()) else { continue };
            let at_s = at_ms as f64 / 1e3;
            if metric == Metric::CpuUser {
                sampled.push((Key { metric: Metric::Cpu, ..key.clone() }, at_s));
            }
            self.put(key, Point { at_s, value });
        }
        // For a new container, cAdvisor omits the line of the total CPU time while this time is zero. Add the zero
        // here.
        sampled.retain(|(key, _)| !self.series.contains_key(key));
        for (key, at_s) in sampled {
            self.put(key, Point { at_s, value: 0.0 });
        }
        let newest = |series: &Series| series.points.last().map_or(0.0, |point| point.at_s);
        let of_node = self.series.iter().filter(|(key, _)| key.node == node);
        let from_s = of_node.map(|(_, series)| newest(series)).fold(0.0, f64::max) - KEPT_S;
        self.series.retain(|key, series| key.node != node || newest(series) >= from_s);
    }

    /// Whether the CPU time of every container and the traffic of every pod have a sample after `span`.
    pub fn reaches(&self, span: &Span, clocks: &[PageClock]) -> bool {
        let phase = phase(span);
        let Ok(mut series) = self.complete(Metric::Cpu, phase, clocks) else { return false };
        for (namespace, pod) in self.pods() {
            series.extend(self.series_of(Metric::ReceivedBytes, &whole(namespace, pod), clocks));
        }
        let waits = |series: &Series| series.reaches(phase.from_s) && !series.reaches(phase.to_s);
        !series.iter().any(waits)
    }

    /// The sample interval of the slowest container, seconds: the median over its samples. `None` if no container has
    /// two samples.
    pub fn interval_s(&self) -> Option<f64> {
        let cpu = self.series.iter().filter(|(key, _)| key.metric == Metric::Cpu);
        cpu.filter_map(|(_, series)| series.interval_s()).max_by(f64::total_cmp)
    }

    /// Number of pods with samples only for the whole pod. These samples include all its containers.
    pub fn whole_pods(&self) -> usize {
        self.pods().into_iter().filter(|(namespace, pod)| !self.is_split(namespace, pod)).count()
    }

    /// Computes the resources that the containers used in `span`. `clocks` contains the clock of each node, by index.
    pub fn read(&self, span: &Span, clocks: &[PageClock], limit_cpus: Option<f64>) -> Readings {
        let phase = phase(span);
        let uncertain_s = clocks.iter().map(|clock| clock.uncertain_s).fold(0.0, f64::max);
        let readings = |scrapes| Readings::new(scrapes, phase, span.from_ns, uncertain_s, limit_cpus);
        let cpu = match self.complete(Metric::Cpu, phase, clocks) {
            Ok(cpu) => cpu,
            Err(why) => {
                // If one pod is missing, a sum of the others would be too small.
                let mut unknown = readings(Scrapes::default());
                unknown.usage = Err(why);
                return unknown;
            }
        };
        let complete = |metric| self.complete(metric, phase, clocks).unwrap_or_default();
        let available = |metric| self.available(metric, clocks);
        let mut readings = readings(Scrapes {
            cpu,
            cpu_user: complete(Metric::CpuUser),
            cpu_system: complete(Metric::CpuSystem),
            memory: complete(Metric::Memory),
            memory_free: Vec::new(),
            // Containers without a CPU quota lack these series.
            periods: available(Metric::Periods),
            periods_throttled: available(Metric::PeriodsThrottled),
            throttled: available(Metric::Throttled),
            // The cgroup of a whole pod contains no processes itself, so its number of open files is meaningless.
            open_files: if self.whole_pods() == 0 { complete(Metric::OpenFiles) } else { Vec::new() },
        });
        if let Ok(usage) = &mut readings.usage {
            usage.network = self.network(phase, clocks);
        }
        readings
    }

    /// Returns the key of the series of `line`; `None` if weir does not collect this series. If the line is for a
    /// single container, adds its pod to `split`.
    fn key(&mut self, node: usize, metric: Metric, line: &MetricLine<'_>) -> Option<Key> {
        let label = |name| line.label(name).unwrap_or_default();
        let (namespace, pod, container) = (label("namespace"), label("pod"), label("container"));
        let is_pod = |of: &&ContainerOf| of.namespace == namespace && of.pod == pod;
        self.containers.iter().find(is_pod)?;
        let is_sandbox = matches!(container, "" | PAUSE_CONTAINER);
        let interface = label("interface");
        let mut of = whole(namespace, pod);
        if metric.is_network() {
            // A pod's network counters have the labels of its pause container.
            if !is_sandbox || interface.is_empty() || interface == LOOPBACK {
                return None;
            }
        } else if is_sandbox {
            // A pod can have several lines without a container. Keep only the line of the pod's cgroup, which has no
            // label `name`. Its value includes the pause container.
            if container == PAUSE_CONTAINER || !label("name").is_empty() {
                return None;
            }
        } else {
            container.clone_into(&mut of.container);
            self.split.insert((of.namespace.clone(), of.pod.clone()));
            if !self.containers.contains(&of) {
                return None;
            }
        }
        // cAdvisor can also print a line per CPU: keep only the total.
        if metric == Metric::Cpu && !matches!(label("cpu"), "" | "total") {
            return None;
        }
        Some(Key { metric, of, node, id: label("id").to_owned(), interface: interface.to_owned() })
    }

    fn put(&mut self, key: Key, point: Point) {
        if !point.value.is_finite() {
            return;
        }
        let series = self.series.entry(key).or_insert_with_key(|key| {
            let of = &key.of;
            let names = ["namespace", "pod", "container", "interface"].map(str::to_owned);
            let values = [&of.namespace, &of.pod, &of.container, &key.interface].map(String::clone);
            let labels = names.into_iter().zip(values).filter(|(_, value)| !value.is_empty()).collect();
            Series { labels, points: Vec::new() }
        });
        let points = &mut series.points;
        if points.last().is_some_and(|last| last.at_s >= point.at_s) {
            return;
        }
        points.push(point);
        let old = points.partition_point(|old| old.at_s < point.at_s - KEPT_S);
        points.drain(..old.max(points.len().saturating_sub(POINTS_MAX)));
    }

    fn is_split(&self, namespace: &str, pod: &str) -> bool {
        self.split.contains(&(namespace.to_owned(), pod.to_owned()))
    }

    fn pods(&self) -> BTreeSet<(&str, &str)> {
        self.containers.iter().map(|of| (of.namespace.as_str(), of.pod.as_str())).collect()
    }

    /// The selected containers. A pod that has samples only for the whole pod appears once, with an empty container
    /// name.
    fn known(&self) -> BTreeSet<ContainerOf> {
        let known = |of: &ContainerOf| match self.is_split(&of.namespace, &of.pod) {
            true => of.clone(),
            false => whole(&of.namespace, &of.pod),
        };
        self.containers.iter().map(known).collect()
    }

    /// The series of `metric` for all selected containers, with times on this host's monotonic clock. The error names
    /// the first container without a sample since the phase began.
    fn complete(&self, metric: Metric, phase: Phase, clocks: &[PageClock]) -> Result<Vec<Series>, String> {
        let mut all = Vec::new();
        for of in self.known() {
            let series = self.series_of(metric, &of, clocks);
            if !series.iter().any(|series| series.reaches(phase.from_s)) {
                let ContainerOf { namespace, pod, container } = &of;
                let part =
                    if container.is_empty() { String::new() } else { format!(" (container {container})") };
                return Err(format!("no sample of pod {namespace}/{pod}{part} since the phase began"));
            }
            all.extend(series);
        }
        Ok(all)
    }

    /// The series of `metric` for those selected containers that have it.
    fn available(&self, metric: Metric, clocks: &[PageClock]) -> Vec<Series> {
        self.known().iter().flat_map(|of| self.series_of(metric, of, clocks)).collect()
    }

    fn series_of(&self, metric: Metric, of: &ContainerOf, clocks: &[PageClock]) -> Vec<Series> {
        let are_of = self.series.iter().filter(|(key, _)| key.metric == metric && key.of == *of);
        are_of.filter_map(|(key, series)| Some(by_this_clock(series, *clocks.get(key.node)?))).collect()
    }

    /// Traffic that the pods received and sent in `phase`; `None` if it is unknown for a pod.
    fn network(&self, phase: Phase, clocks: &[PageClock]) -> Option<NetworkUsage> {
        let crossed = |metric| {
            let mut all = Vec::new();
            for (namespace, pod) in self.pods() {
                let series = self.series_of(metric, &whole(namespace, pod), clocks);
                series.iter().find(|series| series.reaches(phase.from_s))?;
                all.extend(series);
            }
            total_grown(&all, phase).ok().flatten().map(|growth| growth.amount.round() as u64)
        };
        Some(NetworkUsage {
            received_bytes: crossed(Metric::ReceivedBytes)?,
            sent_bytes: crossed(Metric::SentBytes)?,
            received_packets: crossed(Metric::ReceivedPackets)?,
            sent_packets: crossed(Metric::SentPackets)?,
            // cAdvisor does not report retransmissions.
            retransmitted_segments: None,
        })
    }
}

/// The key for metrics of a whole pod: its container name is empty.
fn whole(namespace: &str, pod: &str) -> ContainerOf {
    ContainerOf { namespace: namespace.to_owned(), pod: pod.to_owned(), container: String::new() }
}

/// Converts `span` from nanoseconds to seconds, both by this host's monotonic clock.
fn phase(span: &Span) -> Phase {
    Phase { from_s: span.from_ns as f64 / 1e9, to_s: span.to_ns as f64 / 1e9 }
}

/// Converts the times of `series` from the node's clock to this host's monotonic clock.
fn by_this_clock(series: &Series, clock: PageClock) -> Series {
    let points = series.points.iter();
    let points = points.map(|point| Point { at_s: point.at_s - clock.ahead_s, value: point.value }).collect();
    Series { labels: series.labels.clone(), points }
}

#[cfg(test)]
mod tests {
    use super::super::WallClock;
    use super::*;

    /// Lines from two pages of one kubelet, 48 s apart. The kubelet did not identify its container runtime, so it
    /// prints names only for whole pods. The pod envoy-gn7k5 was new: its CPU time was zero, so the first page has no
    /// line for it.
    const FIRST: &str = r#"# HELP container_cpu_usage_seconds_total Cumulative cpu time consumed in seconds.
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 80113.862150022 1795706295891
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/besteffort/pod041d",image="",name="",namespace="projectcontour",pod="contour-6f99ffd9cb-nq5ds"} 0.092722916 1795706296092
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/besteffort/pod041d/392e",image="",name="",namespace="",pod=""} 0.071093175 1795706293794
container_cpu_user_seconds_total{container="",id="/kubepods/besteffort/pod041d",image="",name="",namespace="projectcontour",pod="contour-6f99ffd9cb-nq5ds"} 0.05 1795706296092
container_cpu_user_seconds_total{container="",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 0 1795706282673
container_memory_working_set_bytes{container="",id="/kubepods/besteffort/pod041d",image="",name="",namespace="projectcontour",pod="contour-6f99ffd9cb-nq5ds"} 1.4671872e+07 1795706296092
container_file_descriptors{container="",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 0 1795706282673
container_network_receive_bytes_total{container="",id="/",image="",interface="node0",name="",namespace="",pod=""} 0 1795706295891
container_spec_cpu_period{container="",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 100000
"#;
    const SECOND: &str = r#"container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/besteffort/pod041d",image="",name="",namespace="projectcontour",pod="contour-6f99ffd9cb-nq5ds"} 0.121059573 1795706340474
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 0.309381645 1795706342639
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/besteffort/podbc6a/43f5",image="",name="",namespace="",pod=""} 0.212624583 1795706339068
container_cpu_user_seconds_total{container="",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 0.18 1795706342639
container_memory_working_set_bytes{container="",id="/kubepods/besteffort/podbc6a",image="",name="",namespace="projectcontour",pod="envoy-gn7k5"} 2.8209152e+07 1795706342639
"#;

    fn of(pod: &str, container: &str) -> ContainerOf {
        ContainerOf { namespace: "projectcontour".into(), pod: pod.into(), container: container.into() }
    }

    fn points(pages: &Pages, metric: Metric, pod: &str) -> Vec<(f64, f64)> {
        let of_it = pages.series.iter().filter(|(key, _)| key.metric == metric && key.of.pod == pod);
        of_it.flat_map(|(_, series)| series.points.iter().map(|point| (point.at_s, point.value))).collect()
    }

    #[test]
    fn repeated_samples_in_kubelet_pages_count_once() {
        let (contour, envoy) = ("contour-6f99ffd9cb-nq5ds", "envoy-gn7k5");
        let mut pages =
            Pages::new([of(contour, "contour"), of(envoy, "envoy"), of(envoy, "shutdown-manager")]);
        for text in [FIRST, FIRST, SECOND, FIRST] {
            pages.add(0, text);
        }
        let expected = [(1_795_706_296.092, 0.092_722_916), (1_795_706_340.474, 0.121_059_573)];
        assert_eq!(points(&pages, Metric::Cpu, contour), expected);
        let expected = [(1_795_706_282.673, 0.0), (1_795_706_342.639, 0.309_381_645)];
        assert_eq!(points(&pages, Metric::Cpu, envoy), expected, "the pod was new in the first page");
        assert_eq!(points(&pages, Metric::Memory, contour), [(1_795_706_296.092, 14_671_872.0)]);
        assert_eq!(
            (pages.whole_pods(), pages.known().len()),
            (2, 2),
            "a pod with two containers counts once"
        );
        assert!((pages.interval_s().unwrap() - 59.966).abs() < 1e-6);
        let mut other = Pages::new([of("contour-6f99ffd9cb-zvdcz", "contour")]);
        other.add(0, FIRST);
        assert!(other.series.is_empty(), "{other:?}");
    }

    const CLOCK: PageClock = PageClock { ahead_s: 1_000_000.25, uncertain_s: 0.02 };

    /// A page with a sample of the container `envoy` at `at_s` of this host's clock. The container uses half a core (a
    /// quarter of this time in the kernel), 1000 bytes of memory, and 100 bytes/s of traffic. The pod's other
    /// container, the pause container and the loopback are much busier, so a test fails if weir counts them.
    fn page(pod: &str, clock: PageClock, at_s: f64) -> String {
        let ms = ((clock.ahead_s + at_s) * 1e3).round() as i64;
        let labels = |container: &str, id: &str, name: &str, more: &str| {
            format!(
                "{{container=\"{container}\",{more}id=\"/kubepods.slice/{pod}{id}\",image=\"a/b:1@sha256:0\",name=\"{name}\",\
                 namespace=\"projectcontour\",pod=\"{pod}\"}}"
            )
        };
        let envoy = labels("envoy", "/e", "e", "");
        let total = labels("envoy", "/e", "e", "cpu=\"total\",");
        let cpu0 = labels("envoy", "/e", "e", "cpu=\"cpu00\",");
        let neighbour = labels("shutdown-manager", "/s", "s", "cpu=\"total\",");
        let pause = labels("", "/p", "p", "cpu=\"total\",");
        let older_pause = labels("POD", "/p", "p", "cpu=\"total\",");
        let whole = labels("", "", "", "cpu=\"total\",");
        let [eth, second, loopback] =
            ["eth0", "net1", "lo"].map(|name| labels("", "/p", "p", &format!("interface=\"{name}\",")));
        let mut lines = vec![
            format!("cpu_usage_seconds_total{total} {} {ms}", at_s / 2.0),
            format!("cpu_usage_seconds_total{cpu0} {} {ms}", at_s * 7.0),
            format!("cpu_usage_seconds_total{neighbour} {} {ms}", at_s * 7.0),
            format!("cpu_usage_seconds_total{pause} {} {ms}", at_s * 7.0),
            format!("cpu_usage_seconds_total{older_pause} {} {ms}", at_s * 7.0),
            format!("cpu_usage_seconds_total{whole} {} {ms}", at_s * 7.0),
            format!("cpu_user_seconds_total{envoy} {} {ms}", at_s * 0.375),
            format!("cpu_system_seconds_total{envoy} {} {ms}", at_s * 0.125),
            format!("memory_working_set_bytes{envoy} 1000 {ms}"),
            format!("file_descriptors{envoy} 40 {ms}"),
            format!("cpu_cfs_periods_total{envoy} {} {ms}", at_s * 10.0),
            format!("cpu_cfs_throttled_periods_total{envoy} {at_s} {ms}"),
            format!("cpu_cfs_throttled_seconds_total{envoy} {} {ms}", at_s / 100.0),
        ];
        for kind in ["receive_bytes", "transmit_bytes", "receive_packets", "transmit_packets"] {
            for (interface, rate) in [(&eth, 60.0), (&second, 40.0), (&loopback, 5_000.0)] {
                lines.push(format!("network_{kind}_total{interface} {} {ms}", at_s * rate));
            }
        }
        lines.iter().map(|line| format!("container_{line}\n")).collect()
    }

    fn span(from_s: f64, to_s: f64) -> Span {
        let ns = |s: f64| (s * 1e9) as u64;
        Span { from_ns: ns(from_s), to_ns: ns(to_s), clock_before: WallClock::now() }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3, "{value} is not {expected}");
    }

    #[test]
    fn other_containers_of_the_pod_do_not_count() {
        let mut pages = Pages::new([of("envoy-a", "envoy")]);
        let phase = span(101.0, 161.0);
        for at_s in (90..=160).step_by(10) {
            pages.add(0, &page("envoy-a", CLOCK, at_s.into()));
        }
        assert!(!pages.reaches(&phase, &[CLOCK]));
        pages.add(0, &page("envoy-a", CLOCK, 170.0));
        assert!(pages.reaches(&phase, &[CLOCK]));
        let readings = pages.read(&phase, &[CLOCK], Some(2.0));
        let usage = readings.usage.as_ref().unwrap();
        near(usage.cpu_s.total(), 30.0);
        near(usage.cpu_s.system, 7.5);
        near(usage.cpu_share_of_limit.unwrap(), 0.25);
        near(usage.throttled_s.unwrap(), 0.6);
        assert_eq!((usage.periods, usage.periods_throttled), (Some(600), Some(60)));
        assert_eq!((usage.memory_bytes_mean, usage.open_files_max), (Some(1000), Some(40)));
        let network = usage.network.unwrap();
        assert_eq!((network.received_bytes, network.sent_packets), (6000, 6000), "lo does not count");
        let account = readings.account.unwrap();
        assert_eq!((account.series, account.scrapes, account.clock_uncertain_s), (1, 6, 0.02));
        near(account.interval_s, 10.0);
        near(readings.between(110_000_000_000, 111_000_000_000).0.unwrap(), 0.5);
        assert_eq!(pages.whole_pods(), 0);
    }

    #[test]
    fn each_node_has_its_own_clock() {
        let mut pages = Pages::new([of("envoy-a", "envoy"), of("envoy-b", "envoy")]);
        let other = PageClock { ahead_s: CLOCK.ahead_s - 500.0, uncertain_s: 0.3 };
        for at_s in (90..=170).step_by(10) {
            pages.add(0, &page("envoy-a", CLOCK, at_s.into()));
            pages.add(1, &page("envoy-b", other, f64::from(at_s) + 3.0));
        }
        let readings = pages.read(&span(101.0, 161.0), &[CLOCK, other], None);
        let usage = readings.usage.as_ref().unwrap();
        near(usage.cpu_s.total(), 60.0);
        assert_eq!(usage.network.unwrap().received_bytes, 12_000);
        let account = readings.account.unwrap();
        assert_eq!((account.series, account.clock_uncertain_s), (2, 0.3));
    }

    #[test]
    fn a_container_without_samples_makes_the_sum_unknown() {
        let mut pages =
            Pages::new([of("envoy-a", "envoy"), of("envoy-a", "sidecar"), of("envoy-b", "envoy")]);
        let phase = span(101.0, 161.0);
        let check = |pages: &Pages, expected: &str| {
            assert!(!pages.reaches(&phase, &[CLOCK]));
            let readings = pages.read(&phase, &[CLOCK], None);
            assert_eq!(readings.usage.as_ref().unwrap_err(), expected);
            assert_eq!(
                (readings.account, readings.between(phase.from_ns, phase.to_ns)),
                (None, (None, None))
            );
        };
        check(&pages, "no sample of pod projectcontour/envoy-a since the phase began");
        for at_s in (90..=170).step_by(10) {
            pages.add(0, &page("envoy-a", CLOCK, at_s.into()));
        }
        check(&pages, "no sample of pod projectcontour/envoy-a (container sidecar) since the phase began");
    }

    #[test]
    fn samples_older_than_an_hour_are_dropped() {
        let mut pages = Pages::new([of("envoy-a", "envoy"), of("envoy-b", "envoy")]);
        pages.add(0, &page("envoy-b", CLOCK, 0.0));
        for at_s in 0..5000 {
            pages.add(0, &page("envoy-a", CLOCK, f64::from(at_s)));
        }
        let container = of("envoy-a", "envoy");
        let kept = pages.series_of(Metric::Cpu, &container, &[CLOCK]).remove(0).points;
        assert_eq!((kept.len(), kept[3599].value), (3600, 2499.5));
        assert!(points(&pages, Metric::Cpu, "envoy-b").is_empty(), "its samples are too old");
    }
}
