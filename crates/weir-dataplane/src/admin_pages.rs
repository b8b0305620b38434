//! What the admin server shows of a gateway beside its counters, and what it can be asked to do.

use serde_json::{Value, json};
use weir_config::Severity;

use crate::gateway::Gateway;
use crate::log::LogLevel;
use crate::program_log::level_filter;
use crate::{certificates, clusters};

/// The configuration in force, without secrets.
pub(crate) fn config(gateway: &Gateway) -> Value {
    let table = gateway.table();
    json!({ "version": table.version, "configuration": table.shown() })
}

/// The backends in force, with their endpoints and counters.
pub(crate) fn clusters(gateway: &Gateway) -> Value {
    json!({ "clusters": clusters::pages(gateway) })
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
        return Err(format!(
            "invalid query; use /log?level=LEVEL, with one of the levels {}\n",
            names.join(", ")
        ));
    };
    gateway.set_log_level(level);
    Ok(log(gateway))
}

/// How much of the program's own log is written.
pub(crate) fn log_level() -> Value {
    // In lower case, as configurations have it; `off` where the program has none.
    json!({ "level": ::log::max_level().as_str().to_ascii_lowercase() })
}

/// Sets how much of the program's own log is written, by the query of a request; what is wrong with it, if anything.
pub(crate) fn set_log_level(query: &str) -> Result<Value, String> {
    let level: Option<Severity> = query.strip_prefix("level=").and_then(|name| name.parse().ok());
    let Some(level) = level else {
        let names = Severity::ALL.map(Severity::name);
        return Err(format!(
            "invalid query; use /log_level?level=LEVEL, with one of the levels {}\n",
            names.join(", ")
        ));
    };
    ::log::set_max_level(level_filter(level));
    Ok(log_level())
}
