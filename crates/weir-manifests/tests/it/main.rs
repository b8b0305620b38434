//! Manifests that are read and translated, tested through the gateway's route table.

// The setting that allows this in tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod misfits;
mod reading;
mod routes;
mod setup;
