//! The scope of a listener: which routes apply to it.

/// Selects the routes that requests of a listener can match: routes for every listener, and routes that name this
/// listener. It is valid only for the [`crate::Table`] that returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub(super) u32);
