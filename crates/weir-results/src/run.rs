//! A run of a scenario: its plan, its environment, its state.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellKey, Pilot};

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Unique id: sortable start time and random letters, `20261121-0210-k3fz`.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// The scenario's question.
    pub question: String,
    /// The scenario as it ran: defaults filled in, overrides applied.
    pub scenario: serde_json::Value,
    /// Seed of order and arrivals.
    pub seed: u64,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End of the last cell, milliseconds since the Unix epoch; `None` while unfinished.
    pub ended_unix_ms: Option<u64>,
    /// Every cell of the run in its order.
    pub plan: Vec<CellKey>,
    /// The objective, where the scenario has one.
    pub objective: Option<Objective>,
    /// Thresholds of the verdicts.
    pub thresholds: Thresholds,
    /// Where and with what it ran.
    pub manifest: Manifest,
}

impl Run {
    /// Repeats of the plan; 0 without cells.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.plan.iter().map(|key| key.repeat + 1).max().unwrap_or(0)
    }
}

/// An objective; what is `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// Greatest allowed latency in nanoseconds by its field of [`crate::TimesNs`] (`p99`, `mean`, ..).
    pub latency_ns: BTreeMap<String, u64>,
    /// Greatest allowed share of errors, 0..=1.
    pub errors: Option<f64>,
    /// Limits of findings by metric (`recovery.time`), in the unit of the metric: a maximum, or a minimum if more is
    /// better.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, f64>,
    /// What single load points have to keep, where that is something else: wholly, and not beside the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnObjective>,
}

/// What a gateway has to keep at one load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnObjective {
    /// The gateway's name in the scenario.
    pub gateway: String,
    /// Values of the axes, as in [`CellKey::axes`].
    pub axes: BTreeMap<String, serde_json::Value>,
    /// The load's name.
    pub load: String,
    /// As in [`Objective`].
    pub latency_ns: BTreeMap<String, u64>,
    /// As in [`Objective`].
    pub errors: Option<f64>,
    /// As in [`Objective`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, f64>,
}

impl Objective {
    /// What `gateway` has to keep at a load point.
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

    /// Limits of findings of `gateway` for a row that may have more axes than the load point, or no load.
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

/// Thresholds of the verdicts. `docs/scenarios.md#thresholds` lists each with its default.
///
/// A share is a number from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Share of its CPU limit from which a part limits the load (`bound by gateway`, `upstream-limited`).
    pub bound_share: f64,
    /// Share of wall time, CPU time plus run-queue delay, from which a closed-loop worker of the generator is the limit
    /// (`generator-limited`).
    pub worker_busy_share: f64,
    /// Share of its CPU limit below which the gateway is not the limit, so that a busy generator is.
    pub gateway_idle_share: f64,
    /// Open loop: p99 of the lateness of requests that is always accepted, in nanoseconds.
    pub lateness_ns: u64,
    /// Several machines: how far apart they may start, with the uncertainty of their clocks, in nanoseconds
    /// (`clock-uncertain`).
    pub clock_ns: u64,
    /// Open loop: p99 of the lateness that is accepted, as share of the p99 of the latency. The larger of both counts.
    pub lateness_share: f64,
    /// Share of the scheduled requests that the generator must send, and that must be completed; with fewer completed
    /// the load is `overloaded`.
    pub completed_share: f64,
    /// Share of the response time from which the configured delay of the upstream counts as `upstream-limited`; 1 or
    /// more turns this off.
    pub upstream_delay_share: f64,
    /// Share of the host's CPU that steal and other processes may take before their effect on each value is estimated
    /// (`host-noise`); 1 turns this off.
    pub disturbed_share: f64,
    /// Share of quota periods in which a part may be throttled (`throttled`).
    pub throttled_share: f64,
    /// Share by which throughput or p50 of the last third of the phase may differ from the first (`not-stationary`).
    pub drift_share: f64,
    /// Factor by which a warm-up may grow while latencies have not settled; 1 keeps its length.
    pub warmup_growth: f64,
    /// Share by which a disturbance can have moved throughput, to either side, so that it is still valid.
    pub throughput_tolerance: f64,
    /// The same for CPU time per request and cores.
    pub cpu_tolerance: f64,
    /// The same for the mean of the latency and its quantiles up to p50.
    pub median_tolerance: f64,
    /// The same for higher quantiles of the latency.
    pub tail_tolerance: f64,
    /// Maximum distance from the mean to an end of a headline's interval, as share of the mean (of the whole latency for
    /// added latency); a wider one is `noisy`. No maximum by default.
    pub interval_share: Option<f64>,
    /// Share of its CPU limit from which a gateway counts as fully loaded, and its throughput as the maximum at that
    /// limit.
    pub full_load_share: f64,
    /// Share of errors from which values are excluded (`errors`), if no objective has another.
    pub error_share: f64,
    /// Differences between two datasets, as share, that `weir compare` calls the same; by metric (`throughput`, `cpu`,
    /// `p50`, `p99`). Defaults: docs/compare.md.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
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

/// A threshold that lets more values be valid than its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxed {
    /// The field's name.
    pub name: &'static str,
    /// What the scenario asks for.
    pub value: f64,
    /// The default.
    pub default: f64,
}

