//! Reads and translates manifests, and checks the routes and listeners of the resulting table.

// The clippy setting that allows this in tests does not apply to helpers.
#![allow(clippy::unwrap_used)]

mod misfits;
mod reading;
mod routes;
mod setup;
