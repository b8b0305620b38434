//! Tests of the data plane in this process, between test clients and scripted origins.

// Clippy allows `unwrap` in test functions, but not in the helpers beside them.
#![allow(clippy::unwrap_used)]

mod access_log;
mod answers;
mod balance;
mod breakers;
mod compress;
mod cors;
mod drain;
#[path = "../../../weir-config/tests/it/draw.rs"]
#[allow(dead_code)]
mod draw;
mod dropped_fields;
mod examples;
mod explain;
mod failures;
mod filters;
mod forwarding;
mod health;
mod leaving;
mod limits;
mod list_work;
mod listeners;
mod matching;
mod metrics;
mod mirror;
mod names;
mod overload;
mod paths;
mod proxy_protocol;
mod reload;
mod requests;
mod responses;
mod retries;
mod route_limits;
mod setup;
mod spread;
mod storm;
mod streams;
mod tls;
mod tokens;
mod trailers;
mod unix;
mod upgrade;
mod versions;
mod weights;
mod workers;
