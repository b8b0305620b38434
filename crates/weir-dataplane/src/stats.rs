//! Sums of all counters, for programs (JSON) and for Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::backend_states::BackendStates;
use crate::cause::Cause;
use crate::counters::{Counter, ListenerCounters, UpstreamCounters};
use crate::exposition::Exposition;
use crate::log::AccessLogStats;
use crate::overload::OverloadStats;
use crate::process_stats::ProcessStats;
use crate::route_stats::RouteStats;

mod backends;
mod metrics;
mod workers;

pub use backends::{BackendStats, NameStats};
pub use metrics::{Metric, metrics};
pub use workers::WorkerStats;

/// All counters of a gateway at one moment. Errors with count 0 are included, so the list of causes never changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests whose headers were complete or rejected, whatever their result.
    pub requests: u64,
    /// Final responses that were started.
    pub responses: u64,
    /// Responses by class, including interim ones.
    pub by_status: ByStatus,
    /// Numbers of failures, by the name of the cause.
    pub errors: BTreeMap<&'static str, u64>,
    /// How many of `errors` were timeouts.
    pub timeouts: u64,
    /// Counters of client connections.
    pub connections: Connections,
    /// Counters of TLS handshakes with clients.
    pub tls: TlsStats,
    /// Requests and connections to upstreams.
    pub upstream: UpstreamStats,
    /// Reloads of configurations and files.
    pub reloads: ReloadStats,
    /// Counters by worker, in the order of the workers.
    pub workers: Vec<WorkerStats>,
    /// Counters by listener.
    pub listeners: BTreeMap<String, ListenerStats>,
    /// The earliest expiry of each listener's certificates, in seconds since 1970.
    pub certificate_ends: BTreeMap<String, i64>,
    /// Counts of access log lines by outcome.
    pub access_log: AccessLogStats,
    /// Overload state, and requests rejected because of it.
    pub overload: OverloadStats,
    /// Responses by listener, group and backend.
    pub routes: Vec<RouteStats>,
    /// CPU time, memory and descriptors of the process.
    pub process: ProcessStats,
}

/// Counters of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListenerStats {
    /// Requests whose headers were complete or rejected.
    pub requests: u64,
    /// Final responses that were started.
    pub responses: u64,
    /// Responses by status class, including interim ones.
    pub by_status: ByStatus,
    /// Numbers of failures, by the name of the cause.
    pub errors: BTreeMap<&'static str, u64>,
    /// Counters of client connections.
    pub connections: Connections,
    /// Counters of TLS handshakes with clients.
    pub tls: TlsStats,
    /// Request fields dropped because of their names.
    pub fields_dropped: u64,
}

/// Responses by the class of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByStatus {
    /// Interim responses, and 101.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

/// Counters of client connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections that became tunnels.
    pub upgraded: u64,
    /// Connections handed over to another worker.
    pub handed: u64,
}

/// TLS handshakes with clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlsStats {
    /// Completed handshakes.
    pub handshakes: u64,
    /// Completed handshakes that resumed a session.
    pub resumed: u64,
    /// Failed handshakes; `errors` has the causes.
    pub failed: u64,
    /// Handshake steps that were deferred in favor of other connections.
    pub delayed: u64,
    /// Handshakes whose signature was computed outside the worker.
    pub offloaded: u64,
    /// Connections whose TLS was passed through to a backend.
    pub passed_on: u64,
}

/// Results of reloads of configurations and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReloadStats {
    /// Reloads that took effect, in whole or in part.
    pub applied: u64,
    /// Reloads that were rejected in whole or in part. The former values of the rejected parts stay active.
    pub refused: u64,
}

