//! `--prometheus-write` and `--otlp`: push metrics to other systems while load runs.

mod loads;
mod own;
mod run;

use weir_analysis::reason_name;
use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{Judgement, LoadRecord, Reason, Requests};
use weir_watch::{Labels, Output, Second, Standing, Target, Totals, Verdict, Version, Watch, WatchError};

use super::output::note;
use crate::failure::Failure;
pub(crate) use loads::WatchedLoad;
pub(crate) use run::RunWatcher;

/// The key of throughput in `Judgement::bounds`.
const THROUGHPUT: &str = "throughput";
/// The key of CPU time per request in `Judgement::bounds`.
const CPU: &str = "cpu";
/// Names of the latencies that have separate entries in `Judgement::bounds`.
const LATENCIES: [&str; 5] = ["mean", "p50", "p90", "p99", "p999"];

/// Environment variable with header fields for each remote-write request.
const PROMETHEUS_HEADERS: &str = "WEIR_PROMETHEUS_WRITE_HEADERS";
/// Environment variables with header fields for each OTLP request, as OpenTelemetry defines them. The first one
/// that is set applies.
const OTLP_HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

fn with_headers(output: Output, variables: &[&'static str]) -> Result<Output, WatchError> {
    let set = variables.iter().find_map(|variable| Some((*variable, std::env::var(variable).ok()?)));
    match set {
        Some((variable, text)) => output.with_headers(variable, &text),
        None => Ok(output),
    }
}

/// The targets for metrics.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// Push metrics to Prometheus (remote write) while load runs
    #[arg(long, value_name = "URL")]
    prometheus_write: Option<String>,
    /// Remote-write version: 1, or 2 for Prometheus 3 [default: 1]
    #[arg(long, value_name = "1|2", requires = "prometheus_write", hide_possible_values = true)]
    prometheus_write_version: Option<WriteVersion>,
    /// Push metrics to an OpenTelemetry receiver (OTLP over HTTP)
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WriteVersion {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

impl WatchArgs {
    /// Starts to push metrics; `None` if no target is configured.
    pub(crate) fn start(&self) -> Result<Option<Watch>, Failure> {
        let version = match self.prometheus_write_version {
            None | Some(WriteVersion::One) => Version::V1,
            Some(WriteVersion::Two) => Version::V2,
        };
        let mut outputs = Vec::new();
        if let Some(url) = &self.prometheus_write {
            let output = Output::prometheus(url, version);
            let output = output.and_then(|output| with_headers(output, &[PROMETHEUS_HEADERS]));
            outputs.push(output.map_err(|error| failure("--prometheus-write", &error))?);
        }
        if let Some(url) = &self.otlp {
            let output = Output::otlp(url).and_then(|output| with_headers(output, &OTLP_HEADERS));
            outputs.push(output.map_err(|error| failure("--otlp", &error))?);
        }
        if outputs.is_empty() {
            return Ok(None);
        }
        Watch::start(&outputs).map(Some).map_err(|error| failure("--prometheus-write, --otlp", &error))
    }
}

/// Pushes the metrics that are still queued, and prints errors.
pub(crate) fn finish(watch: Watch) {
    for lost in watch.finish() {
        note(lost);
    }
}

fn failure(flag: &str, error: &WatchError) -> Failure {
    let message = format!("{flag}: {error}");
    match error.is_wrong_use() {
        true => Failure::wrong_use(message, error.remedy()),
        false => Failure::environment(message, error.remedy()),
    }
}

/// Pushes the values of one second of a load. If the histogram cannot be read, pushes them without latencies.
fn push_second(watch: &Watch, labels: &Labels, live: &LiveSecond) {
    let latency = live.second.latency.decode().unwrap_or_else(|_| weir_results::new_histogram());
    let second = Second {
        sent: live.second.sent,
        completed: live.second.completed,
        unexpected: live.second.unexpected,
        failed: live.failed(),
        timed_out: live.timed_out,
        dropped: live.dropped,
        offered_per_s: live.offered_per_s,
        connections: live.connections,
        latency: &latency,
    };
    watch.second(labels, &second);
}

/// The labels for the shard of `agent`.
fn of_agent(labels: &Labels, agent: &str) -> Labels {
    Labels { agent: agent.to_owned(), ..labels.clone() }
}

/// Pushes the totals of a load that has ended, for each agent if there are agents.
fn push_whole(watch: &Watch, labels: &Labels, record: &LoadRecord) {
    if record.shards.is_empty() {
        watch.whole(labels, totals(&record.whole));
    }
    for shard in &record.shards {
        watch.whole(&of_agent(labels, &shard.agent), totals(&shard.whole));
    }
}

fn totals(whole: &Requests) -> Totals {
    Totals {
        sent: whole.sent,
        completed: whole.completed,
        unexpected: whole.unexpected,
        failed: whole.failed,
        timed_out: whole.timed_out,
        dropped: whole.dropped,
        in_flight: whole.in_flight,
    }
}

/// The address, the port and the other properties that all requests of a load share.
fn target(spec: &LoadSpec) -> Target {
    let host = spec.requests.iter().find_map(|request| {
        let mut fields = request.headers.iter();
        fields.find(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.as_str())
    });
    let authority = host.unwrap_or(&spec.connect);
    // A Host header with a template stands for several hosts, so no address is reported.
    let authority = Some(authority).filter(|authority| !authority.contains('{'));
    let (address, port) = match authority.and_then(|authority| authority.rsplit_once(':')) {
        Some((address, port)) if port.parse::<u16>().is_ok() => (Some(address), port.parse().ok()),
        _ => (authority, None),
    };
    let mut methods: Vec<&str> = spec.requests.iter().map(|request| request.method.as_str()).collect();
    methods.dedup();
    Target {
        address: address.map(|address| address.trim_matches(['[', ']']).to_owned()),
        port,
        method: match methods[..] {
            [method] => Some(method.to_owned()),
            _ => None,
        },
        scheme: Some(if spec.tls.is_some() { "https" } else { "http" }.to_owned()),
    }
}

/// The verdicts about a load: for throughput, for CPU per request, for latency as a whole, and for the main latency
/// metrics.
fn verdicts(judgement: &Judgement) -> Vec<Verdict> {
    let verdicts = &judgement.verdicts;
    let mut all = vec![
        verdict(judgement, THROUGHPUT, &verdicts.throughput),
        verdict(judgement, CPU, &verdicts.cpu),
        of_metric("latency", &verdicts.latency),
    ];
    all.extend(LATENCIES.map(|name| verdict(judgement, name, &verdicts.latency)));
    all
}

/// The verdict about a metric, from `judgement.bounds`. If these are missing, the metric is invalid if
/// `of_metric_reasons` is not empty.
fn verdict(judgement: &Judgement, name: &str, of_metric_reasons: &[Reason]) -> Verdict {
    let Some(bounds) = &judgement.bounds else { return of_metric(name, of_metric_reasons) };
    let Some(bounds) = bounds.get(name).filter(|bounds| !bounds.is_valid) else {
        return of_metric(name, &[]);
    };
    let is_bounded = bounds.low.is_some() || bounds.high.is_some();
    let standing = if is_bounded { Standing::Bounded } else { Standing::Invalid };
    Verdict { standing, ..of_metric(name, &bounds.reasons) }
}

fn of_metric(name: &str, reasons: &[Reason]) -> Verdict {
    Verdict {
        metric: name.to_owned(),
        standing: if reasons.is_empty() { Standing::Valid } else { Standing::Invalid },
        reasons: reasons.iter().map(|reason| reason_name(*reason).to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_engine::RequestSpec;
    use weir_results::{BoundBy, Bounds, Verdicts};

    use super::*;

    #[test]
    fn bounded_and_invalid_values_are_distinguished() {
        let reasons = vec![Reason::HostNoise];
        let bounds = |high, is_valid| Bounds { low: None, high, reasons: reasons.clone(), is_valid };
        let judgement = Judgement {
            bound_by: BoundBy::Rate,
            verdicts: Verdicts { throughput: vec![], latency: reasons.clone(), cpu: vec![] },
            bounds: Some(BTreeMap::from([
                ("p50".to_owned(), bounds(Some(1.0), true)),
                ("p99".to_owned(), bounds(Some(1.0), false)),
                ("p999".to_owned(), bounds(None, false)),
            ])),
            delayed_share: None,
            evidence: vec![],
        };
        let reported = verdicts(&judgement);
        let standing = |name: &str| reported.iter().find(|verdict| verdict.metric == name).unwrap();
        for name in ["throughput", "cpu", "mean", "p50", "p90"] {
            assert_eq!(standing(name).standing, Standing::Valid, "{name}");
        }
        assert_eq!(standing("p99").standing, Standing::Bounded);
        assert_eq!(
            (standing("p999").standing, &standing("p999").reasons[0][..]),
            (Standing::Invalid, "host-noise")
        );
        assert_eq!(standing("latency").standing, Standing::Invalid);
        let old = verdicts(&Judgement { bounds: None, ..judgement });
        assert!(old.iter().find(|verdict| verdict.metric == "p50").unwrap().standing == Standing::Invalid);
    }

    #[test]
    fn the_target_has_the_common_properties_of_requests() {
        let request = |method: &str, host: &str| RequestSpec {
            method: method.into(),
            headers: vec![("Host".into(), host.into())],
            ..RequestSpec::default()
        };
        let check = |requests: Vec<RequestSpec>, expected: (Option<&str>, Option<u16>, Option<&str>)| {
            let spec = LoadSpec { connect: "127.0.0.1:81".into(), requests, ..LoadSpec::default() };
            let found = target(&spec);
            assert_eq!((found.address.as_deref(), found.port, found.method.as_deref()), expected);
        };
        check(vec![request("GET", "a.example:80")], (Some("a.example"), Some(80), Some("GET")));
        check(vec![request("GET", "{domain}"), request("POST", "b")], (None, None, None));
        check(vec![RequestSpec::default()], (Some("127.0.0.1"), Some(81), Some("GET")));
    }
}
