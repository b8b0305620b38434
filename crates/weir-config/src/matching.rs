//! Compiled hosts, paths and conditions of routes, and how requests are matched against them.

pub(crate) mod conditions;
pub(crate) mod entry;
pub(crate) mod hosts;
pub(crate) mod paths;
pub(crate) mod pattern;
mod scope;
mod view;

pub use scope::Scope;
pub use view::RequestView;
pub(crate) use view::Values;
