//! Tests of the public API.

mod bodies;
mod connections;
mod list_work;
mod property;
mod requests;
mod responses;
mod seeds;
mod trusted;
mod trusted_property;
