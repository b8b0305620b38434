//! Tests of the table through its public API.

// The clippy setting that allows this in tests does not apply to helpers.
#![allow(clippy::unwrap_used)]

mod backends;
mod changes;
mod draw;
mod listeners;
mod lookup;
mod oracle;
mod precedence;
mod routing;
