//! Changes of the configuration of a running gateway under load.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of the configuration of a running gateway, and when it took effect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChange {
    /// When weir applied the change, in seconds since the start of the warm-up.
    pub t_s: f64,
    /// Whether weir applied the change in the sustained phase.
    pub sustained: bool,
    /// The part of the configuration that changed.
    #[serde(default, skip_serializing_if = "Changed::is_routes")]
    pub what: Changed,
    /// Number of added routes; negative for removed routes, 0 for other changes.
    pub routes_added: i64,
    /// Number of routes after the change.
    pub routes: u64,
    /// Time from applying the change until it took effect, nanoseconds. Added routes: until a request to one of them
    /// got 200. Removed routes: until a request to one of them got 404. Endpoints: until the first request to the added
    /// endpoint, or the last request to the removed endpoint. Certificates: until the first handshake with the new
    /// certificate.
    pub seen_after_ns: u64,
}

/// The part of the configuration that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Changed {
    /// Routes are added and removed.
    #[default]
    Routes,
    /// An endpoint of the backend is removed and added again.
    Endpoints,
    /// The certificate is replaced.
    Certificates,
}

impl Changed {
    /// Whether this is [`Changed::Routes`]. Serialization omits it, because it is the default.
    fn is_routes(&self) -> bool {
        *self == Self::Routes
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Routes => "routes",
            Self::Endpoints => "endpoints",
            Self::Certificates => "certificates",
        })
    }
}
