//! The JSON Schema of a configuration.

use serde_json::Value;

use crate::model::Configuration;
use crate::model::forms::{ADDRESS, HOST, HOST_OR_ANY, PATH, TOKEN};

/// Readable names of the text patterns in the schema, by pattern.
pub const FORMS: [(&str, &str); 5] = [
    (ADDRESS, "IP address and port"),
    (HOST, "host"),
    (HOST_OR_ANY, "host or `*`"),
    (PATH, "path"),
    (TOKEN, "name"),
];

/// The JSON Schema (2020-12) of a configuration. A configuration that matches it can still be invalid.
pub fn schema() -> Value {
    schemars::schema_for!(Configuration).to_value()
}
