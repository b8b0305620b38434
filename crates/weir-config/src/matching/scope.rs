//! Which routes requests of a listener can match.

/// The routes that requests are looked up among: those for every listener, and those for the one that they came by. It
/// belongs to the [`crate::Table`] that told it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub(super) u32);
