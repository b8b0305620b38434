//! Terminal, HTML, Markdown and SVG from one report model, and beside them the table of `weir-export`.
//!
//! Nothing here measures or computes statistics: figures, verdicts and conclusions come from
//! `weir-analysis`, and every format says the same.

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

/// The report for a terminal of `width` columns, with escape sequences only where `color`.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    formats::terminal::draw(&sections::build::build(run, cells, summary), width, color)
}

/// How many instances, for a terminal of `width` columns.
pub fn sizing(run: &Run, sizing: &Sizing, width: usize, color: bool) -> String {
    formats::sizing::draw(run, sizing, width, color)
}

/// The objective as tests in the form of JUnit: one for each gateway, load point and bound.
///
/// # Errors
/// When the document cannot be written, which is a defect of weir.
pub fn junit(run: &Run, summary: &Summary) -> io::Result<String> {
    formats::junit::draw(run, summary).map_err(io::Error::other)
}

/// The report as Markdown.
pub fn markdown(run: &Run, cells: &[Cell], summary: &Summary) -> String {
    formats::markdown::draw(&sections::build::build(run, cells, summary), &[])
}

/// The report as one self-contained page.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = sections::build::build(run, cells, summary);
    let (plots, timelines) =
        (charts::sweep::plots(run, summary, cells), charts::timelines::timelines(summary, cells));
    let drawn = formats::html::Drawn { plots: &plots, timelines: &timelines, pictures: &[] };
    formats::html::draw(&report, run, summary, &drawn).map_err(io::Error::other)
}

/// A comparison for a terminal of `width` columns, with escape sequences only where `color`.
pub fn comparison_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    pages::compare::draw_terminal(comparison, width, color)
}

/// A comparison as Markdown, fit for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    pages::compare::draw_markdown(comparison)
}

/// A comparison as one self-contained page, both datasets laid over each other.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn comparison_html(comparison: &Comparison) -> io::Result<String> {
    pages::compare::page(comparison).map_err(io::Error::other)
}
