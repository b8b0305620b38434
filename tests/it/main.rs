//! End to end: the programs as a user starts them. Asserts counts, books, exit codes and what is left over;
//! never how long something took.

// In tests an unwrap is an assertion, and `pub` says what a module offers to the others.
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
mod two_runs;
mod verdicts;
mod watching;
mod wrong_use;
mod yard;
