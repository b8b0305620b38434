//! Terminal, HTML, Markdown and SVG from one report model, and beside them the table of `weir-export`.
//!
//! Nothing here measures or computes statistics: figures, verdicts and conclusions come from
//! `weir-analysis`, and every format says the same.

mod build;
mod cells;
mod charts;
mod environment;
mod experiments;
mod folder;
mod glance;
mod html;
mod inventory;
mod markdown;
mod model;
mod requests;
mod resources;
mod svg;
mod tables;
mod terminal;

use std::io;
use std::path::{Path, PathBuf};

use weir_analysis::Summary;
use weir_results::{Cell, Run};

pub use folder::check_folder;

/// The report for a terminal of `width` columns, with escape sequences only where `color`.
pub fn terminal(run: &Run, cells: &[Cell], summary: &Summary, width: usize, color: bool) -> String {
    terminal::draw(&build::build(run, cells, summary), width, color)
}

/// The report as Markdown.
pub fn markdown(run: &Run, cells: &[Cell], summary: &Summary) -> String {
    markdown::draw(&build::build(run, cells, summary), None)
}

/// The report as one self-contained page.
///
/// # Errors
/// When the page's template does not render, which is a defect of weir.
pub fn html(run: &Run, cells: &[Cell], summary: &Summary) -> io::Result<String> {
    let report = build::build(run, cells, summary);
    html::draw(&report, run, cells, summary, &html::plotly_js()).map_err(io::Error::other)
}

/// A format that is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// `report.html`
    Html,
    /// `report.md`, with `comparison.svg` beside it where something was measured
    Markdown,
    /// `cells.csv`, the table of `weir export --format csv`
    Csv,
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
}

/// Writes every file format into `dir`, which is made where it is missing.
///
/// # Errors
/// When the directory cannot be made or a file cannot be written.
pub fn write(run: &Run, cells: &[Cell], summary: &Summary, dir: &Path) -> io::Result<Written> {
    let put = |format| write_only(format, run, cells, summary, dir);
    Ok(Written {
        html: put(FileFormat::Html)?,
        markdown: put(FileFormat::Markdown)?,
        csv: put(FileFormat::Csv)?,
    })
}

/// Writes one file format into `dir`, which is made where it is missing, and gives the file's path.
///
/// # Errors
/// When the directory cannot be made or the file cannot be written.
pub fn write_only(
    format: FileFormat,
    run: &Run,
    cells: &[Cell],
    summary: &Summary,
    dir: &Path,
) -> io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let put = |name: &str, text: &str| folder::put(dir, name, text);
    match format {
        FileFormat::Html => put("report.html", &html(run, cells, summary)?),
        FileFormat::Csv => put("cells.csv", &weir_export::csv(run, cells).map_err(io::Error::other)?),
        FileFormat::Markdown => {
            let picture = svg::picture(summary);
            if let Some(picture) = &picture {
                put("comparison.svg", picture)?;
            }
            let shown = picture.is_some().then_some("comparison.svg");
            put("report.md", &markdown::draw(&build::build(run, cells, summary), shown))
        }
    }
}
