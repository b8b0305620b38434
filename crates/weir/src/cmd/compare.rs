//! `weir compare`: compares two datasets, cell by cell.

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

/// Explains in the help what A and B can be.
const SIDES: &str = "\
A and B are each one of
  RUN            a stored run: its id, a unique prefix of the id, or `last`
  RUN:GATEWAY    one gateway of a run
  FILE.weir      an archive of `weir export`; FILE.weir:GATEWAY is one gateway of it
  FILE[,FILE..]  results of another program, one file per repeat, or a directory of them:
                 - Locust: FILE_stats.csv of --csv; row Aggregated. Locust rounds times
                   below 100 ms to 1 ms, and longer times to two significant digits
                 - k6: JSON of --summary-export or handleSummary; latency from the actual send;
                   p99 needs --summary-trend-stats 'avg,med,p(90),p(95),p(99)'
                 - Gorouter: CSV of throughputramp (start-time in RFC 3339,response-time in
                   seconds). Throughput counts from the first start to the last end. Another
                   header line in the file starts the next load. For CPU, add the CSV of
                   cpumonitor (timestamp,percentage) after a comma: perf.csv,cpuStats.csv. One
                   percentage column is the whole host and needs --cores; several columns are
                   one core each
                 Every repeat counts, except those with more than 0.1 % failed requests.

weir compares each result of A with the result of B for the same gateway, load and axis values.
If A and B both name a gateway, the two names may differ. If a file and a run have the same
name, weir reads the file.

Metrics with a verdict by default, and the difference that counts as the same:
  2%   amplification.ratio
  5%   cpu
  10%  throughput, p50, capacity.rate, limits-and-starts.first_200,
       limits-and-starts.start_memory, per-core.rate, registrations.cpu_ratio,
       slow-clients.memory_per_client
  25%  p99, changes.effective_after, recovery.time, silent-connections.p99
Other metrics for --metric:
  5%   limits-and-starts.handshakes_per_cpu_s, new-connections.cpu, routes.cpu_ratio
  10%  mean, added-latency.mean, added-latency.p50, changes.quiet_ratio, failover.p50,
       failover.throughput, headroom.route_cost, limits-and-starts.configuration_memory,
       limits-and-starts.memory, limits-and-starts.start_cpu,
       new-connections.cpu_without_requests, new-connections.handshake_p50,
       new-connections.per_second, of-direct.share, per-core.efficiency,
       registrations.cpu_each, registrations.throughput_ratio, routes.capacity_ratio,
       routes.memory, routes.memory_per_route, slow-clients.memory,
       slow-clients.memory_alone
  25%  p66, p75, p80, p90, p95, p98, p99.9, p99.99, added-latency.p99,
       changes.kind_effective_after, changes.p99_near, failover.errors (shares of at most
       0.1 % are the same), failover.p99, new-connections.handshake_p99,
       registrations.p99_during, registrations.p99_ratio, silent-connections.opened_after,
       slow-clients.p99, slow-clients.p99_alone

Recommended: run both versions as gateways of one scenario:
  gateways:
    - { name: old, driver: nginx, binary: /opt/nginx-1.28/nginx }
    - { name: new, driver: nginx }
  weir run FILE --repeats 10; weir compare last:old last:new
weir measures both versions in turns, so changes of the host affect both alike. Between two
separate runs, a change of the host looks like a difference between the versions.

Exit codes:
  0  the comparison was made; with --fail-on worse: nothing is worse
  1  with --fail-on worse: a metric is worse; or A succeeded, but B failed in every repeat of a
     load, or did not reach a value (not recovered, no capacity)
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
    /// Largest difference that counts as the same, like p99=30%; may be repeated [default: the margins of the scenario
    /// of A, else 5% for cpu; 10% for throughput, mean and p50; 25% for other latencies]
    #[arg(long = "margin", value_name = "NAME=SHARE")]
    margins: Vec<String>,
    /// Compare only this load, and skip cold starts. If a file has no load names, its load is compared
    #[arg(long, value_name = "NAME")]
    load: Option<String>,
    /// Compare even if scenario or limits differ; every output then shows a warning
    #[arg(long)]
    force: bool,
    /// Label of A [default: its version, if the versions differ]
    #[arg(long, value_name = "NAME")]
    label_a: Option<String>,
    /// Label of B
    #[arg(long, value_name = "NAME")]
    label_b: Option<String>,
    /// Gorouter CSV: number of cores that a CPU value of 100 % stands for
    #[arg(long, value_name = "N")]
    cores: Option<f64>,
    /// Add repeats to the run of the gateways A and B until every verdict is decided
    #[arg(long, value_name = "STATE", value_enum)]
    until: Option<Until>,
    /// Maximum number of repeats with --until
    #[arg(long, value_name = "N", default_value_t = 30, requires = "until")]
    at_most: u32,
    /// Exit with 1 in three cases: a metric is worse; B failed and A did not; or A has a value of a finding, such as a
    /// recovery time, and no repeat of B has one (`not recovered`). Exit with 2 if nothing could be compared: no metric
    /// has enough valid repeats for the verdict `worse`
    #[arg(long, value_name = "VERDICT", value_enum)]
    fail_on: Option<FailOn>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write Markdown, for a pull request; `-` prints it instead of tables
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write an HTML page with A and B in the same charts; `-` prints it instead of tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A verdict for which `weir compare --fail-on` exits with code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FailOn {
    /// A metric is worse, or B failed
    Worse,
}

/// Compares A and B, prints the result and writes the files that the user asked for.
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
        return Err(Failure::wrong_use(message, "print only one of them; write the others to files"));
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
        print(serde_json::to_string_pretty(&comparison).expect("a comparison can always be written as JSON"));
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

/// Reads the datasets A and B, and gives them labels.
fn datasets(args: &Args) -> Result<[Dataset; 2], Failure> {
    let mut sides = sides::Sides::new(&args.database, args.cores);
    let (mut a, mut b) = (sides.side(&args.a)?, sides.side(&args.b)?);
    label_apart(&mut a, &mut b);
    for (side, label) in [(&mut a, &args.label_a), (&mut b, &args.label_b)] {
        side.label = label.clone().unwrap_or_else(|| side.label.clone());
    }
    Ok([a, b])
}

/// Returns the exit code of `--fail-on worse`: 1 if a metric is worse. Returns an error if no metric could be judged.
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
                format!("--margin {given}: not in the form NAME=SHARE"),
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
            None => format!("known metrics: {}", names.join(", ")),
        };
        Failure::wrong_use(format!("{flag}: unknown metric `{name}`"), remedy)
    })
}

/// Writes a text to a file, or prints it if the path is `-`.
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
