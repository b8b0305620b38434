//! `weir compare`: two datasets, cell by cell.

mod sides;
mod until;

use std::path::{Path, PathBuf};

use weir_analysis::compare::{
    CompareError, Comparison, Dataset, Margins, Measure, Question, compare, label_apart,
};
use weir_document::{Share, nearest};

use super::database::Database;
use super::export::write_whole;
use super::output::{note, print};
use super::report::{color, width};
use crate::failure::{Exit, Failure};

pub(super) use sides::of_run;
use until::{More, Until};

/// What is compared, in the help.
const SIDES: &str = "\
A and B are each one of
  RUN            a stored run: its id, a unique prefix of the id, or `last`
  RUN:GATEWAY    one gateway of a run
  FILE.weir      an archive of `weir export`; FILE.weir:GATEWAY is one gateway of it
  FILE[,FILE..]  results of another program, one file per repeat, or a directory of them:
                 - Locust: FILE_stats.csv
                 - k6: JSON summary
                 - Gorouter: CSV with start-time,response-time or timestamp,percentage

Each result of A is compared with the result of B that has the same gateway, load and varied
fields. If A and B both name a gateway, the two names may differ.

Recommended: run both versions as gateways of one scenario:
  gateways:
    - { name: old, driver: nginx, binary: /opt/nginx-1.28/nginx }
    - { name: new, driver: nginx }
  weir run FILE --repeats 10; weir compare last:old last:new
weir measures both versions in turns, so changes of the host affect both alike. Between two
separate runs, a change of the host looks like a difference between the versions.

Exit codes:
  0  the comparison was made; with --fail-on worse: nothing is worse
  1  with --fail-on worse: a metric is worse, or B failed and A did not
  2  wrong use; A and B differ in scenario or limits (--force compares them anyway);
     with --fail-on worse: nothing could be compared
  3  the database or a file cannot be read or written";

/// Arguments of `weir compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = SIDES)]
pub(crate) struct Args {
    /// Baseline
    a: String,
    /// Candidate
    b: String,
    #[command(flatten)]
    database: Database,
    /// Metric to judge (throughput, cpu, mean, p50, p99.9, ..); may be repeated [default: throughput, cpu, p50, p99]
    #[arg(long = "metric", value_name = "NAME")]
    metrics: Vec<String>,
    /// Difference that counts as the same, like p99=30%; may be repeated [default: 5% for cpu; 10% for throughput, mean
    /// and p50; 25% for other latencies]
    #[arg(long = "margin", value_name = "NAME=SHARE")]
    margins: Vec<String>,
    /// Compare only this load
    #[arg(long, value_name = "NAME")]
    load: Option<String>,
    /// Compare even if scenario or limits differ; every output is marked
    #[arg(long)]
    force: bool,
    /// Label of A [default: its version, if the versions differ]
    #[arg(long, value_name = "NAME")]
    label_a: Option<String>,
    /// Label of B
    #[arg(long, value_name = "NAME")]
    label_b: Option<String>,
    /// Gorouter CSV: number of cores that equal 100 % CPU
    #[arg(long, value_name = "N")]
    cores: Option<f64>,
    /// Add repeats to the run of A and B, two gateways of it, until every verdict is decided
    #[arg(long, value_name = "STATE", value_enum)]
    until: Option<Until>,
    /// Maximum number of repeats of --until
    #[arg(long, value_name = "N", default_value_t = 30, requires = "until")]
    at_most: u32,
    /// Exit with 1 if a metric is worse, or if B failed and A did not; with 2 if nothing could be compared
    #[arg(long, value_name = "VERDICT", value_enum)]
    fail_on: Option<FailOn>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write Markdown, for a pull request; `-` prints it instead of tables
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write an HTML page with both in the same charts; `-` prints it in place of tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A verdict that makes the result bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FailOn {
    /// Something is worse, or failed
    Worse,
}

/// Compares, prints and writes.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let question = question(&args)?;
    if args.cores.is_some_and(|cores| !(cores > 0.0 && cores.is_finite())) {
        return Err(Failure::wrong_use("--cores: out of range", "use a number above 0, like 4"));
    }
    let is_printed = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let flags = [
        ("--json", args.json),
        ("--markdown -", is_printed(&args.markdown)),
        ("--html -", is_printed(&args.html)),
    ];
    let wanted: Vec<&str> = flags.iter().filter(|(_, is)| *is).map(|(flag, _)| *flag).collect();
    if wanted.len() > 1 {
        let message = format!("{} all use standard output", wanted.join(" and "));
        return Err(Failure::wrong_use(message, "use a file for all but one of them"));
    }
    let [a, b] = datasets(&args)?;
    let mut comparison = compare(&a, &b, &question)?;
    if args.until.is_some() {
        let more = More::of(&args, &a, &b)?;
        while more.measured(&args, &comparison)? {
            let [a, b] = datasets(&args)?;
            comparison = compare(&a, &b, &question)?;
        }
    }
    if args.json {
        print(serde_json::to_string_pretty(&comparison).expect("a comparison is a tree of plain values"));
    } else if wanted.is_empty() {
        print(weir_report::comparison_terminal(&comparison, width(), color()));
    }
    if let Some(path) = &args.markdown {
        written(path, weir_report::comparison_markdown(&comparison))?;
    }
    if let Some(path) = &args.html {
        let page = weir_report::comparison_html(&comparison).map_err(|error| unwritable(path, &error))?;
        written(path, page)?;
    }
    match args.fail_on {
        Some(FailOn::Worse) => gate(&comparison),
        None => Ok(Exit::Good),
    }
}

