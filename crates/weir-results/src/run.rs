//! A run of a scenario: its plan, its environment and its thresholds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellKey, Pilot};

/// A run of a scenario, without its cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Version of the result schema.
    pub schema_version: u32,
    /// Unique id: sortable start time and random letters, such as `20261121-0210-k3fz`.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// The scenario's question.
    pub question: String,
    /// The scenario as it ran, with defaults and overrides.
    pub scenario: serde_json::Value,
    /// Seed for the order of the cells and for the arrivals of requests.
    pub seed: u64,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End of the last cell, milliseconds since the Unix epoch; `None` while unfinished.
    pub ended_unix_ms: Option<u64>,
    /// All cells of the run, in the order in which they run.
    pub plan: Vec<CellKey>,
    /// The objective of the scenario, if any.
    pub objective: Option<Objective>,
    /// Thresholds that decide whether weir excludes a value.
    pub thresholds: Thresholds,
    /// The environment of the run.
    pub manifest: Manifest,
}

impl Run {
    /// Number of repeats in the plan; 0 without cells.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.plan.iter().map(|key| key.repeat + 1).max().unwrap_or(0)
    }
}

/// An objective of a scenario. Limits that are absent are not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// Maximum latency in nanoseconds, by quantile (`p99`) or `mean`.
    pub latency_ns: BTreeMap<String, u64>,
    /// Maximum share of errors, 0 to 1.
    pub errors: Option<f64>,
    /// Limits for metrics of findings, by name of the metric (`recovery.time`). Each limit has the unit of its metric.
    /// A limit is a maximum, or a minimum if larger values are better.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, f64>,
    /// Objectives, each for one gateway at one load point. For this gateway and load point, the objective replaces all
    /// limits above: limits that it does not set are not checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnObjective>,
}

/// The objective for one gateway at one load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnObjective {
    /// The gateway's name in the scenario.
    pub gateway: String,
    /// Axis values of the load point, by their path in the scenario.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// The load's name.
    pub load: String,
    /// Maximum latency in nanoseconds, by quantile (`p99`) or `mean`.
    pub latency_ns: BTreeMap<String, u64>,
    /// Maximum share of errors, 0 to 1.
    pub errors: Option<f64>,
    /// Limits for metrics of findings, by name of the metric. Each limit has the unit of its metric. A limit is a
    /// maximum, or a minimum if larger values are better.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, f64>,
}

impl Objective {
    /// The objective that applies to `gateway` at a load point.
    pub fn of(&self, gateway: &str, axes: &BTreeMap<String, serde_json::Value>, load: &str) -> Self {
        let is_meant = |own: &&OwnObjective| own.gateway == gateway && own.axes == *axes && own.load == load;
        match self.own.iter().find(is_meant) {
            Some(own) => Self {
                latency_ns: own.latency_ns.clone(),
                errors: own.errors,
                findings: own.findings.clone(),
                own: Vec::new(),
            },
            None => Self { own: Vec::new(), ..self.clone() },
        }
    }

    /// Returns the limits for metrics of findings that apply to `gateway` at `axes` and `load`. They come from the
    /// gateway's first [`OwnObjective`] for this load whose axis values are all in `axes`; `axes` may contain more. An
    /// empty `load` matches every load. If none matches, the limits of this objective apply.
    pub fn findings_of(
        &self,
        gateway: &str,
        axes: &BTreeMap<String, serde_json::Value>,
        load: &str,
    ) -> &BTreeMap<String, f64> {
        let is_meant = |own: &&OwnObjective| {
            own.gateway == gateway
                && own.axes.iter().all(|(path, value)| axes.get(path) == Some(value))
                && (load.is_empty() || own.load == load)
        };
        self.own.iter().find(is_meant).map_or(&self.findings, |own| &own.findings)
    }
}

