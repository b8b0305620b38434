//! Changes of the gateways' configuration while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::Changed;

/// The prefix of paths that are added and removed.
pub(crate) const CHANGED: &str = "/changed/";

/// Changes of the gateway's configuration under load: each change adds, removes or replaces something, and a later
/// change reverts it. A change that does not take effect within a minute fails the cell. After each load, the gateway
/// has its initial configuration again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Time from one change to the next, and from the start of a load to the first change. If a change takes longer,
    /// the next change waits for the next multiple of this time.
    pub every: Time,
    /// Kinds of changes, made in turn. `routes` adds and removes the paths `/changed/1` and so on at every domain.
    /// `endpoints` removes and adds the last replica of the upstream, which keeps running; `origin.replicas` must be at
    /// least 2. `certificates` replaces the certificate with one that has the same CA but another key; this needs
    /// `topology.tls` with one certificate for all domains. Default: `[routes]`.
    #[serde(default = "default_kinds", skip_serializing_if = "is_default_kinds")]
    pub of: Vec<Changed>,
    /// Number of paths that are added and removed, at every domain.
    #[serde(default = "default_paths")]
    pub paths: u32,
    /// Names of the loads with changes. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl Changes {
    /// Whether the configuration changes during `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }

    /// The paths that are added and removed: `/changed/1` and so on.
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