/// Both sides, with their labels.
fn datasets(args: &Args) -> Result<[Dataset; 2], Failure> {
    let mut sides = sides::Sides::new(&args.database, args.cores);
    let (mut a, mut b) = (sides.side(&args.a)?, sides.side(&args.b)?);
    label_apart(&mut a, &mut b);
    for (side, label) in [(&mut a, &args.label_a), (&mut b, &args.label_b)] {
        side.label = label.clone().unwrap_or_else(|| side.label.clone());
    }
    Ok([a, b])
}

/// A gate fails where something is worse, and where nothing could have been found worse.
fn gate(comparison: &Comparison) -> Result<Exit, Failure> {
    if comparison.is_worse() {
        return Ok(Exit::BadResult);
    }
    match comparison.nothing_decidable() {
        None => Ok(Exit::Good),
        Some(why) => Err(Failure::wrong_use(
            format!("--fail-on worse: nothing could be compared: {why}"),
            "run more repeats on a quiet host; `weir doctor` shows the interference",
        )),
    }
}

fn question(args: &Args) -> Result<Question, Failure> {
    let mut question = Question {
        load: args.load.clone(),
        force: args.force,
        is_sequential: args.until.is_some(),
        ..Question::default()
    };
    if !args.metrics.is_empty() {
        let asked = args.metrics.iter().map(|name| measure("--metric", name));
        question.measures = asked.collect::<Result<_, _>>()?;
        question.must_have = question.measures.clone();
    }
    let mut margins = Margins::default();
    for given in &args.margins {
        let (name, share) = given.split_once('=').ok_or_else(|| {
            Failure::wrong_use(
                format!("--margin {given}: the metric or its share is missing"),
                "use the form p99=30%",
            )
        })?;
        let measure = measure("--margin", name)?;
        let share: Share = share.parse().map_err(|error| {
            Failure::wrong_use(format!("--margin {given}: {error}"), "use the form p99=30%")
        })?;
        if share.0 <= 0.0 {
            let message = format!("--margin {given}: out of range");
            return Err(Failure::wrong_use(message, "use a share above 0, like 1%"));
        }
        margins.set(measure, share.0);
    }
    question.margins = margins;
    Ok(question)
}

fn measure(flag: &str, name: &str) -> Result<Measure, Failure> {
    Measure::named(name).ok_or_else(|| {
        let names: Vec<&str> = Measure::all().map(Measure::name).collect();
        let remedy = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? Known metrics: {}", names.join(", ")),
            None => format!("there are {}", names.join(", ")),
        };
        Failure::wrong_use(format!("{flag}: unknown metric `{name}`"), remedy)
    })
}

/// Writes a file, or prints it where the path is `-`.
fn written(path: &Path, text: String) -> Result<(), Failure> {
    if path == Path::new("-") {
        print(text.trim_end());
        return Ok(());
    }
    write_whole(path, text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    note(path.display());
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let remedy = "check that the folder exists, is writable and has free space, or use another file";
    Failure::environment(format!("{}: cannot write the comparison: {error}", path.display()), remedy)
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Self::wrong_use(error.to_string(), error.remedy())
    }
}
