//! The load engine: pacing x request source x connection x recorder x stop.
//!
//! [`run`] drives a [`LoadSpec`] and gives a [`weir_results::LoadRecord`]. One thread per worker, nothing
//! shared on the request path. What is due and what became of it ([`Schedule`], the flow, the books, the
//! recorder) knows neither sockets nor clocks and is tested in virtual time; the worker's loop moves the bytes.
//!
//! Several engines on several machines can carry one load together: [`ShardSpec`] says which part is whose.
//!
//! It must not know gateways, scenarios or reports.

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
