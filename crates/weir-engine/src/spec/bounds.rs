//! Limits on requests, shared by their validation and their use.

/// Maximum number of requests of a mix.
pub const REQUESTS_MAX: usize = 1_000_000;
/// Maximum length of a route name in bytes; longer derived names are truncated.
pub(crate) const ROUTE_NAME_BYTES_MAX: usize = 200;
/// Maximum number of header fields that the checks of one request require: a bit per field records whether it was seen.
pub(crate) const CHECKED_FIELDS_MAX: usize = 64;
/// The field that carries a bearer token.
pub(crate) const TOKEN_FIELD: &str = "Authorization";
