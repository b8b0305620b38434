//! Changes of the configuration of a running gateway while load ran.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of the configuration of a running gateway: of its routes, or of something else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChange {
    /// When it was applied, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// What changed.
    #[serde(default, skip_serializing_if = "Changed::is_routes")]
    pub what: Changed,
    /// Routes that came with it; negative where they went, none where something else changed.
    pub routes_added: i64,
    /// Routes after it.
    pub routes: u64,
    /// From its application until it was seen to be in force, nanoseconds. Routes: to the first request to one that came
    /// which was answered 200, or to one that went which was answered 404. Endpoints: to the first request that one which
    /// came received, or the last that one which went did. Certificates: to the first handshake that showed the new one.
    pub seen_after_ns: u64,
}

/// What changes of a gateway's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Changed {
    /// Routes come and go.
    #[default]
    Routes,
    /// An endpoint of the backend leaves and returns.
    Endpoints,
    /// The certificate is replaced.
    Certificates,
}

impl Changed {
    /// Whether it is the routes.
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