/// Thresholds that decide whether weir excludes a value. Change a threshold only if the problem that it detects is
/// harmless in your setup. The run stores the thresholds.
///
/// A share is a number from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// A part that uses at least this share of its CPU limit is the bottleneck of the load (`limited by gateway`,
    /// `upstream-limited`).
    pub bound_share: f64,
    /// Closed loop: the load generator is the bottleneck (`generator-limited`) if one of its workers is busy (CPU time
    /// plus run-queue delay) for more than this share of the wall time.
    pub worker_busy_share: f64,
    /// weir reports a busy load generator as the bottleneck only if the gateway uses less than this share of its CPU
    /// limit.
    pub gateway_idle_share: f64,
    /// Open loop: maximum p99 of the lateness, in nanoseconds. At high latency, `lateness_share` allows more.
    pub lateness_ns: u64,
    /// Load from several machines: maximum time in nanoseconds between the start of the first and the last machine,
    /// including the uncertainty of the clocks (`clock-uncertain`).
    pub clock_ns: u64,
    /// Open loop: maximum p99 of the lateness, as share of the p99 latency. The larger of this limit and `lateness_ns`
    /// applies.
    pub lateness_share: f64,
    /// At least this share of the scheduled requests must be sent (else `generator-limited`) and completed (else
    /// `overloaded`).
    pub completed_share: f64,
    /// If the configured delay of the upstream is at least this share of the response time, the upstream is the
    /// bottleneck (`upstream-limited`); 1 turns this off.
    pub upstream_delay_share: f64,
    /// Maximum share of the host's CPU time that steal and other processes may take. Above it, weir estimates how much
    /// they changed each value (`host-noise`); 1 turns this off.
    pub disturbed_share: f64,
    /// Maximum share of quota periods in which a part may be throttled (`throttled`).
    pub throttled_share: f64,
    /// Maximum difference of throughput or p50 between the first and the last third of the sustained phase, as share
    /// (`not-stationary`).
    pub drift_share: f64,
    /// Maximum factor by which a warm-up grows while latencies have not settled: 1 (fixed length) to 10.
    pub warmup_growth: f64,
    /// Maximum share by which noise may have raised or lowered throughput or the number of cores used. Above it, the
    /// value is not valid.
    pub throughput_tolerance: f64,
    /// Maximum share by which noise may have changed CPU time per request. Above it, the value is not valid.
    pub cpu_tolerance: f64,
    /// Tolerance for noise in mean latency and in quantiles up to p50, as share. If noise may have changed a value by
    /// more, the value is not valid.
    pub median_tolerance: f64,
    /// Tolerance for noise in quantiles above p50, as share. If noise may have changed a value by more, the value is
    /// not valid.
    pub tail_tolerance: f64,
    /// Maximum distance between the mean of a headline and either end of its confidence interval, as a share of the
    /// mean (for added latency, of the whole latency). Above it, the headline is `noisy`.
    #[schemars(extend("x-default" = "no maximum"))]
    pub interval_share: Option<f64>,
    /// A gateway that uses at least this share of its CPU limit counts as fully loaded. Its throughput is then the
    /// maximum at that limit.
    pub full_load_share: f64,
    /// Maximum share of errors. If a load has more, its values are excluded (reason `errors`), unless an objective
    /// limits the errors.
    pub error_share: f64,
    /// Per metric: the largest relative difference that `weir compare` treats as equal, like
    /// `{ throughput: 0.05, p99: 0.3 }`. docs/compare.md lists the defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-default" = "the margins of `weir compare`"))]
    pub margins: BTreeMap<String, f64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            bound_share: 0.95,
            worker_busy_share: 0.9,
            gateway_idle_share: 0.9,
            lateness_ns: 250_000,
            clock_ns: 10_000_000,
            lateness_share: 0.1,
            completed_share: 0.99,
            upstream_delay_share: 0.5,
            disturbed_share: 0.02,
            throttled_share: 0.01,
            drift_share: 0.1,
            warmup_growth: 3.0,
            throughput_tolerance: 0.1,
            cpu_tolerance: 0.05,
            median_tolerance: 0.1,
            tail_tolerance: 0.25,
            interval_share: None,
            full_load_share: 0.9,
            error_share: 0.001,
            margins: BTreeMap::new(),
        }
    }
}

/// A threshold that is less strict in the scenario than by default.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxed {
    /// The field's name.
    pub name: &'static str,
    /// The scenario's value.
    pub value: f64,
    /// The default.
    pub default: f64,
}

type FieldOf = fn(&Thresholds) -> f64;

