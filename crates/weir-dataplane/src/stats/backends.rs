//! Statistics of backends.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exposition::Exposition;
use crate::names::Names;

/// Counters and gauges of one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackendStats {
    /// Number of the backend's endpoints. A DNS name counts once per address. 0 before the first use of the backend.
    pub endpoints: u64,
    /// Endpoints that are ejected or fail health checks.
    pub endpoints_out: u64,
    /// In-flight requests at the backend's endpoints, including removed endpoints.
    pub requests_in_flight: u64,
    /// Health checks of the backend's endpoints, including failed ones.
    pub checks: u64,
    /// Failed health checks.
    pub check_failures: u64,
    /// Ejections of endpoints.
    pub ejections: u64,
    /// Ejections caused by the error rate, not by consecutive errors.
    pub ejections_by_share: u64,
    /// Requests sent to an ejected or unhealthy endpoint, because no healthy endpoint was left.
    pub panics: u64,
    /// Requests rejected because of a limit of the backend.
    pub overflows: u64,
    /// Pending requests, if `limits.pending` is set.
    pub pending: u64,
    /// How often a request had to queue, whatever the outcome.
    pub waits: u64,
    /// Connection attempts. For this field and the fields below, `/stats` contains no values per backend, at most a sum
    /// over all backends.
    #[serde(skip)]
    pub connects: u64,
    /// Connection attempts after the first one of a request.
    #[serde(skip)]
    pub connects_further: u64,
    /// Failed connection attempts.
    #[serde(skip)]
    pub connect_failures: u64,
    /// Retries.
    #[serde(skip)]
    pub retries: u64,
    /// Retries not sent because the retry budget was exhausted.
    #[serde(skip)]
    pub retries_over_budget: u64,
}

impl BackendStats {
    pub(crate) fn add(&mut self, other: BackendStats) {
        self.endpoints += other.endpoints;
        self.endpoints_out += other.endpoints_out;
        self.requests_in_flight += other.requests_in_flight;
        self.checks += other.checks;
        self.check_failures += other.check_failures;
        self.ejections += other.ejections;
        self.ejections_by_share += other.ejections_by_share;
        self.panics += other.panics;
        self.overflows += other.overflows;
        self.pending += other.pending;
        self.waits += other.waits;
        self.connects += other.connects;
        self.connects_further += other.connects_further;
        self.connect_failures += other.connect_failures;
        self.retries += other.retries;
        self.retries_over_budget += other.retries_over_budget;
    }

    /// Only the counters: all gauges are 0.
    pub(crate) fn without_gauges(self) -> BackendStats {
        BackendStats { endpoints: 0, endpoints_out: 0, requests_in_flight: 0, pending: 0, ..self }
    }
}

/// DNS lookups of endpoint names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NameStats {
    /// All lookups.
    pub lookups: u64,
    /// Failed lookups. The previous addresses stay active.
    pub failures: u64,
}

impl NameStats {
    pub(super) fn of(names: &Names) -> NameStats {
        let (lookups, failures) = names.counts();
        NameStats { lookups, failures }
    }

    /// Appends the metrics.
    pub(super) fn append(self, text: &mut Exposition) {
        let help = "DNS lookups of endpoint names.";
        text.family("weir_name_lookups_total", "counter", help);
        text.sample("weir_name_lookups_total", &[], self.lookups);
        text.family("weir_name_lookup_failures_total", "counter", "Failed DNS lookups of endpoint names.");
        text.sample("weir_name_lookup_failures_total", &[], self.failures);
    }
}

/// Appends the metrics of all backends.
pub(super) fn append(backends: &BTreeMap<String, BackendStats>, text: &mut Exposition) {
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&BackendStats) -> u64| {
        text.family(name, kind, help);
        for (backend, stats) in backends {
            text.sample(name, &[("backend", backend)], value(stats));
        }
    };
    family("weir_upstream_connects_total", "counter", "Connection attempts to upstreams.", &|stats| {
        stats.connects
    });
    let help = "Connection attempts to upstreams, except the first one for each request.";
    family("weir_upstream_connects_further_total", "counter", help, &|stats| stats.connects_further);
    let help = "Failed connection attempts to upstreams.";
    family("weir_upstream_connect_failures_total", "counter", help, &|stats| stats.connect_failures);
    family("weir_upstream_retries_total", "counter", "Retries of requests.", &|stats| stats.retries);
    let help = "Retries not sent because limits.retries was reached.";
    family("weir_upstream_retries_over_budget_total", "counter", help, &|stats| stats.retries_over_budget);
    let help = "Endpoints of the backend; each address of a host name counts as one endpoint.";
    family("weir_upstream_endpoints", "gauge", help, &|stats| stats.endpoints);
    let help = "Endpoints that are ejected or fail health checks.";
    family("weir_upstream_endpoints_out", "gauge", help, &|stats| stats.endpoints_out);
    let help = "Requests in flight at endpoints, including tunnels.";
    family("weir_upstream_requests_in_flight", "gauge", help, &|stats| stats.requests_in_flight);
    family("weir_health_checks_total", "counter", "Health checks sent to endpoints.", &|stats| stats.checks);
    let help = "Failed health checks of endpoints.";
    family("weir_health_check_failures_total", "counter", help, &|stats| stats.check_failures);
    let help = "Ejections of endpoints because of consecutive errors or the error rate.";
    family("weir_upstream_ejections_total", "counter", help, &|stats| stats.ejections);
    let help = "Ejections of endpoints because of the error rate (ejection.share).";
    family("weir_upstream_ejections_by_share_total", "counter", help, &|stats| stats.ejections_by_share);
    let help = "Requests sent to an ejected or unhealthy endpoint because no healthy endpoint was left.";
    family("weir_upstream_panics_total", "counter", help, &|stats| stats.panics);
    let help =
        "Requests rejected because a limit of the backend was reached and no slot became free in time.";
    family("weir_upstream_overflows_total", "counter", help, &|stats| stats.overflows);
    let help = "Requests pending in the queue of the backend (limits.pending).";
    family("weir_upstream_pending", "gauge", help, &|stats| stats.pending);
    let help = "How often a request waited because a limit of the backend was reached, whether or not a slot became free in time.";
    family("weir_upstream_waits_total", "counter", help, &|stats| stats.waits);
}