/// Counters of upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamStats {
    /// Connection attempts.
    pub connects: u64,
    /// Failed connection attempts.
    pub connect_failures: u64,
    /// Completed TLS handshakes.
    pub handshakes: u64,
    /// Completed TLS handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Exchanges over a reused connection.
    pub reused: u64,
    /// Retries, including requests that were sent again because a kept connection was already closed.
    pub retries: u64,
    /// Exchanges not retried because the retry budget of their backend was used up.
    pub retries_over_budget: u64,
    /// Pauses in accepting connections, for lack of file descriptors.
    pub accept_pauses: u64,
    /// Open connections by backend; `other` after the first 1000 backends.
    pub open: BTreeMap<String, u64>,
    /// DNS lookups of endpoint names.
    pub names: NameStats,
    /// Backend health; `other` after the first 1000 backends.
    pub backends: BTreeMap<String, BackendStats>,
    /// Mirrored requests.
    pub mirror: MirrorStats,
}

/// Counters of mirrored requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MirrorStats {
    /// Mirrored requests started.
    pub copies: u64,
    /// Mirrored requests without a complete response.
    pub failures: u64,
    /// Requests not mirrored because too many copies were in flight.
    pub crowded: u64,
    /// Requests not mirrored because they are too long.
    pub too_long: u64,
}

