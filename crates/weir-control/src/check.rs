//! A look at a configuration that nothing is started with.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, access};
use serde::Serialize;
use weir_config::{Summary, Table};
use weir_document::Problem;

use crate::documents::Documents;
use crate::file::FileSource;
use crate::problem::{PlacedProblem, Severity};

/// What a look at a configuration has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file's name as it was given.
    pub path: String,
    /// Whether a gateway would take it: nothing is wrong.
    pub is_good: bool,
    /// What is wrong, or only most likely not meant, in the order of the file.
    pub problems: Vec<PlacedProblem>,
    /// What it amounts to; `None` where something is wrong.
    pub summary: Option<Summary>,
}

/// What is looked for beside mistakes.
#[derive(Debug)]
pub(crate) struct Look {
    /// Now, in seconds since 1970.
    now_s: u64,
    found: Vec<PlacedProblem>,
}

/// Reads the configuration at `path` with all files that it names, and compiles it as a gateway would that starts at
/// `now`. Nothing listens.
pub fn check(path: &Path, now: SystemTime) -> Report {
    let now_s = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut source = FileSource::new(path);
    source.look = Some(Look { now_s, found: Vec::new() });
    let loaded = source.load();
    let problems = match &loaded {
        Ok(_) => source.look.map_or_else(Vec::new, |look| look.found),
        Err(error) => error.problems(),
    };
    let is_good = loaded.is_ok() && problems.iter().all(|problem| problem.severity == Severity::Warning);
    let summary = is_good.then(|| source.state.summary(now_s));
    Report { path: path.display().to_string(), is_good, problems, summary }
}

impl Report {
    /// How many of the problems are only most likely not meant.
    pub fn warnings(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Warning).count()
    }

    /// All of it as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is a tree of plain values")
    }
}

impl FileSource {
    /// Looks for what a gateway could not do of what came into force as `table`, and for what is most likely not meant,
    /// if that is asked for; `placed` finds the lines.
    pub(crate) fn look(
        &mut self,
        table: &Table,
        placed: impl Fn(&Documents, Vec<Problem>) -> Vec<PlacedProblem>,
    ) {
        if let Some(look) = &mut self.look {
            let errors = placed(&self.documents, unwritable_log(table).into_iter().collect());
            let told = placed(&self.documents, self.state.warnings(table, look.now_s));
            let warnings =
                told.into_iter().map(|problem| PlacedProblem { severity: Severity::Warning, ..problem });
            look.found = errors.into_iter().chain(warnings).collect();
        }
    }
}

/// The access log whose file could not be written. Nothing is opened or made.
fn unwritable_log(table: &Table) -> Option<Problem> {
    let (log, _) = table.access_log.as_ref()?;
    let file = Path::new(log.file.as_ref()?);
    let error = is_writable(file).err()?;
    let message = format!("cannot write the access log to {}: {error}", file.display());
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "create the directory; the gateway's user must be able to write there",
        _ => "give the gateway's user write permission there",
    };
    Some(Problem::of("access_log.file", message).help(remedy))
}

fn is_writable(file: &Path) -> io::Result<()> {
    match access(file, Access::WRITE_OK) {
        Err(rustix::io::Errno::NOENT) => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(access(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Ok(()) if file.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        other => Ok(other?),
    }
}
