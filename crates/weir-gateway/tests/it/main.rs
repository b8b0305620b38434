//! Tests of the gateway's process.

mod browser;
mod explain;
mod files;
mod malformed;
mod manifests;
mod manual;
mod memory;
mod operations;
mod process;
mod scan;
mod tls;
mod upgrades;
