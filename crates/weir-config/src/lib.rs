//! The configuration of the gateway: its structure, its validation, and the table that workers use for routing.
//!
//! ```text
//! Configuration ------> Batch of Changes --> State ----------------> Table
//! model/ filters/       change.rs            check/ resources/       table/ matching/
//!                                            credentials/ tls/
//! ```
//!
//! - A **source**, such as a file, sends [`Batch`]es of [`Change`]s. Each change sets or removes one resource with a
//!   [`Key`].
//! - [`State`] is the active configuration. If a batch contains invalid resources, it refuses either the whole batch or
//!   only these resources ([`Policy`]).
//! - The source reads the files that the configuration names (certificates, keys, tokens) and sends them as resources.
//!   This crate parses them once per change; the table contains the result.
//! - `filters/` defines what a route does besides forwarding: header changes, redirects, CORS, weights. [`Filters`] is
//!   the compiled form for the data plane.
//! - [`Table`] is compiled from a state, immutable, and shared by all workers. A new table shares all unchanged parts
//!   with the previous one. The most specific route for a [`RequestView`] wins, by the precedence of Gateway API. The
//!   cost of a lookup grows with the labels of the host and the segments of the path, not with the number of routes.
//! - [`State::warnings`] lists settings that are valid but probably not intended. [`State::summary`] counts what a
//!   configuration contains.
//!
//! This crate does no I/O and depends neither on a source nor on the data plane.

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
