//! Generates load from many machines as if from one (`docs/method.md#many-machines`).
//!
//! An [`agent`] connects to a [`Coordinator`] over mutual TLS, with a [`Ticket`] of the run. The coordinator assigns
//! each agent its shard of a load, compares clocks, starts all agents at the same time, and collects their results.
//! [`Round`] decides what happens next in one load. It does no I/O, so tests need neither sockets nor clocks.

pub mod agent;
mod clock;
mod coordinator;
mod error;
mod files;
mod link;
mod message;
mod round;
mod ticket;

pub use clock::{ClockOffset, Clocks, Exchange};
pub use coordinator::{AgentInfo, Coordinator, Look, Measured, Order};
pub use error::{AgentError, RoundFailure};
pub use files::{FileMap, read_files};
pub use message::{
    AgentFailure, Assignment, Hello, PROTOCOL, SampleReport, SampleSpan, Sampling, Served, Serving,
    ShardReport,
};
pub use round::{Action, Round, Said};
pub use ticket::{Authority, Ticket};