impl Thresholds {
    /// The thresholds that are less strict than their defaults: they exclude fewer values.
    pub fn relaxed(&self) -> Vec<Relaxed> {
        let default = Self::default();
        // `above` contains the thresholds that exclude larger values. `below` contains the thresholds that exclude
        // smaller values.
        let above: [(&str, FieldOf); 13] = [
            ("bound_share", |t| t.bound_share),
            ("worker_busy_share", |t| t.worker_busy_share),
            ("lateness_ns", |t| t.lateness_ns as f64),
            ("clock_ns", |t| t.clock_ns as f64),
            ("lateness_share", |t| t.lateness_share),
            ("upstream_delay_share", |t| t.upstream_delay_share),
            ("disturbed_share", |t| t.disturbed_share),
            ("throttled_share", |t| t.throttled_share),
            ("drift_share", |t| t.drift_share),
            ("throughput_tolerance", |t| t.throughput_tolerance),
            ("cpu_tolerance", |t| t.cpu_tolerance),
            ("median_tolerance", |t| t.median_tolerance),
            ("tail_tolerance", |t| t.tail_tolerance),
        ];
        let below: [(&str, FieldOf); 2] =
            [("gateway_idle_share", |t| t.gateway_idle_share), ("completed_share", |t| t.completed_share)];
        let errors: (&str, FieldOf) = ("error_share", |t| t.error_share);
        let of =
            |(name, of): (&'static str, FieldOf)| Relaxed { name, value: of(self), default: of(&default) };
        let above = above.into_iter().chain([errors]).map(of).filter(|of| of.value > of.default);
        above.chain(below.into_iter().map(of).filter(|of| of.value < of.default)).collect()
    }
}

/// The environment of a run. A field is `None` if its value could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of weir.
    pub weir_version: String,
    /// The command line as given.
    pub command_line: Vec<String>,
    /// Whether repeats were added after somebody saw the results (`--until`, `--resume --repeats`). If so, confidence
    /// intervals are wider. They would otherwise be too narrow, because the results influenced the number of repeats.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats_were_added: bool,
    /// Kernel and architecture, from `uname -sr` and `uname -m`.
    pub kernel: Option<String>,
    /// The name of the distribution (`PRETTY_NAME`).
    pub os: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Number of logical CPUs that the run can use.
    pub cpus: Option<u32>,
    /// CPU frequency governor.
    pub cpu_governor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU vulnerabilities and mitigations, by name.
    pub mitigations: BTreeMap<String, String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Whether the CPU reports a hypervisor.
    pub virtualized: Option<bool>,
    /// Version of cgroups that weir used: `v1`, `v2` or `none`.
    pub cgroup: Option<String>,
    /// Maximum number of open files per process.
    pub open_files_max: Option<u64>,
    /// Network between the parts of the rig: `loopback`, `namespaces`, or both if the scenario varies it.
    pub network: String,
    /// TLS version and cipher; `None` for plain HTTP.
    pub tls: Option<String>,
    /// Configuration files of the user that replace files of the drivers, by gateway.
    #[serde(default)]
    pub configurations: BTreeMap<String, Configuration>,
    /// The pilot before the first cell, if the scenario gives rates as shares of a gateway's throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot: Option<Pilot>,
}

/// A configuration file of the user that replaces the driver's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// The path from which weir read the file.
    pub path: String,
    /// SHA-256 of the text, hexadecimal.
    pub sha256: String,
    /// The text of the file, before weir inserted the values of the run, such as ports.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Thresholds;

    #[test]
    fn relaxed_thresholds_make_more_values_valid() {
        assert_eq!(Thresholds::default().relaxed(), []);
        let stricter = Thresholds { disturbed_share: 0.0, completed_share: 1.0, ..Thresholds::default() };
        assert_eq!(stricter.relaxed(), []);
        let laxer = Thresholds { disturbed_share: 1.0, completed_share: 0.9, ..Thresholds::default() };
        let found: Vec<_> = laxer.relaxed().iter().map(|of| (of.name, of.value, of.default)).collect();
        assert_eq!(found, [("disturbed_share", 1.0, 0.02), ("completed_share", 0.9, 0.99)]);
    }

    #[test]
    fn the_schema_has_the_default_and_meaning_of_every_threshold() {
        let schema = schemars::schema_for!(Thresholds);
        let defaults = serde_json::to_value(Thresholds::default()).unwrap();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap();
        for (name, field) in fields {
            assert_eq!(field.get("default").unwrap_or(&Value::Null), &defaults[name], "{name}");
            assert!(field["description"].is_string(), "{name}");
        }
        // `margins` is empty by default, and empty margins are not serialized.
        assert_eq!(fields.len(), defaults.as_object().unwrap().len() + 1);
    }
}
