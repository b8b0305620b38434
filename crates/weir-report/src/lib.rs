//! Draws one report model as terminal text, HTML, Markdown and SVG, and adds the CSV tables of `weir-export`.
//!
//! This crate measures nothing and computes no statistics: values, verdicts and conclusions come from
//! `weir-analysis`. Every format shows the same content.

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

/// The report for a terminal of `width` columns, with escape sequences only if `color` is set.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    formats::terminal::draw(&sections::build::build(run, cells, summary), width, color)
}

/// The number of instances, for a terminal of `width` columns.
pub fn sizing(run: &Run, sizing: &Sizing, width: usize, color: bool) -> String {
    formats::sizing::draw(run, sizing, width, color)
}

/// The objective as JUnit tests: one for each gateway, load point and bound.
///
/// # Errors
/// If the document cannot be written, which is a defect of weir.
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
/// If the template of the page does not render, which is a defect of weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = sections::build::build(run, cells, summary);
    let (plots, timelines) =
        (charts::sweep::plots(run, summary, cells), charts::timelines::timelines(summary, cells));
    let drawn = formats::html::Drawn { plots: &plots, timelines: &timelines, pictures: &[] };
    formats::html::draw(&report, run, summary, &drawn).map_err(io::Error::other)
}

/// A comparison for a terminal of `width` columns, with escape sequences only if `color` is set.
pub fn comparison_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    pages::compare::draw_terminal(comparison, width, color)
}

/// A comparison as Markdown, for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    pages::compare::draw_markdown(comparison)
}

/// A comparison as one self-contained page, with both datasets in the same charts.
///
/// # Errors
/// If the template of the page does not render, which is a defect of weir.
pub fn comparison_html(comparison: &Comparison) -> io::Result<String> {
    pages::compare::page(comparison).map_err(io::Error::other)
}
