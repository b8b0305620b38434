//! What routes do with requests and responses besides forwarding them: redirects, rewrites, header changes, CORS,
//! compression, mirroring.
//!
//! `forms.rs` defines the fields of a configuration, `check.rs` validates them, and `compiled.rs` converts them into
//! the form that the data plane uses.

mod check;
mod compiled;
mod compress;
mod cors;
mod forms;

pub(crate) use check::check;
pub use compiled::{Action, Copies, Filters, WeightedPosition};
pub use compress::{Compress, CompressPolicy};
pub use cors::{CorsPolicy, Preflight};
pub use forms::{
    Cors, HeaderChanges, Mirror, Redirect, Respond, Rewrite, RewriteParts, RouteTimeouts, Scheme,
    WeightedBackend,
};

#[cfg(test)]
mod tests;
