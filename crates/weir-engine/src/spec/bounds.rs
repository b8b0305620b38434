//! Limits of requests, which both the validation and the rendering use.

/// Maximum number of requests in a mix.
pub const REQUESTS_MAX: usize = 1_000_000;
/// Maximum length of a route name in bytes. Longer names that are derived from a path are truncated.
pub(crate) const ROUTE_NAME_BYTES_MAX: usize = 200;
/// Maximum number of header fields that the checks of one request can require. The state of the checks has one bit
/// per header field.
pub(crate) const CHECKED_FIELDS_MAX: usize = 64;
/// The header field that carries a bearer token.
pub(crate) const TOKEN_FIELD: &str = "Authorization";
