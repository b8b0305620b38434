//! The data plane: listeners, connections, exchanges, upstream pools, admin.
mod admin;
mod body;
mod buffer;
mod cause;
mod connection;
mod counters;
mod exchange;
mod gateway;
mod io;
mod listener;
mod pool;
mod request;
mod respond;
mod response;
mod snapshot;
mod stats;
mod tunnel;
mod upstream;
mod wheel;
mod worker;

pub use admin::serve_admin;
pub use cause::Cause;
pub use gateway::{Gateway, GatewayError, Phase};
pub use stats::{ByStatus, Connections, ListenerStats, Stats, UpstreamStats};
