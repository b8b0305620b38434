//! Limits on requests, shared by their validation and their use.

/// Most requests of a mix.
pub const REQUESTS_MAX: usize = 1_000_000;
/// Most bytes of a name; a derived one that is longer is cut.
pub(crate) const ROUTE_NAME_BYTES_MAX: usize = 200;
/// Most fields that the checks of one request can ask for: a bit for each records whether it was seen.
pub(crate) const CHECKED_FIELDS_MAX: usize = 64;
/// The field that carries a bearer token.
pub(crate) const TOKEN_FIELD: &str = "Authorization";
