//! How the parts of a cell reach each other.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the parts of a cell reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Over the host's loopback.
    #[default]
    Loopback,
    /// Each part is in a network namespace of its own, with links between them; needs root.
    Namespaces,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Namespaces => "namespaces",
        })
    }
}
