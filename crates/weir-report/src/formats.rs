//! The formats of a report: terminal, HTML, Markdown, JUnit, and the files that they are written to.

pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod sizing;
pub(crate) mod terminal;
