//! Draws a report as terminal text, HTML, Markdown and SVG pictures, all from one model with the same content. The
//! CSV tables come from `weir-export`.
//!
//! This crate measures nothing and computes no statistics. Values, verdicts and conclusions come from
//! `weir-analysis`.

mod charts;
mod formats;
mod model;
mod pages;
mod sections;

use std::io;

use weir_analysis::Summary;
use weir_analysis::compare::Comparison;
use weir_analysis::sizing::Sizing;
use weir_results::{Cell, Run};

pub use formats::files::{FileFormat, Writer, Written, write};
pub use formats::folder::check_folder;
pub use sections::foreign::{escaped, escaped_but_styles};

/// Draws the report for a terminal that is `width` columns wide. Escape sequences are used only if `color` is set.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    formats::terminal::draw(&sections::build::build(run, cells, summary), width, color)
}

/// Draws the number of instances that a demand needs, for a terminal that is `width` columns wide.
pub fn sizing(run: &Run, sizing: &Sizing, width: usize, color: bool) -> String {
    formats::sizing::draw(run, sizing, width, color)
}

/// Returns the objective as JUnit tests: one test per gateway, load point and limit of the objective.
///
/// # Errors
/// If the document cannot be written, which is a bug in weir.
pub fn junit(run: &Run, summary: &Summary) -> io::Result<String> {
    formats::junit::draw(run, summary).map_err(io::Error::other)
}

/// Draws the report as Markdown.
pub fn markdown(run: &Run, cells: &[Cell], summary: &Summary) -> String {
    formats::markdown::draw(&sections::build::build(run, cells, summary), &[])
}

/// Draws the report as one HTML page that needs no other files.
///
/// # Errors
/// If the template of the page cannot be rendered, which is a bug in weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = sections::build::build(run, cells, summary);
    let (plots, timelines) =
        (charts::sweep::plots(run, summary, cells), charts::timelines::timelines(summary, cells));
    let drawn = formats::html::Drawn { plots: &plots, timelines: &timelines, pictures: &[] };
    formats::html::draw(&report, run, summary, &drawn).map_err(io::Error::other)
}

/// Draws a comparison for a terminal that is `width` columns wide. Escape sequences are used only if `color` is
/// set.
pub fn comparison_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    pages::compare::draw_terminal(comparison, width, color)
}

/// Draws a comparison as Markdown for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    pages::compare::draw_markdown(comparison)
}

/// Draws a comparison as one HTML page. Its charts show both datasets together.
///
/// # Errors
/// If the template of the page cannot be rendered, which is a bug in weir.
pub fn comparison_html(comparison: &Comparison) -> io::Result<String> {
    pages::compare::page(comparison).map_err(io::Error::other)
}