impl Stats {
    pub(crate) fn sum<'c>(
        listeners: &BTreeMap<String, Vec<Arc<ListenerCounters>>>,
        upstreams: impl Iterator<Item = &'c UpstreamCounters>,
        backends: &BackendStates,
    ) -> Stats {
        let mut stats = Stats::default();
        for (name, workers) in listeners {
            let listener = ListenerStats::sum(workers);
            stats.requests += listener.requests;
            stats.responses += listener.responses;
            stats.by_status.add(listener.by_status);
            stats.connections.add(listener.connections);
            stats.tls.add(listener.tls);
            for (cause, count) in &listener.errors {
                *stats.errors.entry(cause).or_default() += count;
            }
            stats.listeners.insert(name.clone(), listener);
        }
        let is_timeout = |c: &&Cause| c.is_timeout();
        stats.timeouts =
            Cause::ALL.iter().filter(is_timeout).filter_map(|c| stats.errors.get(c.name())).sum();
        for worker in upstreams {
            stats.upstream.handshakes += worker.handshakes.value();
            stats.upstream.handshakes_resumed += worker.handshakes_resumed.value();
            stats.upstream.reused += worker.reused.value();
            stats.upstream.accept_pauses += worker.accept_pauses.value();
            stats.upstream.mirror.add(worker);
        }
        let reports = backends.reports();
        stats.upstream.open = reports.iter().map(|(name, report)| (name.clone(), report.open)).collect();
        stats.upstream.backends = reports.into_iter().map(|(name, report)| (name, report.counters)).collect();
        let totals = backends.totals();
        stats.upstream.connects = totals.connects;
        stats.upstream.connect_failures = totals.connect_failures;
        stats.upstream.retries = totals.retries;
        stats.upstream.retries_over_budget = totals.retries_over_budget;
        stats.upstream.names = NameStats::of(&backends.names);
        stats
    }

    /// The Prometheus text format.
    pub fn prometheus(&self) -> String {
        let mut text = Exposition::default();
        text.family("weir_build_info", "gauge", "Always 1, with the version of weir-gateway as a label.");
        text.sample("weir_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let help = "Requests received, including rejected requests and requests whose headers timed out.";
        text.family("weir_requests_total", "counter", help);
        for (name, listener) in &self.listeners {
            text.sample("weir_requests_total", &[("listener", name)], listener.requests);
        }
        let help = "Responses started, by status class, including interim responses and responses of the gateway itself.";
        text.family("weir_responses_total", "counter", help);
        for (name, listener) in &self.listeners {
            for (class, count) in listener.by_status.classes() {
                text.sample("weir_responses_total", &[("listener", name), ("status", class)], count);
            }
        }
        text.family("weir_errors_total", "counter", "Failed requests, connections and handshakes, by cause.");
        for (name, listener) in &self.listeners {
            for (cause, count) in &listener.errors {
                text.sample("weir_errors_total", &[("listener", name), ("cause", cause)], *count);
            }
        }
        let help = "Request header fields dropped because of their name.";
        text.family("weir_request_fields_dropped_total", "counter", help);
        for (name, listener) in &self.listeners {
            text.sample("weir_request_fields_dropped_total", &[("listener", name)], listener.fields_dropped);
        }
        text.family(
            "weir_connections_accepted_total",
            "counter",
            "Client connections accepted, including \
            those over the limit.",
        );
        for (name, listener) in &self.listeners {
            text.sample(
                "weir_connections_accepted_total",
                &[("listener", name)],
                listener.connections.accepted,
            );
        }
        text.family("weir_connections_open", "gauge", "Open client connections.");
        for (name, listener) in &self.listeners {
            text.sample("weir_connections_open", &[("listener", name)], listener.connections.open);
        }
        let help = "Client connections that a worker handed over to another worker, so that no worker has more than \
        1.25 times the mean number of connections. Other metrics count each of them once.";
        text.family("weir_connections_handed_total", "counter", help);
        for (name, listener) in &self.listeners {
            text.sample("weir_connections_handed_total", &[("listener", name)], listener.connections.handed);
        }
        text.family(
            "weir_connections_upgraded_total",
            "counter",
            "Client connections upgraded to another \
            protocol (101).",
        );
        for (name, listener) in &self.listeners {
            let upgraded = listener.connections.upgraded;
            text.sample("weir_connections_upgraded_total", &[("listener", name)], upgraded);
        }
        self.append_tls(&mut text);
        self.append_upstream(&mut text);
        self.append_certificates(&mut text);
        self.append_workers(&mut text);
        self.access_log.append(&mut text);
        self.overload.append(&mut text);
        self.append_routes(&mut text);
        self.process.append(&mut text);
        text.into_text()
    }

    fn append_certificates(&self, text: &mut Exposition) {
        const NAME: &str = "weir_certificate_expiry_timestamp_seconds";
        text.family(
            NAME,
            "gauge",
            "Earliest expiry of the certificates of the listener, in seconds since 1970.",
        );
        for (listener, end) in &self.certificate_ends {
            text.sample(NAME, &[("listener", listener)], end);
        }
    }

    fn append_tls(&self, text: &mut Exposition) {
        let mut family = |name: &str, help: &str, value: &dyn Fn(&TlsStats) -> u64| {
            text.family(name, "counter", help);
            for (listener, stats) in &self.listeners {
                text.sample(name, &[("listener", listener)], value(&stats.tls));
            }
        };
        family("weir_tls_handshakes_total", "Completed TLS handshakes with clients.", &|tls| tls.handshakes);
        let help = "TLS handshakes with clients that resumed a session.";
        family("weir_tls_handshakes_resumed_total", help, &|tls| tls.resumed);
        let help = "Failed TLS handshakes with clients; weir_errors_total has the causes. A client that closes before \
                    its first byte is not counted.";
        family("weir_tls_handshakes_failed_total", help, &|tls| tls.failed);
        let help = "TLS handshake steps deferred in favor of other connections.";
        family("weir_tls_handshakes_delayed_total", help, &|tls| tls.delayed);
        let help = "TLS handshakes whose RSA signature was computed outside the worker.";
        family("weir_tls_handshakes_offloaded_total", help, &|tls| tls.offloaded);
        family("weir_tls_passed_on_total", "TLS connections passed through to a backend.", &|tls| {
            tls.passed_on
        });
    }

    fn append_upstream(&self, text: &mut Exposition) {
        let up = &self.upstream;
        let plain = [
            ("weir_upstream_handshakes_total", "Completed TLS handshakes with upstreams.", up.handshakes),
            (
                "weir_upstream_handshakes_resumed_total",
                "TLS handshakes with upstreams that resumed a session.",
                up.handshakes_resumed,
            ),
            ("weir_upstream_reused_total", "Requests sent over a reused upstream connection.", up.reused),
            (
                "weir_accept_pauses_total",
                "Pauses in accepting connections, for lack of file descriptors.",
                up.accept_pauses,
            ),
            (
                "weir_reloads_applied_total",
                "Configurations and changed files that took effect, in whole or in part.",
                self.reloads.applied,
            ),
            (
                "weir_reloads_refused_total",
                "Configurations and changed files rejected, in whole or in part; the previous ones stay active.",
                self.reloads.refused,
            ),
        ];
        for (name, help, value) in plain {
            text.family(name, "counter", help);
            text.sample(name, &[], value);
        }
        let mirror = &up.mirror;
        text.family("weir_mirror_copies_total", "counter", "Mirrored requests started.");
        text.sample("weir_mirror_copies_total", &[], mirror.copies);
        text.family(
            "weir_mirror_failures_total",
            "counter",
            "Mirrored requests without a complete response.",
        );
        text.sample("weir_mirror_failures_total", &[], mirror.failures);
        let help = "Requests not mirrored, by reason: crowded (too many copies are in flight) or too_long (the \
        request is too long).";
        text.family("weir_mirror_dropped_total", "counter", help);
        for (reason, count) in [("crowded", mirror.crowded), ("too_long", mirror.too_long)] {
            text.sample("weir_mirror_dropped_total", &[("reason", reason)], count);
        }
        text.family("weir_upstream_connections_open", "gauge", "Open upstream connections.");
        for (backend, count) in &up.open {
            text.sample("weir_upstream_connections_open", &[("backend", backend)], *count);
        }
        backends::append(&up.backends, text);
        up.names.append(text);
    }
}

