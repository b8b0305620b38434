//! The load generator of a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents::Place;

/// Where the load generator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSpec {
    /// Agents that generate each load together: `local:N` or `netns:N` on this host; `ssh:HOST,HOST` (or a list of
    /// `ssh:HOST`) or `agents:N` on other machines. 1 to 256 agents. (`weir load --on`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "one weir process on this host"))]
    pub on: Option<Place>,
}

impl GeneratorSpec {
    /// Whether all fields have their defaults.
    pub(crate) fn is_empty(&self) -> bool {
        self.on.is_none()
    }
}
