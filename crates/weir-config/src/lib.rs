//! The configuration of the gateway: its form, its validation, and the table that workers route by.
//!
//! ```text
//! Configuration ------> Batch of Changes --> State ----------------> Table
//! model/ filters/       change.rs            check/ resources/       table/ matching/
//!                                            credentials/ tls/
//! ```
//!
//! - A **source** (a file; later Kubernetes, NATS, xDS) sends [`Batch`]es of [`Change`]s. Each change concerns one
//!   resource with a [`Key`], and has its own outcome.
//! - [`State`] is the active configuration. It refuses an invalid batch whole, or only its invalid resources
//!   ([`Policy`]).
//! - The source reads the files that listeners and routes name (certificates, keys, tokens) and sends them as
//!   resources. This crate loads them once per change; the table contains the result.
//! - `filters/` is what a route does besides forwarding: header changes, redirects, CORS, weights. [`Filters`] is its
//!   form for the data plane.
//! - [`Table`] is compiled from a state, immutable, and shared by all workers. A new table shares everything that a
//!   batch did not touch with the one before. The most specific route for a [`RequestView`] wins, by the precedence of
//!   Gateway API. A lookup costs as much as the request has labels and segments, whatever the number of routes.
//! - [`State::warnings`] lists what is valid but probably not intended, [`State::summary`] what a configuration
//!   contains.
//!
//! This crate does no I/O, and depends on no source and no data plane.

mod change;
mod check;
mod collections;
mod credentials;
mod files;
mod filters;
mod host;
mod matching;
mod model;
mod path;
mod problem;
mod resources;
mod schema;
mod state;
mod summary;
mod table;
mod tls;
mod warnings;

pub use change::{Batch, Change, Key, Policy, Resource};
pub use collections::Pages;
pub use credentials::TokenSet;
pub use files::Content;
pub use filters::{
    Action, Compress, CompressPolicy, Copies, Cors, CorsPolicy, Filters, HeaderChanges, Mirror, Preflight,
    Redirect, Respond, Rewrite, RewriteParts, RouteTimeouts, Scheme, WeightedBackend, WeightedPosition,
};
pub use host::host_and_port;
pub use matching::{RequestView, Scope};
pub use model::{
    AccessLog, B3, Backend, BackendLimits, BackendTimeouts, BackendTls, Balance, CertificateFiles,
    ClientAuth, Configuration, Drain, Ejection, Endpoint, EndpointAddress, ErrorShare, Forwarding, HashKey,
    HealthCheck, Instead, Keepalive, Limits, Listener, LogLine, LogPiece, LogStyle, LogValue, Member,
    MemoryBound, Metrics, OneOrMany, Overload, Passthrough, Precedence, ProgramLog, ProgramLogFormat,
    ProxyVersion, RequestId, Resolver, Retries, RetryOn, Route, SYSTEM_AUTHORITIES, Settings, Severity,
    Sticky, TicketKeys, Tickets, Timeouts, Tls, TlsVersion, Trace, Trailers, TrustedHeader, UnknownSeverity,
    UpstreamAddress, ValueMatch,
};
pub use path::{EscapedSlashes, NormalTarget, PathParameters, PathProblem, PathRules, Unroutable, rewritten};
pub use schema::{FORMS, schema};
pub use state::{Applied, State};
pub use summary::{CertificateSummary, ListenerSummary, Summary};
pub use table::{
    BackendEntry, ListenerId, Maglev, Match, OTHER_GROUPS, PassedOver, Series, ShownCertificate, Table,
    Target, stable_hash,
};
pub use tls::{ByName, Destination, Transport, UpstreamTls, sha256};
