//! Tests of the table through its public API.

// The clippy setting that allows `unwrap` in tests does not apply to helper functions.
#![allow(clippy::unwrap_used)]

mod backends;
mod changes;
mod draw;
mod listeners;
mod lookup;
mod oracle;
mod precedence;
mod routing;
