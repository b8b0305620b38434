//! The data plane: listeners, connections, exchanges, upstream pools, admin.
//!
//! It serves clients according to tables that `weir-config` compiles, whatever the source of the configuration.
//!
//! ```text
//! Gateway (gateway.rs) --- commands, table by pointer swap ---> Worker (worker.rs), one thread each
//!    |- Crew (crew.rs): running and leaving workers                |- Wheel (wheel.rs): a clock of 100 ms, deadlines
//!    |- OpenListener (sockets.rs): all sockets, dealt out -------> |- Listening (listener.rs), copies of its sockets
//!    |                                                             |  Spread (spread.rs): clients for other workers
//!    |                                                             |- Peers (peers.rs): commands to other workers
//!    |- Stats (stats.rs) <-- counters with one writer each ------- |- Snapshot (snapshot.rs): table and pools (pool.rs)
//!    |- Admin (admin.rs): one thread                               |- Exhaustion (exhaustion.rs): no descriptors left
//!    |- Successors (handover.rs): sockets for the next process     |
//!    |- LogWriter (log.rs): one thread, lines from every worker
//!    |- Offload (offload.rs): a few threads for RSA signatures
//!    |- HealthChecks (health.rs), NameLookups (names.rs), MemoryWatch (overload.rs): one thread each, if needed
//!                                                                  |- Client (connection.rs), a task each
//!                                                                       proxied.rs: clients behind a PROXY protocol balancer
//!                                                                       passthrough.rs: TLS passed on by SNI
//!                                                                       secure.rs: TLS handshake, in turns (turns.rs)
//!                                                                       plan (request.rs): parse, route, new headers
//!                                                                         dropped_fields.rs: request fields that are dropped
//!                                                                         filtered.rs, weights.rs: routes with filters
//!                                                                         answer (answer.rs): responses of a route itself
//!                                                                         forwarding.rs, trace.rs: forwarding and trace headers
//!                                                                       exchange (exchange.rs): upstream.rs, send.rs, body.rs, retry.rs
//!                                                                         upstream_socket.rs: TCP or a Unix socket
//!                                                                         waiting.rs: requests beyond a backend's limits
//!                                                                         leaving.rs: clients that disconnect meanwhile
//!                                                                       relay (response.rs), tunnel.rs after a 101
//!                                                                         route_limits.rs, mirror.rs, compress.rs: where a route has them
//!                                                                       refuse (respond.rs): a response of the gateway
//!                                                                       observed.rs, log_line.rs: access log
//! ```
//!
//! `explain` (explain.rs) shows the result for a request without a running gateway. It uses the same `plan`.
//!
//! # The cost of an exchange
//! An exchange costs two reads, two writes and a share of a poll. Apart from these, a request makes no system call,
//! takes no lock, allocates nothing and reads no clock. This works because:
//! - sockets, including upstream ones, are registered once and stay registered as long as they are kept open;
//! - deadlines are numbers on the worker's wheel, not timers;
//! - a read that did not fill its buffer has emptied the socket, so no second read follows;
//! - socket reads and writes bypass the C library's cancellation points (plain.rs);
//! - headers and body leave in one write if both are available;
//! - the code for plain text and for TLS is compiled separately, both for clients and for upstreams, so reads and
//!   writes do not check which one applies;
//! - counters are updated with plain stores, and the reader sums them; tables are compared by pointer.
//!
//! # Changes to messages
//! - Hop-by-hop fields and those named by `Connection` stay on their connection. `Host` goes first and unchanged; for
//!   an HTTP/1.0 client without `Host`, it is the backend's first endpoint.
//!   `Via`, `Forwarded` and `X-Forwarded-*` are neither added nor changed unless `forwarding` is configured. This keeps
//!   comparisons between gateways fair.
//! - Chunked bodies get new framing: chunk extensions are dropped, and so are trailers that `trailers` does not allow.
//!   Bodies that end with the connection become chunked for HTTP/1.1 clients. HTTP/1.0 clients get neither chunks nor
//!   interim responses.
//! - Request fields whose names contain characters other than letters, digits and `-` are dropped. So is `Proxy`.
//! - Paths are routed and sent upstream in normal form. A path without a normal form is rejected (400), see
//!   `weir-config`. CONNECT gets a 501. An upgrade that the upstream accepts becomes a tunnel; `h2c` is never offered
//!   to the upstream.
//! - A response without `Date` gets one (RFC 9110, 6.6.1).
//! - A response of the gateway itself carries `X-Weir-Error` with a name from [`Cause`]. If an upstream response fails
//!   after its start, the client connection is reset, so that the response never looks complete.
//! - If the gateway cannot connect to an endpoint, it tries the next one: at most three endpoints, or only one if the
//!   request is a retry. Nothing was sent, so this is safe for any request.
//! - If a kept connection turns out to be closed before the first byte of the response, the gateway sends the request
//!   once more over a new connection. This requires that no byte of the request was sent, or that the request is
//!   idempotent and still completely in memory. All other retries follow the route's `retries`, within the backend's
//!   budget.
//!
//! # Shutdown
//! When a listener is removed, the kernel sends no new connections to its sockets. The workers accept the clients that
//! are queued or still connecting, then close the sockets. Connections end after their current exchange, with
//! `Connection: close`. Idle connections end after a second, in which a last request may arrive. Surplus workers give
//! their sockets to other workers, and end with their last client. During an upgrade, the old process leaves the
//! sockets open for the new one.

mod addresses;
mod admin;
mod admin_hosts;
mod admin_pages;
mod affinity;
mod answer;
mod backend_state;
mod backend_states;
mod balance;
mod beside;
mod body;
mod buffer;
mod cause;
mod certificates;
mod clusters;
mod compress;
mod connection;
mod counters;
mod crew;
mod dropped_fields;
mod endpoint_state;
mod entropy;
mod error_window;
mod exchange;
mod exhaustion;
mod explain;
mod exposition;
mod filtered;
mod follower;
mod forwarding;
mod gateway;
mod handover;
mod health;
mod hello;
mod idle_clients;
mod idle_memory;
mod io;
mod leaving;
mod life;
mod listener;
mod log;
mod log_line;
mod memory;
mod mirror;
mod names;
mod observed;
mod offload;
mod overload;
mod parses;
mod passthrough;
mod peers;
mod plain;
mod pool;
mod process_stats;
mod program_log;
mod proxied;
mod proxy_header;
mod request;
mod resolver;
mod respond;
mod response;
mod retire;
mod retry;
mod route_limits;
mod route_stats;
mod secure;
mod secure_upstream;
mod send;
mod series;
mod snapshot;
mod sockets;
mod spread;
mod stats;
mod trace;
mod trailers;
mod tunnel;
mod turns;
mod upstream;
mod upstream_socket;
mod waiting;
mod weights;
mod wheel;
mod worker;

pub use admin::Admin;
pub use admin_hosts::AdminHost;
pub use cause::Cause;
pub use explain::{Explanation, Outcome, explain};
pub use gateway::{Gateway, GatewayError, Phase, Reopened, listen_remedy};
pub use handover::{HandoverError, Predecessor, Successor, Successors};
pub use log::{AccessLogStats, LogLevel};
pub use overload::OverloadStats;
pub use process_stats::ProcessStats;
pub use program_log::level_filter;
pub use route_stats::{LatencyStats, RouteStats};
pub use sockets::Passed;
pub use stats::{
    BackendStats, ByStatus, Connections, ListenerStats, Metric, MirrorStats, NameStats, ReloadStats, Stats,
    TlsStats, UpstreamStats, WorkerStats, metrics,
};
