//! Forms of text in a configuration, as patterns for its JSON Schema.

use serde_json::{Value, json};
use weir_http::is_token_byte;

/// An IP address with a port. Ranges of numbers are checked when it is parsed.
pub(crate) const ADDRESS: &str = "^(([0-9]{1,3}\\.){3}[0-9]{1,3}|\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]):([0-9]{1,4}|\
                                  [1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// An IP address or a name with a port, or a Unix socket.
pub(crate) const ENDPOINT: &str = "^unix:/.{0,106}$|^([A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]):([0-9]{1,4}|\
                                   [1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";

/// A host name, `*.` and the names below it, or an IPv6 address in brackets.
pub(crate) const HOST: &str =
    "^(\\*\\.)?[A-Za-z0-9_-]{1,63}(\\.[A-Za-z0-9_-]{1,63})*$|^\\[[0-9A-Fa-f:.]+\\]$";

/// A host, or `*`.
pub(crate) const HOST_OR_ANY: &str =
    "^\\*$|^(\\*\\.)?[A-Za-z0-9_-]{1,63}(\\.[A-Za-z0-9_-]{1,63})*$|^\\[[0-9A-Fa-f:.]+\\]$";

/// A path without query and fragment, of characters that need no escapes.
pub(crate) const PATH: &str = "^/[!\"$->@-~]*$";

/// A token (RFC 9110, 5.6.2): a method, the name of a header field.
pub(crate) const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// The actions of a route.
pub(crate) const ACTIONS: [&str; 4] = ["backend", "backends", "redirect", "respond"];

/// Requires exactly one of these fields.
pub(crate) fn one_of(fields: &[&str]) -> Value {
    json!({ "oneOf": fields.iter().map(|field| json!({ "required": [field] })).collect::<Vec<_>>() })
}

/// Whether `name` is a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte)
}
