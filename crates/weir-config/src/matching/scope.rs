//! The scope of a listener.

/// The routes that requests of a listener can match: those for every listener, and those for this listener. It is valid
/// for the [`crate::Table`] that returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub(super) u32);
