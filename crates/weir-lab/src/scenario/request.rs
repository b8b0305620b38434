//! A request of a load's mix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Named;
use weir_engine::ChecksSpec;

/// A request of the mix. Path, header values and text bodies can contain placeholders: `{1..50}` (a number), `{seq}`
/// (the number of the request), `{uuid}`, `{domain}` and `{pick:FILE}` (a line of a file). Their values depend only
/// on the seed and the number of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Path and query, like `/orders?page={1..50}`.
    pub path: String,
    /// Method. (`weir load --method`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "GET, or POST if there is a body"))]
    pub method: Option<String>,
    /// Header fields, like `{ Accept: text/html }`. `Host` overrides the host of the topology. (`weir load --header`)
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub headers: Named<String>,
    /// Body: a text, or `@FILE` for the content of a file of at most 64 MiB. Files that are not UTF-8 are sent
    /// unchanged, without placeholders. (`weir load --body`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Frequency, relative to the weights of the other requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`1`"))]
    pub weight: Option<f64>,
    /// Name of the request's route in the results, at most 200 bytes. (`weir load --name`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "method and path"))]
    pub name: Option<String>,
    /// Conditions that a response must meet; otherwise it counts as unexpected. (`weir load --check`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksSpec>,
}
