//! The gateway's configuration: what it can say, whether it holds together, and the table that workers route by.
//!
//! ```text
//! Configuration (a file's form) --> Batch of keyed Changes --> State ---------> Table
//!      model.rs                        change.rs            state.rs builder.rs table.rs
//! ```
//!
//! - A **source** (a file; later Kubernetes, NATS, xDS) speaks in [`Batch`]es of [`Change`]s, each about one resource
//!   known by its [`Key`]. It gets an outcome for each resource.
//! - [`State`] is the sum of all batches. It refuses a bad batch whole, or only the bad resources in it, as the batch
//!   asks ([`Policy`]).
//! - Files that listeners and routes name (certificates, keys, tokens) come as resources of their own, read by the
//!   source. What TLS makes of them is made here, once for each change, and is part of the table.
//! - What a route does beside passing requests to a backend (other fields, redirects, CORS, weights, ..) stands in
//!   `filters.rs`; [`Filters`] is what the data plane gets of it.
//! - [`Table`] is compiled from a state, immutable, and shared by all workers. A batch costs what it touches: a table
//!   has all else in common with the one before (`builder.rs`). It is asked with a [`RequestView`]. The
//!   most specific route wins, by the precedence of Gateway API. What it costs to find depends on the request's labels
//!   and segments, never on the number of routes.
//! - What is right and most likely not meant is told by [`State::warnings`], what a configuration amounts to by
//!   [`State::summary`].
//!
//! This crate does no I/O, and knows of no source and no data plane.

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
pub use problem::Problem;
pub use schema::{reference, schema};
pub use state::{Applied, State};
pub use summary::{CertificateSummary, ListenerSummary, Summary};
pub use table::{
    BackendEntry, ListenerId, Maglev, Match, OTHER_GROUPS, PassedOver, Series, ShownCertificate, Table,
    Target, stable_hash,
};
pub use tls::{ByName, Destination, Transport, UpstreamTls, sha256};
