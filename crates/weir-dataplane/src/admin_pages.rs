//! What the admin server shows of a gateway beside its counters, and what it can be asked to do.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::certificates;
use crate::gateway::Gateway;
use crate::log::LogLevel;
use crate::stats::ByStatus;

/// The configuration in force, without secrets.
pub(crate) fn config(gateway: &Gateway) -> Value {
    let table = gateway.table();
    json!({ "version": table.version, "configuration": table.shown() })
}

/// A backend and what was counted of it.
#[derive(Debug, Default, Serialize)]
struct Cluster {
    tls: bool,
    endpoints: Vec<String>,
    /// Connections now.
    open: u64,
    /// Final responses to requests that were meant for it, those of the gateway itself too.
    by_status: ByStatus,
}

/// The backends in force, with their endpoints and counters.
pub(crate) fn clusters(gateway: &Gateway) -> Value {
    let (table, stats) = (gateway.table(), gateway.stats());
    let mut clusters: BTreeMap<&str, Cluster> = BTreeMap::new();
    for entry in table.backends() {
        clusters.insert(
            &entry.name,
            Cluster {
                tls: entry.tls.is_some(),
                endpoints: entry
                    .backend
                    .endpoints
                    .iter()
                    .map(|endpoint| endpoint.address.to_string())
                    .collect(),
                open: stats.upstream.open.get(&entry.name).copied().unwrap_or_default(),
                by_status: ByStatus::default(),
            },
        );
    }
    for route in &stats.routes {
        if let Some(cluster) = clusters.get_mut(route.backend.as_str()) {
            cluster.by_status.add(route.by_status);
        }
    }
    json!({ "clusters": clusters })
}

/// The certificates of listeners, with the days that they have left.
pub(crate) fn certs(gateway: &Gateway) -> Value {
    json!({ "certificates": certificates::pages(&gateway.table()) })
}

/// How much of the access log is written.
pub(crate) fn log(gateway: &Gateway) -> Value {
    json!({ "level": gateway.log_level().name() })
}

/// Sets how much of the access log is written, by the query of a request; what is wrong with it, if anything.
pub(crate) fn set_log(gateway: &Gateway, query: &str) -> Result<Value, String> {
    let level = query.strip_prefix("level=").and_then(LogLevel::named);
    let Some(level) = level else {
        let names: Vec<&str> = LogLevel::ALL.iter().map(|level| level.name()).collect();
        return Err(format!("ask for /log?level=LEVEL, where LEVEL is one of {}\n", names.join(", ")));
    };
    gateway.set_log_level(level);
    Ok(log(gateway))
}
