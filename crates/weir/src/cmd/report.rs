//! `weir report`: prints and writes the report of a stored run. `weir run` also does this at the end of a run.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_analysis::compare::Comparison;
use weir_analysis::{Summary, summarize};
use weir_report::FileFormat;
use weir_results::{Cell, Run, Store};

use super::database::Database;
use super::gate::{Gate, REPORT_EXIT_CODES};
use crate::cmd::output::{note, print};
use crate::failure::{Exit, Failure};

/// Name of the file that `--format junit` writes.
const JUNIT: &str = "junit.xml";

/// Width of tables, in columns, if standard output is not a terminal.
const WIDTH: usize = 110;
/// Minimum width of tables, in columns.
const WIDTH_MIN: usize = 40;

/// Arguments of `weir report`.
#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_EXIT_CODES)]
pub(crate) struct Args {
    /// Run: its id, a unique prefix of the id, or `last`
    #[arg(default_value = "last")]
    run: String,
    #[command(flatten)]
    database: Database,
    /// Directory for the report; `-` prints the report to standard output, in the format of --format [default:
    /// ./weir-results/RUN]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write only this format; may be repeated [default: all but junit]
    #[arg(long = "format", value_name = "FORMAT", value_enum)]
    formats: Vec<Format>,
    /// Print JSON: the run, its cells and the summary
    #[arg(long, conflicts_with = "formats")]
    json: bool,
    /// Outcome that results in an exit code other than 0
    #[arg(long, value_name = "OUTCOME", value_enum, default_value_t = Gate::Undecided)]
    fail_on: Gate,
}

/// A format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Tables on standard output (without a terminal, 110 columns wide unless COLUMNS is set)
    Terminal,
    /// report.html, which opens offline, with a page per cell in cells/
    Html,
    /// report.md, with pictures
    Md,
    /// cells.csv
    Csv,
    /// junit.xml, the objectives as tests for CI: a test suite per gateway, a test case per limit and load. An
    /// undecided limit is a skipped test, a failed cell is a test with an error
    Junit,
}

impl Format {
    /// The formats that are written if the user chooses none.
    pub(super) const ALL: &[Self] = &[Self::Terminal, Self::Html, Self::Md, Self::Csv];
}

/// Which outputs of a report the user wants.
pub(super) struct Wanted<'a> {
    pub(super) out: Option<&'a Path>,
    pub(super) formats: &'a [Format],
    pub(super) json: bool,
    /// Where to write the objective as JUnit tests; `None` if no JUnit file is wanted.
    pub(super) junit: Option<&'a Path>,
    /// A comparison with a baseline run, which is added to the outputs.
    pub(super) comparison: Option<&'a Comparison>,
    /// Which results lead to an exit code other than 0.
    pub(super) gate: Gate,
}

/// The document that `weir report --json` and `weir run --json` print.
#[derive(Serialize)]
struct Document<'a> {
    run: &'a Run,
    cells: &'a [Cell],
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<&'a Comparison>,
}

/// Prints and writes the report of a stored run.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let store = args.database.open()?;
    let id = store.find(&args.run)?;
    if args.formats.contains(&Format::Junit) && store.run(&id)?.objective.is_none() {
        return Err(no_objective("--format junit", &format!("run {id}")));
    }
    if args.out.as_deref() == Some(Path::new("-")) {
        return printed(&store, &id, &args);
    }
    let formats = match args.formats.as_slice() {
        [] => Format::ALL,
        asked => asked,
    };
    let out = args.out.as_deref();
    let wanted = Wanted { out, formats, json: args.json, junit: None, comparison: None, gate: args.fail_on };
    tell(&store, &id, &wanted)
}

/// Prints the chosen format to standard output, and writes no file.
fn printed(store: &Store, id: &str, args: &Args) -> Result<Exit, Failure> {
    let (run, cells) = (store.run(id)?, store.cells(id)?);
    let summary = summarize(&run, &cells);
    let refused = |why: &str| {
        let remedy = "use --json, or --format with one of terminal, md, csv and junit; or give a folder";
        Failure::wrong_use(format!("--out -: {why}"), remedy)
    };
    let not_written = |error| unwritable(Path::new("standard output"), &error, "report this as a bug");
    match args.formats.as_slice() {
        [] if args.json => print(document(&run, &cells, &summary, None)),
        [] => return Err(refused("a report is several files, which standard output cannot hold")),
        [Format::Html] => return Err(refused("report.html needs a folder for its pages and charts")),
        [Format::Terminal] => print(weir_report::terminal(&run, &cells, &summary, width(), color())),
        [Format::Md] => print(weir_report::markdown(&run, &cells, &summary).trim_end()),
        [Format::Csv] => {
            let table =
                weir_export::csv(&run, &cells).map_err(|error| not_written(std::io::Error::other(error)))?;
            print(table.trim_end());
        }
        [Format::Junit] => print(weir_report::junit(&run, &summary).map_err(not_written)?.trim_end()),
        _ => return Err(refused("standard output cannot hold several formats")),
    }
    if args.formats != [Format::Terminal] || !std::io::stdout().is_terminal() {
        print_problems(&summary);
    }
    Ok(args.fail_on.exit(summary.outcome))
}

