//! The JSON Schema of a configuration, and the reference generated from it.

use serde_json::Value;

use crate::model::Configuration;

mod reference;

pub use reference::reference;

/// The JSON Schema (2020-12) of a configuration. A configuration that matches it can still be invalid.
pub fn schema() -> Value {
    schemars::schema_for!(Configuration).to_value()
}
