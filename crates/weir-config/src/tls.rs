//! TLS with clients and upstreams: settings, certificates and tickets in the form that rustls uses.

pub(crate) mod certificates;
pub(crate) mod digest;
pub(crate) mod pairs;
mod passthrough;
pub(crate) mod policy;
mod tickets;
pub(crate) mod transport;
mod upstream;
pub(crate) mod validity;

pub use digest::sha256;
pub use passthrough::{ByName, Destination};
pub use transport::Transport;
pub use upstream::UpstreamTls;
