//! Tests of the gateway's process.

mod access_log;
mod admin;
mod browser;
mod changes;
mod explain;
mod files;
mod malformed;
mod manifests;
mod manual;
mod memory;
mod metrics;
mod operations;
mod process;
mod scan;
mod tls;
mod upgrades;
#[path = "../../../weir-dataplane/tests/it/versions.rs"]
mod versions;
