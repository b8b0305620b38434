//! The load engine: pacing x request source x connection x recorder x stop.
//!
//! [`run`] drives a [`LoadSpec`] and gives a [`weir_results::LoadRecord`]. One thread per worker, nothing
//! shared on the request path. What is due and what became of it ([`Schedule`], the flow, the books, the
//! recorder) knows neither sockets nor clocks and is tested in virtual time; the worker's loop moves the bytes.
//!
//! It must not know gateways, scenarios or reports.

mod books;
mod certificate_fault;
mod error;
mod exchange;
mod flow;
mod link;
mod names;
mod pace;
mod pauses;
mod record;
mod recorder;
mod request;
pub mod request_file;
mod resolve;
mod routes;
mod run;
mod schedule;
mod settle;
mod slow;
mod source;
mod spec;
mod steps;
mod think;
mod tickets;
mod timeline;
mod tls;
mod usage;
mod warm_up;
mod worker;

pub use certificate_fault::CertificateFault;
pub use error::EngineError;
pub use run::{Progress, run};
pub use schedule::{Arrivals, NEVER_NS, Profile, Schedule, hash};
pub use slow::{SlowSpec, run_slow};
pub use spec::{
    Body, BurstSpec, CONNECTIONS_MAX, ChecksSpec, ClientCertificate, LoadSpec, ModelSpec, ProtocolSpec,
    RATE_MAX_PER_S, REQUESTS_MAX, RequestFileSpec, RequestSpec, ResolveSpec, STEPS_MAX, STREAMS_MAX, Spacing,
    StepSpec, ThinkSpec, TlsSpec, TlsVersion, UNIX, WORKERS_MAX,
};
pub use think::Think;
