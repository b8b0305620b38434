//! Routes that come and go while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

/// What paths of routes that come and go begin with.
pub(crate) const CHANGED: &str = "/changed/";

/// Routes that come and go while load runs: with one change they are there, with the next they are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Time from one change to the next, and from the start of a load to the first.
    pub every: Time,
    /// How many paths come and go, at every domain.
    #[serde(default = "default_paths")]
    pub paths: u32,
    /// Names of the loads during which routes change; all of them, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl Changes {
    /// Whether routes change during `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }

    /// The paths that come and go: `/changed/1` and on.
    pub(crate) fn added_paths(&self) -> Vec<String> {
        (1..=self.paths).map(|number| format!("{CHANGED}{number}")).collect()
    }
}

fn default_paths() -> u32 {
    1
}
