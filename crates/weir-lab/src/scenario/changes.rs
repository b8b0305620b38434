//! What of the gateways' configuration changes while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::Changed;

/// What paths of routes that come and go begin with.
pub(crate) const CHANGED: &str = "/changed/";

/// What changes while load runs: with one change routes are there, with the next they are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Time from one change to the next, and from the start of a load to the first.
    pub every: Time,
    /// What changes, in turn: `routes` come and go, the last of the upstream's `endpoints` leaves and returns,
    /// `certificates` are replaced by others; by default the routes.
    #[serde(default = "default_kinds", skip_serializing_if = "is_default_kinds")]
    pub of: Vec<Changed>,
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

fn default_kinds() -> Vec<Changed> {
    vec![Changed::Routes]
}

fn is_default_kinds(kinds: &[Changed]) -> bool {
    kinds == [Changed::Routes]
}
