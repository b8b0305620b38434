//! Routes and requests: the compiled table against a naive oracle.
//!
//! Each byte of the input is one choice in the making of rules for paths, of routes, and of requests. What must hold
//! is said in `routing`, which `cargo test` runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/weir-config/tests/it/draw.rs"]
#[allow(dead_code)]
mod draw;
#[path = "../../crates/weir-config/tests/it/oracle.rs"]
mod oracle;
#[path = "../../crates/weir-config/tests/it/routing.rs"]
mod routing;

/// Requests for each configuration; what the input does not choose is the same again.
const REQUESTS: usize = 8;

fuzz_target!(|data: &[u8]| {
    routing::check(&mut draw::Draw::from_bytes(data), REQUESTS);
});
