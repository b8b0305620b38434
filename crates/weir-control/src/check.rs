//! A look at a configuration that nothing is started with.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use weir_config::{Problem, Summary, Table};

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
    warnings: Vec<PlacedProblem>,
}

/// Reads the configuration at `path` with all files that it names, and compiles it as a gateway would that starts at
/// `now`. Nothing listens.
pub fn check(path: &Path, now: SystemTime) -> Report {
    let now_s = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut source = FileSource::new(path);
    source.look = Some(Look { now_s, warnings: Vec::new() });
    let loaded = source.load();
    let (problems, summary) = match &loaded {
        Ok(_) => (source.look.map_or_else(Vec::new, |look| look.warnings), Some(source.state.summary(now_s))),
        Err(error) => (error.problems(), None),
    };
    Report { path: path.display().to_string(), is_good: loaded.is_ok(), problems, summary }
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
    /// Looks for what is most likely not meant by what came into force as `table`, if that is asked for; `placed` finds
    /// the lines.
    pub(crate) fn look(
        &mut self,
        table: &Table,
        placed: impl FnOnce(&Documents, Vec<Problem>) -> Vec<PlacedProblem>,
    ) {
        if let Some(look) = &mut self.look {
            let told = placed(&self.documents, self.state.warnings(table, look.now_s));
            let warning = |problem| PlacedProblem { severity: Severity::Warning, ..problem };
            look.warnings = told.into_iter().map(warning).collect();
        }
    }
}
