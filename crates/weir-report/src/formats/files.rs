//! Writes the report files of a run in each format, and the pictures that several formats use.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};

use weir_analysis::Summary;
use weir_results::{Cell, Run};

use crate::charts::pictures as picture_files;
use crate::charts::pictures::{Picture, pictures};
use crate::charts::sweep;
use crate::charts::timelines::{CellTimeline, timelines};
use crate::formats::folder;
use crate::formats::html;
use crate::formats::markdown;
use crate::model::Report;
use crate::model::plot::Plot;
use crate::pages::cell_page;
use crate::pages::cell_page::pages;
use crate::sections::build;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// `report.html`, with a page for each cell in `cells/`, and the same pictures as `report.md`
    Html,
    /// `report.md`, with `comparison.svg` and the pictures in `charts/` if the run has measurements
    Markdown,
    /// `cells.csv`, the table of `weir export --format csv`; also `findings.csv` if the run has findings
    Csv,
}

/// The main files that [`write()`] has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `report.html`
    pub html: PathBuf,
    /// `report.md`
    pub markdown: PathBuf,
    /// `cells.csv`
    pub csv: PathBuf,
}

/// Writes the report files of one run into one folder. Pictures are written once, although several formats use
/// them.
pub struct Writer<'a> {
    run: &'a Run,
    cells: &'a [Cell],
    summary: &'a Summary,
    dir: &'a Path,
    report: Report,
    plots: Vec<Plot>,
    timelines: OnceCell<Vec<CellTimeline<'a>>>,
    /// The pictures; set once they are written.
    pictures: OnceCell<Vec<Picture>>,
}

/// Writes the report in all formats into the folder `dir`, which is created if it is missing.
///
/// # Errors
/// If the directory cannot be created or a file cannot be written.
pub fn write(run: &Run, cells: &[Cell], summary: &Summary, dir: &Path) -> io::Result<Written> {
    let writer = Writer::new(run, cells, summary, dir);
    Ok(Written {
        html: writer.put(FileFormat::Html)?,
        markdown: writer.put(FileFormat::Markdown)?,
        csv: writer.put(FileFormat::Csv)?,
    })
}

impl<'a> Writer<'a> {
    /// A writer for the folder `dir`, which the first write creates if it is missing.
    pub fn new(run: &'a Run, cells: &'a [Cell], summary: &'a Summary, dir: &'a Path) -> Self {
        let report = build::build(run, cells, summary);
        let plots = sweep::plots(run, summary, cells);
        let (timelines, pictures) = (OnceCell::new(), OnceCell::new());
        Self { run, cells, summary, dir, report, plots, timelines, pictures }
    }

    /// Writes the report in one format. Returns the path of its main file.
    ///
    /// # Errors
    /// If the directory cannot be created or a file cannot be written.
    pub fn put(&self, format: FileFormat) -> io::Result<PathBuf> {
        std::fs::create_dir_all(self.dir)?;
        match format {
            FileFormat::Html => self.html(),
            FileFormat::Markdown => self.markdown(),
            FileFormat::Csv => {
                let table = weir_export::csv(self.run, self.cells).map_err(io::Error::other)?;
                if !self.summary.findings.is_empty() {
                    self.file("findings.csv", &weir_export::findings_csv(self.summary))?;
                }
                self.file("cells.csv", &table)
            }
        }
    }

    fn html(&self) -> io::Result<PathBuf> {
        let pictures = self.pictures()?;
        if !self.cells.is_empty() {
            std::fs::create_dir_all(self.dir.join(cell_page::FOLDER))?;
        }
        let pages = pages(self.run, self.cells, self.summary, self.timelines()).map_err(io::Error::other)?;
        for page in &pages {
            self.file(&page.path, &page.html)?;
        }
        let drawn = html::Drawn { plots: &self.plots, timelines: self.timelines(), pictures };
        let page = html::draw(&self.report, self.run, self.summary, &drawn);
        self.file("report.html", &page.map_err(io::Error::other)?)
    }

    fn markdown(&self) -> io::Result<PathBuf> {
        let pictures = self.pictures()?;
        self.file("report.md", &markdown::draw(&self.report, pictures))
    }

    fn timelines(&self) -> &[CellTimeline<'a>] {
        self.timelines.get_or_init(|| timelines(self.summary, self.cells))
    }

    /// Returns the pictures. The first call writes their files.
    fn pictures(&self) -> io::Result<&[Picture]> {
        if let Some(pictures) = self.pictures.get() {
            return Ok(pictures);
        }
        let drawn = pictures(&self.run.name, self.summary, &self.plots, self.timelines());
        if !drawn.is_empty() {
            std::fs::create_dir_all(self.dir.join(picture_files::FOLDER))?;
        }
        for picture in &drawn {
            self.file(&picture.path, &picture.svg)?;
        }
        Ok(self.pictures.get_or_init(|| drawn))
    }

    fn file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        folder::put(self.dir, name, text)
    }
}
