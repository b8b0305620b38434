//! How the parts of a cell reach each other.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the parts of a cell reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Over the loopback interface of the host. Network metrics are `n/a`.
    #[default]
    Loopback,
    /// Each part is in its own network namespace, with links between the namespaces, so that weir can measure the
    /// traffic of each part. Only root can create namespaces. The namespaces exist for one cell. Addresses are from
    /// 198.18.0.0/15, the MTU is 1500, and TCP settings are those of the host.
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
