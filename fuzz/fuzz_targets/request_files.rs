//! Files of requests: lists, JSON lines, HAR.
//!
//! The first byte of the input selects the ending of the file name; the rest is the file. Parsing returns requests, or
//! an error with the reason, and never panics. Parsing again returns the same requests.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_engine::request_file::{Base, parse};
use weir_engine::{LoadSpec, RequestSpec};

const NAMES: [&str; 4] = ["requests.txt", "requests.jsonl", "session.har", "requests"];

fuzz_target!(|data: &[u8]| {
    let [name, text @ ..] = data else { return };
    let name = NAMES[usize::from(*name) % NAMES.len()];
    let base = Base { request: RequestSpec::default(), is_method_given: false, is_https: false };
    match parse(name, text, &base) {
        Ok(requests) => {
            assert!(!requests.is_empty());
            assert_eq!(parse(name, text, &base).ok().as_ref(), Some(&requests));
            // Validation may fail if a template needs something that this load lacks, like a domain.
            let spec = LoadSpec { connect: "localhost:80".into(), requests, ..LoadSpec::default() };
            let _ = spec.validate();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
