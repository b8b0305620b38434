//! Load from many machines as if from one (`docs/method.md#many-machines`).
//!
//! An [`agent`] connects to a [`Coordinator`] over mutual TLS, with a [`Ticket`] that the run made. The coordinator
//! assigns each agent its shard of a load, compares their clocks, starts all of them at one moment, and gets what each
//! measured. [`Round`] decides what happens to one load; it is pure, so it is tested without sockets and clocks.

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
