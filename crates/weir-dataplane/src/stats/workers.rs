//! Statistics of workers: client connections, active configuration and lag.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::{Exposition, Stats};
use crate::counters::{ListenerCounters, UpstreamCounters};

/// One worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerStats {
    /// Open client connections.
    pub connections_open: u64,
    /// The table version that the worker used last.
    pub table_version: u64,
    /// Last delay of the worker's event loop in nanoseconds, measured every 100 ms.
    pub lag_ns: u64,
}

impl WorkerStats {
    /// The statistics of a worker, from its own counters.
    pub(crate) fn of(
        counters: &UpstreamCounters,
        listeners: &BTreeMap<String, Arc<ListenerCounters>>,
    ) -> WorkerStats {
        WorkerStats {
            connections_open: listeners.values().map(|listener| listener.open.value()).sum(),
            table_version: counters.table_version.value(),
            lag_ns: counters.lag_ns.value(),
        }
    }
}

impl Stats {
    pub(super) fn append_workers(&self, text: &mut Exposition) {
        let mut family = |name: &str, help: &str, value: &dyn Fn(&WorkerStats) -> u64| {
            text.family(name, "gauge", help);
            for (position, worker) in self.workers.iter().enumerate() {
                text.sample(name, &[("worker", &position.to_string())], value(worker));
            }
        };
        let help = "Open client connections of the worker. If a worker would exceed 1.25 times the mean number of \
        connections, it hands new connections to the worker with the fewest.";
        family("weir_worker_connections_open", help, &|worker| worker.connections_open);
        let help = "Version of the configuration that is active in the worker; equal in all workers once a change \
                    has taken effect.";
        family("weir_worker_table_version", help, &|worker| worker.table_version);
        let help = "Last delay of the worker's event loop, measured every 100 ms.";
        text.family("weir_worker_lag_seconds", "gauge", help);
        for (position, worker) in self.workers.iter().enumerate() {
            let seconds = worker.lag_ns as f64 / 1e9;
            text.sample("weir_worker_lag_seconds", &[("worker", &position.to_string())], seconds);
        }
    }
}
