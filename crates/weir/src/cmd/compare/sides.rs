//! Reads the inputs A and B of `weir compare`: stored runs, archives, or files of other programs.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_analysis::compare::Dataset;
use weir_export::{ForeignError, ForeignFile, read_foreign};
use weir_results::{Cell, Run, Store, read_archive};

use super::super::database::Database;
use crate::failure::Failure;

/// How an archive begins: the magic number of gzip, or the first line of an uncompressed archive.
const ARCHIVE: [&[u8]; 2] = [&[0x1f, 0x8b], b"{\"weir\":"];
/// Name endings of further files that Locust writes. In a folder, weir ignores these files.
const BESIDE: [&str; 3] = ["_failures.csv", "_exceptions.csv", "_stats_history.csv"];
/// Maximum size in bytes of a file of another program. A file of this size holds about ten million requests, one per
/// line.
const BYTES_MAX: u64 = 1 << 30;

/// Reads A and B. The database is opened only if one of them is a stored run.
pub(super) struct Sides<'a> {
    database: &'a Database,
    store: Option<Store>,
    cores: Option<f64>,
}

/// The dataset of a run, or of one gateway of the run.
pub(crate) fn of_run(run: &Run, cells: &[Cell], gateway: Option<&str>) -> Result<Dataset, Failure> {
    Dataset::of_run(run, cells, gateway).map_err(|names| {
        let wanted = gateway.unwrap_or_default();
        let remedy = if names.is_empty() {
            "finish the run first: it has no measurements yet".into()
        } else {
            format!("gateways of the run: {}", names.join(", "))
        };
        Failure::wrong_use(format!("run {} has no gateway `{wanted}`", run.id), remedy)
    })
}

impl<'a> Sides<'a> {
    pub(super) fn new(database: &'a Database, cores: Option<f64>) -> Self {
        Self { database, store: None, cores }
    }

    /// Reads the dataset that the user named. If a file and a run have this name, the file is read.
    pub(super) fn side(&mut self, given: &str) -> Result<Dataset, Failure> {
        let (name, gateway) = with_gateway(given);
        if given.contains(',') || Path::new(given).exists() || Path::new(name).exists() || is_path(name) {
            return self.files(given);
        }
        let store = match self.store.take() {
            Some(store) => store,
            None => self.database.open()?,
        };
        let store = self.store.insert(store);
        let run = store.run(&store.find(name)?)?;
        of_run(&run, &store.cells(&run.id)?, gateway)
    }

    fn files(&self, given: &str) -> Result<Dataset, Failure> {
        let (name, gateway) = with_gateway(given);
        let (name, gateway) = if Path::new(given).exists() { (given, None) } else { (name, gateway) };
        if Path::new(name).is_file() && is_archive(Path::new(name))? {
            let archive = read_archive(name, File::open(name).map_err(|error| unreadable(name, &error))?)?;
            return of_run(&archive.run, &archive.cells, gateway);
        }
        if let Some(gateway) = gateway.filter(|_| !given.contains(',')) {
            let message = format!("{name} was not written by weir, so it has no gateway `{gateway}`");
            return Err(Failure::wrong_use(message, "give only the file name"));
        }
        let mut files = Vec::new();
        for part in given.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            for path in listed(Path::new(part))? {
                files.push(ForeignFile { text: text(&path)?, name: path.display().to_string() });
            }
        }
        if files.is_empty() {
            return Err(Failure::wrong_use(
                format!("{given}: the folder has no CSV or JSON file to compare"),
                "give a folder with CSV files, or the files",
            ));
        }
        Ok(read_foreign(&files, self.cores)?)
    }
}

/// Splits `RUN:GATEWAY`. Without a gateway, returns the whole text.
fn with_gateway(given: &str) -> (&str, Option<&str>) {
    match given.rsplit_once(':') {
        Some((name, gateway)) if !name.is_empty() && !gateway.is_empty() => (name, Some(gateway)),
        _ => (given, None),
    }
}

/// Whether the name must be a path, because it contains characters that run IDs do not have.
fn is_path(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// The path of a file. For a folder, the paths of its data files, sorted by name.
fn listed(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| unreadable(&path.display().to_string(), &error);
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let is_data = |path: &PathBuf| {
        let name = path.display().to_string();
        path.is_file()
            && (name.ends_with(".csv") || name.ends_with(".json"))
            && !BESIDE.iter().any(|end| name.ends_with(end))
    };
    let entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let mut found: Vec<PathBuf> = entries.into_iter().filter(is_data).collect();
    found.sort();
    Ok(found)
}

fn is_archive(path: &Path) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| unreadable(&path.display().to_string(), &error);
    let mut begin = Vec::new();
    File::open(path).map_err(failed)?.take(16).read_to_end(&mut begin).map_err(failed)?;
    Ok(ARCHIVE.iter().any(|known| begin.starts_with(known)))
}

fn text(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
    file.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| unreadable(&name, &error))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::wrong_use(format!("{name}: the file is larger than 1 GiB"), "split the file"));
    }
    String::from_utf8(text).map_err(|_| {
        Failure::wrong_use(format!("{name}: the file is not UTF-8 text"), "give a CSV or JSON file")
    })
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    let remedy = "give an existing file, or a run; `weir runs` lists the runs";
    Failure::wrong_use(format!("{name}: cannot read the file: {error}"), remedy)
}

impl From<ForeignError> for Failure {
    fn from(error: ForeignError) -> Self {
        Self::wrong_use(error.to_string(), error.remedy())
    }
}
