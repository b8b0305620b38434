//! A positive control: a gateway that is slower by a known amount.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Share;

use super::Gateway;

/// A positive control: each block measures one gateway a second time, with extra CPU time per request and, in open
/// loads, with delayed responses. It needs 6 repeats. Same as `weir run --control`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Extra CPU time as share of the gateway's CPU time, and extra latency as share of the gateway's p50 in the same
    /// block: `1%` to `100%`.
    pub share: Share,
    /// Name of the gateway that is measured a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the first one"))]
    pub gateway: Option<String>,
}

impl Control {
    /// The gateway that is made slower.
    pub(crate) fn of<'a>(&self, gateways: &'a [Gateway]) -> Option<&'a Gateway> {
        match &self.gateway {
            Some(name) => gateways.iter().find(|gateway| gateway.name == *name),
            None => gateways.first(),
        }
    }
}
