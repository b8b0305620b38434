//! What is counted of each backend.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exposition::Exposition;
use crate::names::Names;

/// What is known of one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackendStats {
    /// Its endpoints; of names, their addresses. 0 before it was asked for anything.
    pub endpoints: u64,
    /// Of these, those that get no requests now.
    pub endpoints_out: u64,
    /// Requests at its endpoints now, at those that are gone too.
    pub requests_in_flight: u64,
    /// Checks of endpoints that were made.
    pub checks: u64,
    /// Of these, those that found an endpoint ill.
    pub check_failures: u64,
    /// Endpoints that were taken out for what requests came to.
    pub ejections: u64,
    /// Of these, those that were for the share of errors, not for errors in a row.
    pub ejections_by_share: u64,
    /// Requests that were sent to an endpoint that is out, as all were.
    pub panics: u64,
    /// Requests that found one of its limits reached, and no place in time.
    pub overflows: u64,
    /// Requests that wait now, where `limits.pending` bounds them.
    pub pending: u64,
    /// Waits of requests for a place, whatever became of them.
    pub waits: u64,
    /// Connections tried. This and what follows stands in `/stats` as a sum over all backends, where it stands there.
    #[serde(skip)]
    pub connects: u64,
    /// Of these, those beyond the first of their request.
    #[serde(skip)]
    pub connects_further: u64,
    /// Connections that failed.
    #[serde(skip)]
    pub connect_failures: u64,
    /// Exchanges sent again.
    #[serde(skip)]
    pub retries: u64,
    /// Exchanges not sent again, as the budget was used up.
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

    /// Without what is so now.
    pub(crate) fn counters_alone(self) -> BackendStats {
        BackendStats { endpoints: 0, endpoints_out: 0, requests_in_flight: 0, pending: 0, ..self }
    }
}

/// Lookups of the names of endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NameStats {
    /// Those that were made.
    pub lookups: u64,
    /// Of these, those that failed; what was known before holds on.
    pub failures: u64,
}

impl NameStats {
    pub(super) fn of(names: &Names) -> NameStats {
        let (lookups, failures) = names.counts();
        NameStats { lookups, failures }
    }

    /// Appends what Prometheus scrapes of them.
    pub(super) fn append(self, text: &mut Exposition) {
        let help = "DNS lookups of endpoint names.";
        text.family("weir_name_lookups_total", "counter", help);
        text.sample("weir_name_lookups_total", &[], self.lookups);
        text.family("weir_name_lookup_failures_total", "counter", "Failed DNS lookups of endpoint names.");
        text.sample("weir_name_lookup_failures_total", &[], self.failures);
    }
}

/// Appends what Prometheus scrapes of them.
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
    let help = "Connection attempts to upstreams after the first one of a request.";
    family("weir_upstream_connects_further_total", "counter", help, &|stats| stats.connects_further);
    let help = "Failed connection attempts to upstreams.";
    family("weir_upstream_connect_failures_total", "counter", help, &|stats| stats.connect_failures);
    family("weir_upstream_retries_total", "counter", "Retries of requests.", &|stats| stats.retries);
    let help = "Retries not sent because limits.retries was reached.";
    family("weir_upstream_retries_over_budget_total", "counter", help, &|stats| stats.retries_over_budget);
    let help = "Endpoints of the backend; for host names, their addresses.";
    family("weir_upstream_endpoints", "gauge", help, &|stats| stats.endpoints);
    let help = "Endpoints that are ejected or fail health checks.";
    family("weir_upstream_endpoints_out", "gauge", help, &|stats| stats.endpoints_out);
    let help = "Requests in flight at endpoints, including tunnels.";
    family("weir_upstream_requests_in_flight", "gauge", help, &|stats| stats.requests_in_flight);
    family("weir_health_checks_total", "counter", "Health checks sent to endpoints.", &|stats| stats.checks);
    let help = "Failed health checks of endpoints.";
    family("weir_health_check_failures_total", "counter", help, &|stats| stats.check_failures);
    let help = "Ejections of endpoints because of errors, in a row or by their share.";
    family("weir_upstream_ejections_total", "counter", help, &|stats| stats.ejections);
    let help = "Ejections of endpoints because of their error share.";
    family("weir_upstream_ejections_by_share_total", "counter", help, &|stats| stats.ejections_by_share);
    let help = "Requests sent to an ejected or unhealthy endpoint because all endpoints were.";
    family("weir_upstream_panics_total", "counter", help, &|stats| stats.panics);
    let help =
        "Requests rejected because a limit of the backend was reached and no slot became free in time.";
    family("weir_upstream_overflows_total", "counter", help, &|stats| stats.overflows);
    let help = "Requests pending in the queue of the backend (limits.pending).";
    family("weir_upstream_pending", "gauge", help, &|stats| stats.pending);
    let help = "Times that a request waited in the queue of the backend, with any outcome.";
    family("weir_upstream_waits_total", "counter", help, &|stats| stats.waits);
}
