//! Load balancing among the endpoints of a backend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Time};

use crate::model::forms::is_token;

/// How requests are shared among the endpoints of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Each worker selects endpoints in rotation, in proportion to their weights.
    #[default]
    RoundRobin,
    /// Draw two endpoints at random by weight, and select the one with fewer in-flight requests per weight. Requests of
    /// all workers and routes count.
    LeastRequests,
    /// Select a random endpoint, in proportion to the weights.
    Random,
    /// Requests with the same key go to the same endpoint while it is available. Requests without a key go to a random
    /// endpoint. The gateway uses a Maglev table with at least 100 entries per endpoint, but never fewer than 1,021 or
    /// more than 1,048,583 in total. An entry has 4 bytes.
    Hash(HashKey),
    /// A client keeps the endpoint of its first request, by means of a cookie.
    Sticky(Sticky),
}

/// What the hash is computed from: requests with the same key go to the same endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HashKey {
    /// The value of the first header with this name.
    Header(String),
    /// The value of the cookie with this name.
    Cookie(String),
    /// The client's IP address. The PROXY header and `forwarding.trusted_hops` determine it if they are configured;
    /// otherwise it is the address of the connection. For TLS passthrough, the hash is always computed from this
    /// address.
    ClientAddress,
}

/// Sticky sessions by cookie. A client with the cookie keeps its endpoint while this endpoint is configured and neither
/// unhealthy nor ejected; other clients get the next endpoint in rotation. The value of the cookie is a hash of the
/// endpoint's address, 16 hexadecimal digits. Its attributes are `Path=/; HttpOnly; SameSite=Lax`, and over TLS also
/// `Secure`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// Name of the cookie that the gateway sets.
    pub cookie: String,
    /// Lifetime of the cookie, in whole seconds. Default: until the browser session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Time>,
}

impl Balance {
    /// Whether this is the default, round robin.
    pub(crate) fn is_default(&self) -> bool {
        *self == Balance::default()
    }

    /// Whether the endpoint depends on the request: its hash key or its cookie.
    pub(crate) fn has_affinity(&self) -> bool {
        matches!(self, Balance::Hash(_) | Balance::Sticky(_))
    }
}

/// Validates `balance`. `place` is the path of its field, for messages.
pub(crate) fn check(place: &str, balance: &Balance) -> Result<(), Problem> {
    let check_cookie = |place: String, cookie: &str| check_token(place, cookie, "cookie");
    match balance {
        Balance::Hash(HashKey::Header(header)) => {
            check_token(format!("{place}.hash.header"), header, "header")
        }
        Balance::Hash(HashKey::Cookie(cookie)) => check_cookie(format!("{place}.hash.cookie"), cookie),
        Balance::Sticky(sticky) => {
            check_cookie(format!("{place}.sticky.cookie"), &sticky.cookie)?;
            check_max_age(&format!("{place}.sticky.max_age"), sticky)
        }
        Balance::RoundRobin
        | Balance::LeastRequests
        | Balance::Random
        | Balance::Hash(HashKey::ClientAddress) => Ok(()),
    }
}

fn check_max_age(place: &str, sticky: &Sticky) -> Result<(), Problem> {
    match &sticky.max_age {
        Some(age) if age.0.subsec_nanos() != 0 || age.0.is_zero() => {
            Err(Problem::of(place, format!("`{age}` is not a positive whole number of seconds"))
                .help("write whole seconds, for example `3600s`, or remove `max_age`"))
        }
        _ => Ok(()),
    }
}

fn check_token(place: String, name: &str, of: &str) -> Result<(), Problem> {
    if !is_token(name) {
        let message = format!("invalid {of} name `{}`", name.escape_debug());
        return Err(Problem::of(place, message).help("use letters, digits and hyphens"));
    }
    Ok(())
}
