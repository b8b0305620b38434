//! Complete HTTP/1.1 connections that carry requests or responses, split at every byte.
//!
//! The first byte of the input chooses the side, the second the size of the pieces; the rest is what the connection
//! carries. The properties that must hold are in `property`, which `cargo test` runs too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_http::ResponseTo;

#[path = "../../crates/weir-http/tests/it/property.rs"]
mod property;

use property::{Side, check, check_quickly};

/// Longer inputs are not cut at every byte, because one such input would take as long as a hundred others.
const BYTES_MAX_TO_CUT: usize = 512;

fuzz_target!(|data: &[u8]| {
    let [side, stride, connection @ ..] = data else { return };
    let side = match side % 4 {
        0 => Side::Responses(ResponseTo::Head),
        1 => Side::Responses(ResponseTo::Connect),
        2 => Side::Responses(ResponseTo::Other),
        _ => Side::Requests,
    };
    let stride = usize::from(*stride % 64) + 1;
    if connection.len() <= BYTES_MAX_TO_CUT {
        check(side, connection, stride);
    } else {
        check_quickly(side, connection, stride);
    }
});