fn document(run: &Run, cells: &[Cell], summary: &Summary, comparison: Option<&Comparison>) -> String {
    let document = Document { run, cells, summary, comparison };
    serde_json::to_string(&document).expect("results can always be written as JSON")
}

fn print_problems(summary: &Summary) {
    for (kind, problem) in summary.problems_by_kind() {
        note(format_args!("{}: {problem}", kind.word()));
    }
}

/// Prints and writes the report of the run `id`. Returns an exit code that depends on the results.
pub(super) fn tell(store: &Store, id: &str, wanted: &Wanted<'_>) -> Result<Exit, Failure> {
    let run = store.run(id)?;
    let cells = store.cells(id)?;
    let summary = summarize(&run, &cells);
    let tables = !wanted.json && wanted.formats.contains(&Format::Terminal);
    if wanted.json {
        print(document(&run, &cells, &summary, wanted.comparison));
    } else if tables {
        print(weir_report::terminal(&run, &cells, &summary, width(), color()));
    }
    let say = |line: String| if wanted.json { note(line) } else { print(line) };
    let dir = folder(wanted.out, id);
    let writer = weir_report::Writer::new(&run, &cells, &summary, &dir);
    for format in wanted.formats.iter().filter_map(|format| file_format(*format)) {
        let written = writer.put(format).map_err(|error| {
            let remedy = format!(
                "the run is stored; `weir report {id} --out DIR` writes its reports to another folder"
            );
            unwritable(&dir, &error, remedy)
        })?;
        say(written.display().to_string());
    }
    let beside = wanted.formats.contains(&Format::Junit).then(|| dir.join(JUNIT));
    for path in wanted.junit.into_iter().chain(beside.as_deref()) {
        write_junit(&run, &summary, path)?;
        say(path.display().to_string());
    }
    say(format!("run {id}, stored in {}", store.path().display()));
    if let Some(comparison) = wanted.comparison.filter(|_| !wanted.json) {
        print("");
        print(weir_report::comparison_terminal(comparison, width(), color()));
    }
    // The problems are repeated here, because CI often shows only the end of a log.
    if !tables || !std::io::stdout().is_terminal() {
        print_problems(&summary);
    }
    Ok(wanted.gate.exit(summary.outcome))
}

/// The error if JUnit tests are wanted, but the run has no objective.
pub(super) fn no_objective(flag: &str, what: &str) -> Failure {
    Failure::wrong_use(
        format!("{flag}: {what} has no objective to test"),
        "add an objective to the scenario, like `objective: { p99: 20ms, errors: 0.1% }`",
    )
}

/// Checks that the JUnit file can be written.
pub(super) fn check_junit(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        let message = "--junit -: `weir run` already writes its report to standard output";
        return Err(Failure::wrong_use(
            message,
            "give a file, or print the tests with `weir report last --format junit --out -` after the run",
        ));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        let message = format!("--junit {}: the path is a directory", path.display());
        return Err(Failure::wrong_use(message, "give the path of a file in this directory"));
    }
    weir_report::check_folder(folder).map_err(|error| unwritable_junit(path, &error))
}

fn write_junit(run: &Run, summary: &Summary, path: &Path) -> Result<(), Failure> {
    let written = weir_report::junit(run, summary).and_then(|tests| {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, tests)
    });
    written.map_err(|error| unwritable_junit(path, &error))
}

fn unwritable_junit(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{}: cannot write the JUnit report: {error}", path.display());
    Failure::environment(message, "choose another file for the JUnit report")
}

/// Checks that the report files of the run `id` can be written.
pub(super) fn check_folder(out: Option<&Path>, id: &str) -> Result<(), Failure> {
    if out == Some(Path::new("-")) {
        return Err(Failure::wrong_use(
            "--out -: a report is several files, which standard output cannot hold",
            "give a directory with --out DIR; `weir report last --format md --out -` prints the report of a finished \
            run as one text",
        ));
    }
    let dir = folder(out, id);
    weir_report::check_folder(&dir)
        .map_err(|error| unwritable(&dir, &error, "give another directory with --out DIR"))
}

/// The folder for the report files of the run `id`.
fn folder(out: Option<&Path>, id: &str) -> PathBuf {
    out.map_or_else(|| PathBuf::from("weir-results").join(id), Path::to_path_buf)
}

fn unwritable(dir: &Path, error: &std::io::Error, remedy: impl Into<String>) -> Failure {
    Failure::environment(format!("{}: cannot write the reports: {error}", dir.display()), remedy)
}

fn file_format(format: Format) -> Option<FileFormat> {
    match format {
        Format::Terminal | Format::Junit => None,
        Format::Html => Some(FileFormat::Html),
        Format::Md => Some(FileFormat::Markdown),
        Format::Csv => Some(FileFormat::Csv),
    }
}

pub(super) fn width() -> usize {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= WIDTH_MIN);
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    terminal.or_else(asked).unwrap_or(WIDTH)
}

pub(super) fn color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
