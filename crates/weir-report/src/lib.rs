//! Terminal, HTML, Markdown, CSV and SVG from one report model.
//!
//! Nothing here measures or computes statistics: figures, verdicts and conclusions come from
//! `weir-analysis`, and every format says the same.

mod build;
mod cells;
mod charts;
mod csv;
mod environment;
mod html;
mod markdown;
mod model;
mod svg;
mod tables;
mod terminal;

use std::io;
use std::path::{Path, PathBuf};

use weir_analysis::Summary;
use weir_results::{Cell, Run};

/// The report for a terminal of `width` columns, with escape sequences only where `color`.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    terminal::draw(&build::build(run, cells, summary), width, color)
}

/// The report as Markdown.
pub fn markdown(run: &Run, cells: &[Cell], summary: &Summary) -> String {
    markdown::draw(&build::build(run, cells, summary), None)
}

/// The cells as CSV: a row per load of each cell, columns as documented in `docs/reports.md`.
pub fn csv(cells: &[Cell]) -> String {
    csv::csv(cells)
}

/// The report as one self-contained page.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = build::build(run, cells, summary);
    html::draw(&report, run, cells, summary, &html::plotly_js()).map_err(io::Error::other)
}

/// Files that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `report.html`
    pub html: PathBuf,
    /// `report.md`
    pub markdown: PathBuf,
    /// `cells.csv`
    pub csv: PathBuf,
    /// `comparison.svg`, where something was measured
    pub picture: Option<PathBuf>,
}

/// Writes `report.html`, `report.md`, `cells.csv` and `comparison.svg` into `dir`, which is made where it is missing.
///
/// # Errors
/// When the directory cannot be made or a file cannot be written.
pub fn write(run: &Run, cells: &[Cell], summary: &Summary, dir: &Path) -> io::Result<Written> {
    std::fs::create_dir_all(dir)?;
    let report = build::build(run, cells, summary);
    let page = html::draw(&report, run, cells, summary, &html::plotly_js()).map_err(io::Error::other)?;
    let put = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    let picture = svg::picture(summary);
    let shown = picture.is_some().then_some("comparison.svg");
    Ok(Written {
        html: put("report.html", &page)?,
        markdown: put("report.md", &markdown::draw(&report, shown))?,
        csv: put("cells.csv", &csv::csv(cells))?,
        picture: picture.map(|svg| put("comparison.svg", &svg)).transpose()?,
    })
}
