//! Terminal, HTML, Markdown and SVG from one report model, and beside them the table of `weir-export`.
//!
//! Nothing here measures or computes statistics: figures, verdicts and conclusions come from
//! `weir-analysis`, and every format says the same.

mod added;
mod axes;
mod build;
mod capacity;
mod cell_page;
mod cells;
mod change_marks;
mod changes;
mod charts;
mod compare;
mod data_table;
mod environment;
mod event_chart;
mod experiments;
mod figures;
mod files;
mod finding_charts;
mod findings;
mod folder;
mod foreign;
mod glance;
mod headroom;
mod headroom_chart;
mod heat;
mod html;
mod inventory;
mod junit;
mod markdown;
mod model;
mod pictures;
mod plot;
mod requests;
mod resources;
mod scale;
mod series;
mod sizing;
mod svg;
mod sweep;
mod tables;
mod terminal;
mod timelines;
mod unequal;

use std::io;

use weir_analysis::Summary;
use weir_analysis::compare::Comparison;
use weir_analysis::sizing::Sizing;
use weir_results::{Cell, Run};

pub use files::{FileFormat, Writer, Written, write};
pub use folder::check_folder;
pub use foreign::{escaped, escaped_but_styles};

/// The report for a terminal of `width` columns, with escape sequences only where `color`.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    terminal::draw(&build::build(run, cells, summary), width, color)
}

/// How many instances, for a terminal of `width` columns.
pub fn sizing(run: &Run, sizing: &Sizing, width: usize, color: bool) -> String {
    sizing::draw(run, sizing, width, color)
}

/// The objective as tests in the form of JUnit: one for each gateway, load point and bound.
///
/// # Errors
/// When the document cannot be written, which is a defect of weir.
pub fn junit(run: &Run, summary: &Summary) -> io::Result<String> {
    junit::draw(run, summary).map_err(io::Error::other)
}

/// The report as Markdown.
pub fn markdown(run: &Run, cells: &[Cell], summary: &Summary) -> String {
    markdown::draw(&build::build(run, cells, summary), &[])
}

/// The report as one self-contained page.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = build::build(run, cells, summary);
    let (plots, timelines) = (sweep::plots(run, summary, cells), timelines::timelines(summary, cells));
    let drawn = html::Drawn { plots: &plots, timelines: &timelines, pictures: &[] };
    html::draw(&report, run, summary, &drawn).map_err(io::Error::other)
}

/// A comparison for a terminal of `width` columns, with escape sequences only where `color`.
pub fn comparison_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    compare::draw_terminal(comparison, width, color)
}

/// A comparison as Markdown, fit for a pull request.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    compare::draw_markdown(comparison)
}

/// A comparison as one self-contained page, both datasets laid over each other.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn comparison_html(comparison: &Comparison) -> io::Result<String> {
    compare::page(comparison).map_err(io::Error::other)
}
