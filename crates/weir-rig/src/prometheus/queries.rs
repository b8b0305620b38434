//! Selects the Prometheus series with the resources of a gateway: named sets of metrics, and the user's own queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named set of metrics from which weir reads the resources of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricSet {
    /// cAdvisor metrics of kubelets: `container_cpu_usage_seconds_total`, `container_memory_working_set_bytes`, user
    /// and system time, throttling (`container_cpu_cfs_*`), limits (`container_spec_*`) and open files. If some
    /// series have a `container` label, only those count. The working set includes active file pages.
    #[default]
    Container,
    /// Metrics that Prometheus client libraries export, such as weir-gateway's `/metrics`: `process_cpu_seconds_total`,
    /// `process_resident_memory_bytes` and open files. Resident memory includes file pages.
    Process,
    /// Metrics of the node exporter, for a gateway on a dedicated machine. CPU time is `node_cpu_seconds_total` without
    /// idle, iowait and steal. Memory is total minus available memory.
    Node,
}

/// Selectors of Prometheus series, each like `edge_cpu_seconds_total{zone="a"}`, without functions, because weir reads
/// the raw scrapes. weir adds up all series that a selector matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Queries {
    /// CPU time, a counter in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// CPU time in user mode, a counter in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_user: Option<String>,
    /// CPU time in the kernel, a counter in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_system: Option<String>,
    /// Memory in use, in bytes. `container_memory_rss{..}` excludes file pages and kernel memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Free memory in bytes, which weir subtracts from `memory`. Use it if `memory` selects the total memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_free: Option<String>,
    /// CPU quota periods, a counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods: Option<String>,
    /// CPU quota periods in which the gateway was throttled, a counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periods_throttled: Option<String>,
    /// Time in which the gateway was throttled, a counter in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<String>,
    /// CPU time allowed per quota period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// Length of a quota period, in the unit of `quota`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_period: Option<String>,
    /// Memory limit in bytes; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
    /// Number of open files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<String>,
}

impl MetricSet {
    /// All metric sets.
    pub const ALL: [Self; 3] = [Self::Container, Self::Process, Self::Node];

    /// The name of this set in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Process => "process",
            Self::Node => "node",
        }
    }

    /// The metric of this set that counts CPU time.
    pub(crate) fn cpu_metric(self) -> &'static str {
        match self {
            Self::Container => "container_cpu_usage_seconds_total",
            Self::Process => "process_cpu_seconds_total",
            Self::Node => "node_cpu_seconds_total",
        }
    }
}

impl Queries {
    /// The selectors of `set`, each with the label matchers `matchers`, like `namespace="x",pod=~"y.*"`.
    pub fn of(set: MetricSet, matchers: &str) -> Self {
        let matchers = matchers.trim();
        let matchers = matchers.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(matchers);
        let matchers = matchers.trim().trim_end_matches(',');
        let plain = |metric: &str| Some(format!("{metric}{{{matchers}}}"));
        let with = |metric: &str, more: &str| {
            let comma = if matchers.is_empty() { "" } else { "," };
            Some(format!("{metric}{{{more}{comma}{matchers}}}"))
        };
        match set {
            MetricSet::Container => Self {
                cpu: plain(set.cpu_metric()),
                cpu_user: plain("container_cpu_user_seconds_total"),
                cpu_system: plain("container_cpu_system_seconds_total"),
                memory: plain("container_memory_working_set_bytes"),
                memory_free: None,
                periods: plain("container_cpu_cfs_periods_total"),
                periods_throttled: plain("container_cpu_cfs_throttled_periods_total"),
                throttled: plain("container_cpu_cfs_throttled_seconds_total"),
                quota: plain("container_spec_cpu_quota"),
                quota_period: plain("container_spec_cpu_period"),
                memory_limit: plain("container_spec_memory_limit_bytes"),
                open_files: plain("container_file_descriptors"),
            },
            MetricSet::Process => Self {
                cpu: plain(set.cpu_metric()),
                memory: plain("process_resident_memory_bytes"),
                open_files: plain("process_open_fds"),
                ..Self::default()
            },
            MetricSet::Node => Self {
                cpu: with(set.cpu_metric(), "mode=~\"user|nice|system|irq|softirq\""),
                cpu_user: with(set.cpu_metric(), "mode=~\"user|nice\""),
                cpu_system: with(set.cpu_metric(), "mode=~\"system|irq|softirq\""),
                memory: plain("node_memory_MemTotal_bytes"),
                memory_free: plain("node_memory_MemAvailable_bytes"),
                ..Self::default()
            },
        }
    }

    /// Overrides the selectors of a metric set with the user's selectors in `own`. If the user sets `cpu`, the metric
    /// set's `cpu_user` and `cpu_system` are dropped. If the user sets `memory`, the metric set's `memory_free` is
    /// dropped.
    pub fn overlaid(self, own: &Self) -> Self {
        let of = |own: &Option<String>, set: Option<String>| own.clone().or(set);
        let unless = |other: &Option<String>, set: Option<String>| set.filter(|_| other.is_none());
        Self {
            cpu_user: of(&own.cpu_user, unless(&own.cpu, self.cpu_user)),
            cpu_system: of(&own.cpu_system, unless(&own.cpu, self.cpu_system)),
            cpu: of(&own.cpu, self.cpu),
            memory_free: of(&own.memory_free, unless(&own.memory, self.memory_free)),
            memory: of(&own.memory, self.memory),
            periods: of(&own.periods, self.periods),
            periods_throttled: of(&own.periods_throttled, self.periods_throttled),
            throttled: of(&own.throttled, self.throttled),
            quota: of(&own.quota, self.quota),
            quota_period: of(&own.quota_period, self.quota_period),
            memory_limit: of(&own.memory_limit, self.memory_limit),
            open_files: of(&own.open_files, self.open_files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_added_to_every_selector_of_a_set() {
        let check = |set, matchers: &str, cpu: &str| {
            assert_eq!(Queries::of(set, matchers).cpu.as_deref(), Some(cpu), "{matchers}");
        };
        let container = "container_cpu_usage_seconds_total{pod=~\"y.*\"}";
        for matchers in ["pod=~\"y.*\"", "{pod=~\"y.*\"}", " pod=~\"y.*\", "] {
            check(MetricSet::Container, matchers, container);
        }
        check(MetricSet::Process, "job=\"caddy\"", "process_cpu_seconds_total{job=\"caddy\"}");
        let modes = "mode=~\"user|nice|system|irq|softirq\"";
        check(MetricSet::Node, "node=\"a\"", &format!("node_cpu_seconds_total{{{modes},node=\"a\"}}"));
        check(MetricSet::Node, "", &format!("node_cpu_seconds_total{{{modes}}}"));
        for set in MetricSet::ALL {
            assert_eq!(serde_json::to_value(set).unwrap(), set.name());
        }
    }

    #[test]
    fn an_own_query_replaces_the_related_selectors() {
        let own = Queries { cpu: Some("mine".into()), ..Queries::default() };
        let queries = Queries::of(MetricSet::Container, "a=\"b\"").overlaid(&own);
        assert_eq!((queries.cpu.as_deref(), &queries.cpu_user), (Some("mine"), &None));
        assert!(queries.memory.unwrap().starts_with("container_memory_working_set_bytes"));
        let own = Queries { memory: Some("mine".into()), ..Queries::default() };
        let queries = Queries::of(MetricSet::Node, "").overlaid(&own);
        assert_eq!((queries.memory.as_deref(), queries.memory_free), (Some("mine"), None));
    }
}
