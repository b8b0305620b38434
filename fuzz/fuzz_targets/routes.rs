//! Routes and requests: the compiled table against a naive oracle.
//!
//! Each input byte makes one choice in the generation of path rules, routes and requests. `routing`, which `cargo test`
//! also runs, checks the properties that must hold.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/weir-config/tests/it/draw.rs"]
#[allow(dead_code)]
mod draw;
#[path = "../../crates/weir-config/tests/it/oracle.rs"]
mod oracle;
#[path = "../../crates/weir-config/tests/it/routing.rs"]
mod routing;

/// Requests for each configuration; after the end of the input, all are the same.
const REQUESTS: usize = 8;

fuzz_target!(|data: &[u8]| {
    routing::check(&mut draw::Draw::from_bytes(data), REQUESTS);
});
