//! Tests at the crate's boundary.

mod bodies;
mod connections;
mod list_work;
mod property;
mod requests;
mod responses;
mod seeds;
mod trusted;
mod trusted_property;
