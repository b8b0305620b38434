//! The sections of a report: tables and texts that are built from a run and its summary.

pub(crate) mod build;
pub(crate) mod cells;
pub(crate) mod environment;
pub(crate) mod findings;
pub(crate) mod foreign;
pub(crate) mod glance;
pub(crate) mod inventory;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod sharpen;
pub(crate) mod tables;
pub(crate) mod trials;
pub(crate) mod unequal;
