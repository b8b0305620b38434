//! The list of metrics for the reference, parsed from an exposition in which every metric has a sample.

use std::collections::BTreeMap;

use super::{BackendStats, ListenerStats, Stats, UpstreamStats, WorkerStats};
use crate::cause::Cause;
use crate::process_stats::ProcessStats;
use crate::route_stats::{LatencyStats, RouteStats};
use crate::series::BUCKETS_US;

/// A metric, as the reference describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in the exposition.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The help text.
    pub help: String,
    /// Labels by name, with all their values. A label whose values depend on the configuration has an empty list.
    pub labels: Vec<(String, Vec<String>)>,
}

/// Every metric, in the order of the exposition.
pub fn metrics() -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for line in everything().prometheus().lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let (name, help) = (name.to_owned(), help.to_owned());
            metrics.push(Metric { name, kind: String::new(), help, labels: Vec::new() });
        } else if let Some(metric) = metrics.last_mut() {
            match line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                Some((_, kind)) => kind.clone_into(&mut metric.kind),
                None => metric.add_labels(line),
            }
        }
    }
    for (_, values) in metrics.iter_mut().flat_map(|metric| &mut metric.labels) {
        // If a label has only one value in `everything`, that value is an example: the configuration decides the actual
        // values.
        if values.len() == 1 {
            values.clear();
        }
    }
    metrics
}

impl Metric {
    /// Adds the labels of a sample line. Label values must not contain quotation marks.
    fn add_labels(&mut self, sample: &str) {
        let labels = sample.split_once('{').and_then(|(_, rest)| rest.split_once("\"}"));
        for label in labels.into_iter().flat_map(|(labels, _)| labels.split("\",")) {
            let Some((name, value)) = label.split_once("=\"").filter(|(name, _)| *name != "le") else {
                continue;
            };
            let at = self.labels.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                self.labels.push((name.to_owned(), Vec::new()));
                self.labels.len() - 1
            });
            let values = &mut self.labels[at].1;
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
    }
}

/// Statistics with at least one sample of every metric.
fn everything() -> Stats {
    let name = || "name".to_owned();
    let errors = Cause::ALL.iter().map(|cause| (cause.name(), 0)).collect();
    let latency = LatencyStats { ns_sum: 0, by_bucket: vec![1; BUCKETS_US.len() + 1] };
    let route =
        RouteStats { listener: name(), group: name(), backend: name(), latency, ..RouteStats::default() };
    Stats {
        listeners: BTreeMap::from([(name(), ListenerStats { errors, ..ListenerStats::default() })]),
        certificate_ends: BTreeMap::from([(name(), 0)]),
        workers: vec![WorkerStats::default()],
        routes: vec![route],
        upstream: UpstreamStats {
            open: BTreeMap::from([(name(), 0)]),
            backends: BTreeMap::from([(name(), BackendStats::default())]),
            ..UpstreamStats::default()
        },
        process: ProcessStats {
            cpu_ns: 0,
            resident_bytes: Some(0),
            virtual_bytes: Some(0),
            open_fds: Some(0),
            max_fds: Some(0),
            threads: Some(0),
            start_ms: Some(0),
        },
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_type_help_and_labels() {
        let metrics = metrics();
        assert!(metrics.len() > 55, "{metrics:?}");
        for metric in &metrics {
            assert!(metric.help.ends_with('.') && !metric.kind.is_empty(), "{metric:?}");
        }
        let labels = |name: &str| {
            let metric = metrics.iter().find(|metric| metric.name == name).unwrap();
            let labels = metric.labels.iter().map(|(name, values)| (name.as_str(), values.len()));
            labels.collect::<Vec<_>>()
        };
        assert_eq!(labels("weir_build_info"), [("version", 0)]);
        assert_eq!(labels("weir_errors_total"), [("listener", 0), ("cause", Cause::ALL.len())]);
        assert_eq!(labels("weir_requests_shed_total"), [("reason", 2)]);
        let of_route = [("listener", 0), ("group", 0), ("backend", 0)];
        assert_eq!(labels("weir_request_duration_seconds"), of_route);
        assert_eq!(labels("weir_worker_lag_seconds"), [("worker", 0)]);
        assert_eq!(labels("process_threads"), []);
    }
}
