//! Pages and commands of the admin server, except counters.

use serde_json::{Value, json};
use weir_config::Severity;

use crate::gateway::Gateway;
use crate::log::LogLevel;
use crate::program_log::level_filter;
use crate::{certificates, clusters};

/// The active configuration without secrets.
pub(crate) fn config(gateway: &Gateway) -> Value {
    let table = gateway.table();
    json!({ "version": table.version, "configuration": table.shown() })
}

/// The active backends with their endpoints and counters.
pub(crate) fn clusters(gateway: &Gateway) -> Value {
    json!({ "clusters": clusters::pages(gateway) })
}

/// The certificates of listeners and the days until each expires.
pub(crate) fn certs(gateway: &Gateway) -> Value {
    json!({ "certificates": certificates::pages(&gateway.table()) })
}

/// The level of the access log.
pub(crate) fn log(gateway: &Gateway) -> Value {
    json!({ "level": gateway.log_level().name() })
}

/// Sets the level of the access log from the query of a request. Returns an error text if the query is invalid.
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

/// The level of the program log.
pub(crate) fn log_level() -> Value {
    // The level is in lower case, as in configuration files. It is `off` if the program does not log.
    json!({ "level": ::log::max_level().as_str().to_ascii_lowercase() })
}

/// Sets the level of the program log from the query of a request. Returns an error text if the query is invalid.
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
