//! Manifests, read and translated, as the gateway's table sees them.

// The setting that allows this in tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod misfits;
mod reading;
mod routes;
mod setup;
