//! The engine against peers on loopback that behave well and badly. Counts and causes are asserted, never times.
#![allow(clippy::unwrap_used)]

mod behaviour;
mod books;
mod http2;
mod load;
mod peer;
mod relay;
mod requests;
mod secured;
mod shards;
