//! Tests of the gateway's process.

mod access_log;
mod admin;
mod alerts;
mod browser;
mod changes;
mod check;
mod completions;
mod compress;
mod draining;
mod explain;
mod files;
mod malformed;
mod manifests;
mod manual;
mod memory;
mod metrics;
mod mistakes;
mod nginx;
mod operations;
mod outputs;
mod pages;
mod process;
mod program_log;
mod reference;
mod scan;
mod schema;
mod tls;
mod trusted_hops;
mod upgrades;
#[path = "../../../weir-dataplane/tests/it/versions.rs"]
mod versions;
