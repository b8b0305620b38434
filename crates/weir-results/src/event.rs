//! What a disturbance did to a gateway, or around it, while a load ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that a disturbance did during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it began, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// The kind of disturbance, by which its fields in [`Event::details`] are known.
    pub kind: String,
    /// What happened, by kind.
    pub details: serde_json::Value,
}