impl ListenerStats {
    fn sum(workers: &[Arc<ListenerCounters>]) -> ListenerStats {
        let total =
            |of: &dyn Fn(&ListenerCounters) -> &Counter| workers.iter().map(|w| of(w).value()).sum::<u64>();
        let class = |class: usize| total(&|w| &w.by_class[class - 1]);
        let by_status = ByStatus {
            informational: class(1),
            success: class(2),
            redirection: class(3),
            client_error: class(4),
            server_error: class(5),
        };
        let upgraded = total(&|w| &w.upgraded);
        ListenerStats {
            requests: total(&|w| &w.requests),
            responses: class(2) + class(3) + class(4) + class(5) + upgraded,
            by_status,
            errors: Cause::ALL.iter().map(|c| (c.name(), total(&|w| &w.by_cause[c.index()]))).collect(),
            connections: Connections {
                accepted: total(&|w| &w.accepted),
                open: total(&|w| &w.open),
                upgraded,
                handed: total(&|w| &w.handed),
            },
            tls: TlsStats {
                handshakes: total(&|w| &w.handshakes),
                resumed: total(&|w| &w.handshakes_resumed),
                failed: total(&|w| &w.handshakes_failed),
                delayed: total(&|w| &w.handshakes_delayed),
                offloaded: total(&|w| &w.handshakes_offloaded),
                passed_on: total(&|w| &w.passed_on),
            },
            fields_dropped: total(&|w| &w.fields_dropped),
        }
    }
}

impl ByStatus {
    pub(crate) fn classes(self) -> [(&'static str, u64); 5] {
        [
            ("1xx", self.informational),
            ("2xx", self.success),
            ("3xx", self.redirection),
            ("4xx", self.client_error),
            ("5xx", self.server_error),
        ]
    }

    pub(crate) fn add(&mut self, other: ByStatus) {
        self.informational += other.informational;
        self.success += other.success;
        self.redirection += other.redirection;
        self.client_error += other.client_error;
        self.server_error += other.server_error;
    }
}

impl MirrorStats {
    fn add(&mut self, worker: &UpstreamCounters) {
        self.copies += worker.copies.value();
        self.failures += worker.copy_failures.value();
        self.crowded += worker.copies_crowded.value();
        self.too_long += worker.copies_too_long.value();
    }
}

impl Connections {
    fn add(&mut self, other: Connections) {
        self.accepted += other.accepted;
        self.open += other.open;
        self.upgraded += other.upgraded;
        self.handed += other.handed;
    }
}

impl TlsStats {
    fn add(&mut self, other: TlsStats) {
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.failed += other.failed;
        self.delayed += other.delayed;
        self.offloaded += other.offloaded;
        self.passed_on += other.passed_on;
    }
}
