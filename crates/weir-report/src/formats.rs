//! How a report is formatted (terminal, HTML, Markdown, JUnit), and how its files are written.

pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod sizing;
pub(crate) mod terminal;
