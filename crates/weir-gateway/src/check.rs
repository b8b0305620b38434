//! `weir-gateway check`: validates a configuration and summarizes it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_control::{PlacedProblem, Report};

use crate::{Failure, print};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration: a YAML or JSON file, or a directory of such files
    path: PathBuf,
    /// Treat warnings as errors: exit with code 2
    #[arg(long)]
    strict: bool,
    /// Print problems and summary as JSON
    ///
    /// The output is an object with `is_good`, `problems` (each with `severity`, `file`, `line`, `column`, `field`,
    /// `message`, `remedy`) and `summary`, which is null if there are errors.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Arguments for the file at `path`, without options.
    pub(crate) fn of(path: &Path) -> Arguments {
        Arguments { path: path.to_owned(), strict: false, json: false }
    }
}

/// Prints the problems of a configuration, and its summary if it is valid.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let report = weir_control::check(&arguments.path, SystemTime::now());
    let is_refused = !report.is_good || arguments.strict && report.warnings() > 0;
    let lines = match arguments.json {
        true => {
            print(&report.to_json());
            Vec::new()
        }
        false => print_summary(&report, arguments.strict),
    };
    match is_refused {
        true => Err(Failure::Configuration(lines)),
        false => {
            crate::report(&lines);
            Ok(())
        }
    }
}

/// Prints the summary, and returns the lines about problems.
fn print_summary(report: &Report, is_strict: bool) -> Vec<String> {
    let mut lines: Vec<String> = report.problems.iter().flat_map(PlacedProblem::lines).collect();
    let warnings = match report.warnings() {
        0 => None,
        1 => Some("1 warning".to_owned()),
        several => Some(format!("{several} warnings")),
    };
    if let Some(summary) = &report.summary {
        let with = warnings.as_ref().map_or(String::new(), |warnings| format!(", {warnings}"));
        print(&format!("{}: valid{with}\n{}", report.path, summary.to_string().trim_end()));
    }
    if let Some(warnings) = warnings.filter(|_| is_strict) {
        lines.push(format!("{}: {warnings}; `--strict` treats warnings as errors", report.path));
    }
    lines
}
