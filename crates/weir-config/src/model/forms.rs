//! Regular expressions for texts of a configuration: the patterns in its JSON Schema.

use serde_json::{Value, json};
use weir_http::is_token_byte;

/// An IP address with a port. The pattern also matches addresses like 999.0.0.1; parsing rejects them.
pub(crate) const ADDRESS: &str = "^(([0-9]{1,3}\\.){3}[0-9]{1,3}|\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]):([0-9]{1,4}|\
                                  [1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// An IP address or a host name with a port, or a Unix socket.
pub(crate) const ENDPOINT: &str = "^unix:/.{0,106}$|^([A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]):([0-9]{1,4}|\
                                   [1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// A host name, a wildcard like `*.example.com`, or an IPv6 address in brackets.
pub(crate) const HOST: &str =
    "^(\\*\\.)?[A-Za-z0-9_-]{1,63}(\\.[A-Za-z0-9_-]{1,63})*$|^\\[[0-9A-Fa-f:.]+\\]$";

/// A host as in [`HOST`], or `*` for every host.
pub(crate) const HOST_OR_ANY: &str =
    "^\\*$|^(\\*\\.)?[A-Za-z0-9_-]{1,63}(\\.[A-Za-z0-9_-]{1,63})*$|^\\[[0-9A-Fa-f:.]+\\]$";

/// A path: `/`, then visible ASCII characters except `?` and `#`. All other characters must be percent-encoded.
pub(crate) const PATH: &str = "^/[!\"$->@-~]*$";

/// A token (RFC 9110, 5.6.2), such as a method or the name of a header field.
pub(crate) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// The fields that define the action of a route; each route sets exactly one.
pub(crate) const ACTIONS: [&str; 4] = ["backend", "backends", "redirect", "respond"];

/// A schema that requires exactly one of these fields.
pub(crate) fn one_of(fields: &[&str]) -> Value {
    json!({ "oneOf": fields.iter().map(|field| json!({ "required": [field] })).collect::<Vec<_>>() })
}

/// Whether `name` is a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte)
}
