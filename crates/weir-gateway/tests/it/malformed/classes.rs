//! The classes of malformed and ambiguous connections, each by name.

use super::draft::Draft;

mod bodies;
mod framing;
mod heads;

/// Expected result of the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// The request is valid and gets a response.
    Served,
    /// It is rejected, and no byte of it reaches the origin.
    Refused,
    /// Its headers are valid and may reach the origin, but its body is rejected.
    RefusedInBody,
    /// The request is valid and gets a response. The bytes after the request are rejected.
    ServedThenRefused,
}

/// A kind of malformed, ambiguous or well-formed connection.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) first: First,
    /// What the client sends before the marked request.
    pub(crate) draft: fn(&mut Draft) -> Vec<u8>,
}

const fn class(name: &'static str, first: First, draft: fn(&mut Draft) -> Vec<u8>) -> Class {
    Class { name, first, draft }
}

/// Every class, the well-formed ones first.
pub(crate) fn all() -> impl Iterator<Item = &'static Class> {
    [bodies::WELL_FORMED, framing::CLASSES, bodies::CLASSES, heads::CLASSES].into_iter().flatten()
}
