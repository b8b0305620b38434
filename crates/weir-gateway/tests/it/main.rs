//! Tests of the gateway's process.

mod files;
mod malformed;
mod manual;
mod process;
