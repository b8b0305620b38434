//! A positive control: a gateway that is slower by a known amount.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Share;

use super::Gateway;

/// A gateway once more in each block, with more CPU time per request, and a later response in open loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The extra CPU time as share of the gateway's own, and the extra delay as share of its p50 in the same block.
    pub share: Share,
    /// The gateway; the first one, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

impl Control {
    /// The gateway that it is.
    pub(crate) fn of<'a>(&self, gateways: &'a [Gateway]) -> Option<&'a Gateway> {
        match &self.gateway {
            Some(name) => gateways.iter().find(|gateway| gateway.name == *name),
            None => gateways.first(),
        }
    }
}
