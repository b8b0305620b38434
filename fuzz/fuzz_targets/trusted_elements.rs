//! Client addresses behind trusted proxies: the elements that the proxies appended are read correctly, whatever a
//! client sends.
//!
//! Each byte of the input is one choice: what the client sends, then what each proxy appends. `trusted_property` checks
//! the properties that must hold, and `cargo test` runs it too.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/weir-http/tests/it/trusted_property.rs"]
mod trusted_property;

fuzz_target!(|data: &[u8]| trusted_property::check(data));
