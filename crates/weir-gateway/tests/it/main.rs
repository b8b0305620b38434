//! Tests of the gateway's process.

mod browser;
mod explain;
mod files;
mod malformed;
mod manifests;
mod manual;
mod memory;
mod process;
mod scan;
mod tls;
