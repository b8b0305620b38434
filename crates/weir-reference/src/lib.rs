//! Generates reference pages in Markdown: the fields of a document from its JSON Schema, the commands of a program
//! from clap, and lists as tables. Also generates man pages of the commands.
//!
//! ```
//! let schema = serde_json::json!({
//!     "properties": { "workers": { "type": "integer", "default": 1, "description": "Worker threads." } }
//! });
//! let page = weir_reference::Document {
//!     title: "Fields",
//!     introduction: "Look up a field.",
//!     schema: &schema,
//!     forms: &[],
//!     use_of: weir_reference::Use::Read,
//! };
//! let row = "| `workers` | whole number | `1` | Worker threads. |";
//! assert!(page.to_markdown().contains(row));
//! ```

mod commands;
mod document;
mod man;
mod markdown;

pub use commands::commands;
pub use document::{Document, Use};
pub use man::man_pages;
pub use markdown::{page, prose, table};
