//! The load engine: sends requests at intended times, and records latencies, counts and errors.
//!
//! [`run`] drives a [`LoadSpec`] and returns a [`weir_results::LoadRecord`]. Each worker is one thread, and takes
//! no locks while it sends requests and reads responses. The [`Schedule`], the flow, the counts and the recorder
//! use neither sockets nor clocks, and are tested in virtual time. The worker's loop does the I/O.
//!
//! Several engines on several machines can drive one load together. [`ShardSpec`] says which part each of them
//! drives.
//!
//! This crate must not depend on gateways, scenarios or reports.

mod error;
mod exchange;
mod flow;
mod link;
mod pacing;
mod record;
mod recording;
mod request;
pub mod request_file;
mod resolve;
mod run;
mod slow;
mod spec;
mod timeline;
mod tls;
mod warm_up;
mod worker;

pub use error::EngineError;
pub use pacing::schedule::{Arrivals, NEVER_NS, Profile, Schedule, hash};
pub use pacing::think::Think;
pub use run::{Gate, LiveSecond, Progress, run, run_behind};
pub use slow::{SlowSpec, run_slow};
pub use spec::{
    Body, CONNECTIONS_MAX, Check, ChecksSpec, LoadSpec, ModelSpec, ProtocolSpec, RATE_MAX_PER_S,
    REQUESTS_MAX, RequestFileSpec, RequestSpec, ResolveSpec, Resumption, SHARDS_MAX, STEPS_MAX, STREAMS_MAX,
    ShardSpec, Spacing, StatusPattern, StepSpec, TlsSpec, TlsVersion, UNIX, WORKERS_MAX,
};
pub use tls::CertificateRejection;
