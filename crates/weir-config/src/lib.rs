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

mod access_log;
mod backend_limits;
mod backend_timeouts;
mod balance;
mod builder;
mod change;
mod conditions;
mod digest;
mod endpoint;
mod entry;
mod explain;
mod files;
mod filters;
mod forwarding;
mod health;
mod host;
mod keepalive;
mod listener_id;
mod maglev;
mod matches;
mod model;
mod names;
mod overload;
mod pages;
mod pairs;
mod passthrough;
mod path;
mod paths;
mod pattern;
mod policy;
mod precedence;
mod problem;
mod program_log;
mod reference;
mod resolver;
mod retries;
mod schema;
mod scope;
mod sealed;
mod series;
mod sharded;
mod shown;
mod state;
mod summary;
mod table;
mod tickets;
mod tokens;
mod trailers;
mod transport;
mod upstream_address;
mod upstream_tls;
mod uses;
mod validate;
mod validity;
mod view;
mod warnings;

pub use access_log::{AccessLog, LogLine, LogPiece, LogStyle, LogValue, Metrics};
pub use backend_limits::BackendLimits;
pub use backend_timeouts::BackendTimeouts;
pub use balance::{Balance, HashKey, Sticky};
pub use change::{Batch, Change, Key, Policy, Resource};
pub use digest::sha256;
pub use endpoint::{Endpoint, EndpointAddress, Member};
pub use entry::Target;
pub use explain::PassedOver;
pub use files::{Content, SYSTEM_AUTHORITIES};
pub use filters::{
    Action, Compress, CompressPolicy, Copies, Cors, CorsPolicy, Filters, HeaderChanges, Mirror, Preflight,
    Redirect, Respond, Rewrite, RewriteParts, RouteTimeouts, Scheme, WeightedBackend, WeightedPosition,
};
pub use forwarding::{B3, Forwarding, RequestId, Trace, TrustedHeader};
pub use health::{Ejection, ErrorShare, HealthCheck};
pub use host::host_and_port;
pub use keepalive::Keepalive;
pub use listener_id::ListenerId;
pub use maglev::{Maglev, stable_hash};
pub use matches::ValueMatch;
pub use model::{
    Backend, BackendTls, CertificateFiles, ClientAuth, Configuration, Drain, Instead, Limits, Listener,
    OneOrMany, Passthrough, ProxyVersion, Route, Settings, TicketKeys, Tickets, Timeouts, Tls, TlsVersion,
};
pub use overload::{MemoryBound, Overload};
pub use pages::Pages;
pub use passthrough::{ByName, Destination};
pub use path::{EscapedSlashes, NormalTarget, PathParameters, PathProblem, PathRules, Unroutable, rewritten};
pub use precedence::Precedence;
pub use problem::Problem;
pub use program_log::{ProgramLog, ProgramLogFormat, Severity, UnknownSeverity};
pub use reference::reference;
pub use resolver::Resolver;
pub use retries::{Retries, RetryOn};
pub use schema::schema;
pub use scope::Scope;
pub use series::{OTHER_GROUPS, Series};
pub use shown::ShownCertificate;
pub use state::{Applied, State};
pub use summary::{CertificateSummary, ListenerSummary, Summary};
pub use table::{BackendEntry, Match, Table};
pub use tokens::TokenSet;
pub use trailers::Trailers;
pub use transport::Transport;
pub use upstream_address::UpstreamAddress;
pub use upstream_tls::UpstreamTls;
pub use view::RequestView;
