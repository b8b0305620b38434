//! The data plane: listeners, connections, exchanges, upstream pools, admin.
//!
//! It takes compiled tables of `weir-config` and serves clients by them. Where configuration comes from it does not
//! know.
//!
//! ```text
//! Gateway (gateway.rs) --- commands, table by pointer swap ---> Worker (worker.rs), one thread each
//!    |- Crew (crew.rs): who serves, who leaves                     |- Wheel (wheel.rs): a clock of 100 ms, deadlines
//!    |- OpenListener (sockets.rs): all sockets, dealt out -------> |- Listening (listener.rs), copies of its sockets
//!    |                                                             |  Spread (spread.rs): clients for other workers
//!    |                                                             |- Peers (peers.rs): the others, to be asked for room
//!    |- Stats (stats.rs) <-- counters with one writer each ------- |- Snapshot (snapshot.rs): table and pools (pool.rs)
//!    |- Admin (admin.rs): a thread of its own                      |- Exhaustion (exhaustion.rs): no descriptors left
//!    |- Successors (handover.rs): sockets for the next process     |
//!    |- LogWriter (log.rs): a thread of its own, lines from every worker
//!    |- Offload (offload.rs): a few threads, for signatures by RSA
//!    |- HealthChecks (health.rs), NameLookups (names.rs), MemoryWatch (overload.rs): others, where there are any
//!                                                                  |- Client (connection.rs), a task each
//!                                                                       proxied.rs: whom a balancer connects for
//!                                                                       passthrough.rs: TLS passed on by its name
//!                                                                       secure.rs: the handshake first, in turns (turns.rs)
//!                                                                       plan (request.rs): parse, route, new head
//!                                                                         dropped_fields.rs: what nothing reads
//!                                                                         filtered.rs, weights.rs: routes with filters
//!                                                                         answer (answer.rs): what a route answers itself
//!                                                                         forwarding.rs, trace.rs: what upstreams are told
//!                                                                       exchange (exchange.rs): upstream.rs, send.rs, body.rs, retry.rs
//!                                                                         upstream_socket.rs: TCP or a Unix socket
//!                                                                         waiting.rs: requests beyond a backend's limits
//!                                                                         leaving.rs: clients that leave meanwhile
//!                                                                       relay (response.rs), tunnel.rs after a 101
//!                                                                         route_limits.rs, mirror.rs, compress.rs: where a route has them
//!                                                                       refuse (respond.rs): an answer of our own
//!                                                                       observed.rs, log_line.rs: what the log tells
//! ```
//!
//! What becomes of a request can be told without a gateway, too: `explain` (explain.rs) goes through the same `plan`.
//!
//! # What an exchange costs
//! Two reads, two writes and its share of a poll. Nothing else per request asks the kernel, takes a lock, allocates,
//! or looks at a clock. What makes that hold:
//! - sockets are registered once, upstream ones too, and stay so while they are kept;
//! - deadlines are numbers on the worker's wheel, not timers;
//! - a read that did not fill its buffer has emptied the socket, so it is not followed by another;
//! - sockets are read and written without the C library's points of cancellation (plain.rs);
//! - head and body leave in one write where both are there;
//! - code for plain text and for TLS is compiled apart, on both sides, so that neither asks for each byte which it is;
//! - counters are plain stores, summed by who asks; the table is compared by pointer.
//!
//! # What it does to messages
//! - Hop-by-hop fields and those named by `Connection` stay on their connection. `Host` goes first and unchanged; for
//!   a client of HTTP/1.0 that names none it is the backend's first endpoint.
//!   `Via`, `Forwarded` and `X-Forwarded-*` are neither added nor changed unless `forwarding` asks for it, so that
//!   gateways compare on equal terms.
//! - Chunked bodies are framed anew: extensions end here, and trailers that `trailers` does not allow. Bodies until
//!   close become chunked for HTTP/1.1 clients. HTTP/1.0 clients get neither chunks nor interim responses.
//! - Request fields whose names hold other characters than letters, digits and `-` are dropped, and so is `Proxy`.
//! - Paths are brought to normal form, in which they are routed and sent on; what has none is refused (400), see
//!   `weir-config`. CONNECT is answered 501. An upgrade that the upstream accepts becomes a tunnel; `h2c` is never offered
//!   to it.
//! - A response without `Date` gets one (RFC 9110, 6.6.1).
//! - An answer of the gateway itself carries `X-Weir-Error` with a name from [`Cause`]. A response that broke off after
//!   it began is cut by a reset, never ended as if it were whole.
//! - An endpoint that takes no connection is passed over for the next, three at most, and none where a request is sent
//!   again. Nothing was sent, so any request may be.
//! - A request is sent a second time over a fresh connection, once, when a kept connection turned out closed before a
//!   byte of the response, and only if nothing of it had left, or if it is idempotent and still held whole. Whatever
//!   else is sent again is so by the route's `retries`, within the backend's budget.
//!
//! # How it ends
//! A listener that is gone has the kernel pass over newcomers, takes who is in the queues of its sockets or half-way
//! into them, and closes them then. Connections end after the exchange in progress, with `Connection: close`; idle ones
//! after a second in which a last request may come. Workers that are too many give their sockets to the others, and end
//! with their last client. A process that is followed by another leaves it the sockets as they are.

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
mod silent;
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
