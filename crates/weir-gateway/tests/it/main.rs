//! Tests of the gateway's process.

mod access_log;
mod admin;
mod browser;
mod changes;
mod check;
mod explain;
mod files;
mod malformed;
mod manifests;
mod manual;
mod memory;
mod metrics;
mod mistakes;
mod operations;
mod process;
mod scan;
mod schema;
mod tls;
mod upgrades;
#[path = "../../../weir-dataplane/tests/it/versions.rs"]
mod versions;
