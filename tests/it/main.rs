//! End-to-end tests: they start the programs as a user does. They check counts, balances, exit codes and leftovers,
//! never durations.

// In tests an unwrap is an assertion, and `pub` marks items that other modules use.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod added_latency;
mod agents;
mod capacity;
mod changing;
mod compare;
mod configurations;
mod control;
mod crash;
mod drivers;
mod exchange;
mod extend;
mod failover;
mod gates;
mod headroom;
mod hints;
mod images;
mod kubernetes;
mod load;
mod many_domains;
mod misbehaving;
mod network;
mod objectives;
mod origins;
mod pages;
mod peers;
mod places;
#[cfg(feature = "kubernetes")]
mod pods;
mod program;
mod prometheus;
mod reference;
mod remote;
mod rootless;
mod run;
#[cfg(feature = "nats")]
mod service_faults;
#[cfg(feature = "nats")]
mod services;
mod sessions;
mod silent;
mod size;
mod sliders;
mod slow_clients;
mod ssh;
mod storm;
mod summary;
mod sweeps;
mod tables;
mod tls;
mod transports;
mod tutorials;
mod two_runs;
mod verdicts;
mod watching;
mod wrong_use;
mod yard;
