//! Client addresses behind trusted proxies: whatever a client sends, what the proxies appended is read the same.
//!
//! Each byte of the input is one choice: what the client sends, then what each proxy appends. What must hold is said in
//! `trusted_property`, which `cargo test` runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/weir-http/tests/it/trusted_property.rs"]
mod trusted_property;

fuzz_target!(|data: &[u8]| trusted_property::check(data));
