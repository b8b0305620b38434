//! How a gateway ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

/// What happens between the signal to stop and the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// For so long clients are still let in, so that whoever balances over gateways sees `/readyz` first; 0s is none.
    pub delay: Time,
    /// From the signal to the end, whatever is still open; longer than `delay`.
    pub timeout: Time,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { delay: Time(Duration::from_secs(5)), timeout: Time(Duration::from_secs(30)) }
    }
}
