//! The table as its users see it.

// The setting that allows this in tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod backends;
mod changes;
mod draw;
mod listeners;
mod lookup;
mod oracle;
mod precedence;
mod routing;
