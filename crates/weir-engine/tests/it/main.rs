//! The engine against correct and faulty peers on loopback. Tests assert counts and causes, never times.
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