type FieldOf = fn(&Thresholds) -> f64;

impl Thresholds {
    /// The thresholds that are laxer than their defaults, in the order of the fields.
    pub fn relaxed(&self) -> Vec<Relaxed> {
        let default = Self::default();
        // Those that exclude values above the threshold, and then those that exclude values below it.
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

/// The environment. What could not be read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of weir.
    pub weir_version: String,
    /// The command line as given.
    pub command_line: Vec<String>,
    /// Whether repeats were added after a look at the results (`--until`, `--resume --repeats`): intervals are then those
    /// that hold at all looks together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats_were_added: bool,
    /// `uname -sr` and the machine.
    pub kernel: Option<String>,
    /// The distribution's pretty name.
    pub os: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Logical CPUs usable by the run.
    pub cpus: Option<u32>,
    /// Frequency governor.
    pub cpu_governor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU vulnerabilities and mitigations, by name.
    pub mitigations: BTreeMap<String, String>,
    /// Clock source.
    pub clock_source: Option<String>,
    /// Hypervisor, where the CPU says that there is one.
    pub virtualized: Option<bool>,
    /// Cgroup version used: `v1`, `v2` or `none`.
    pub cgroup: Option<String>,
    /// Greatest number of open files a process may have.
    pub open_files_max: Option<u64>,
    /// How parts talk: `loopback`, `namespaces`, or both where a sweep varies it.
    pub network: String,
    /// TLS version and cipher; `None` for plain text.
    pub tls: Option<String>,
    /// Configuration files of the user's own, by the gateway's name.
    #[serde(default)]
    pub configurations: BTreeMap<String, Configuration>,
    /// What was tried before the first cell, where rates are shares of what the gateways carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot: Option<Pilot>,
}

/// A configuration file that a gateway got in place of its driver's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// Where it was read.
    pub path: String,
    /// SHA-256 of the text, hexadecimal.
    pub sha256: String,
    /// The text as it was read, before the run's values were put into it.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Thresholds;

    #[test]
    fn relaxed_thresholds_are_those_that_let_more_values_be_valid() {
        assert_eq!(Thresholds::default().relaxed(), []);
        let stricter = Thresholds { disturbed_share: 0.0, completed_share: 1.0, ..Thresholds::default() };
        assert_eq!(stricter.relaxed(), []);
        let laxer = Thresholds { disturbed_share: 1.0, completed_share: 0.9, ..Thresholds::default() };
        let found: Vec<_> = laxer.relaxed().iter().map(|of| (of.name, of.value, of.default)).collect();
        assert_eq!(found, [("disturbed_share", 1.0, 0.02), ("completed_share", 0.9, 0.99)]);
    }

    #[test]
    fn every_threshold_is_in_the_guide_with_its_default() {
        let guide = include_str!("../../../docs/scenarios.md");
        let schema = schemars::schema_for!(Thresholds);
        let defaults = serde_json::to_value(Thresholds::default()).unwrap();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap();
        for (name, field) in fields {
            let default = match &defaults[name] {
                Value::Null => "none".to_owned(),
                value => value.to_string(),
            };
            let row = format!("\n| `{name}` | {default} | ");
            assert!(guide.contains(&row), "docs/scenarios.md has no row {row:?}");
            assert!(field["description"].is_string(), "{name}");
        }
        assert_eq!(fields.len(), 20);
        let description = schema.get("description").and_then(Value::as_str).unwrap();
        assert!(!description.contains("METHOD"), "{description}");
    }
}
