//! Checks a configuration without starting a gateway.

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

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file name as given.
    pub path: String,
    /// Whether a gateway would accept the configuration.
    pub is_good: bool,
    /// Errors and warnings, in the order of the file.
    pub problems: Vec<PlacedProblem>,
    /// A summary of the configuration; `None` if there are errors.
    pub summary: Option<Summary>,
}

/// Collects the additional results of a check: warnings, and errors that loading the configuration does not find.
#[derive(Debug)]
pub(crate) struct Look {
    /// The time of the check, seconds since the Unix epoch.
    now_s: u64,
    found: Vec<PlacedProblem>,
}

/// Reads the configuration at `path` and all files that it names, and compiles it like a gateway that starts at the
/// time `now`. Does not open listeners.
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
    /// The number of warnings.
    pub fn warnings(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Warning).count()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report contains only values that JSON supports")
    }
}

impl FileSource {
    /// During a check, collects two kinds of problems: warnings about `table`, and errors that would occur only when
    /// the gateway uses `table`. `placed` finds the lines of the problems. Does nothing outside a check.
    pub(crate) fn look(
        &mut self,
        table: &Table,
        placed: impl Fn(&Documents, Vec<Problem>) -> Vec<PlacedProblem>,
    ) {
        if let Some(look) = &mut self.look {
            let errors = placed(&self.documents, unwritable_log(table).into_iter().collect());
            let warnings = placed(&self.documents, self.state.warnings(table, look.now_s));
            let warnings =
                warnings.into_iter().map(|problem| PlacedProblem { severity: Severity::Warning, ..problem });
            look.found = errors.into_iter().chain(warnings).collect();
        }
    }
}

/// Checks that the access log can be written, without opening or creating its file. Returns the problem if not.
fn unwritable_log(table: &Table) -> Option<Problem> {
    let (log, _) = table.access_log.as_ref()?;
    let file = Path::new(log.file.as_ref()?);
    let error = is_writable(file).err()?;
    let message = format!("cannot write the access log to {}: {error}", file.display());
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "create the directory, and give the gateway's user write permission for it"
        }
        _ => "give the gateway's user write permission for the file and its directory",
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
