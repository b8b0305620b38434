//! Tests of the gateway's process.

mod malformed;
mod manual;
mod process;
