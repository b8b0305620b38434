//! `weir export`: writes a stored run to a file, for another installation of weir or for other programs.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use weir_analysis::{Summary, summarize};
use weir_export::Selection;
use weir_results::{Cell, Run, write_archive};

use super::database::Database;
use super::output::{note, write};
use crate::failure::{Exit, Failure};

/// Arguments of `weir export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run: its id, a unique prefix of the id, or `last`
    #[arg(default_value = "last")]
    run: String,
    /// Format [default: the first format with the ending of --out; without --out, weir]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// File to write atomically; `-` is standard output [default: -]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Export only the cell with this number; `weir run --plan` and the report show the numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cell: Option<u32>,
    /// Export only this load of the scenario
    #[arg(long, value_name = "NAME")]
    load: Option<String>,
    /// Export the findings over all repeats (failover, recovery, slow clients, ..) instead of the loads, as csv, json
    /// or parquet. Each value has a row. If the column `text` is `bounds` or `least and greatest`, the columns `low`
    /// and `high` contain those; otherwise they contain the 95 % interval
    #[arg(long, conflicts_with_all = ["cell", "load"])]
    findings: bool,
    #[command(flatten)]
    database: Database,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Archive of the whole run, for `weir import`: plan, scenario, manifest, cells, series, histograms, verdicts. It
    /// is gzip-compressed JSON lines, so it is binary. Ending: .weir
    Weir,
    /// One row per load, step and route of each cell. Ending: .csv
    Csv,
    /// The whole run as one document, with histograms and quantiles. Quantiles of histograms cover answered requests
    /// only. Quantiles in `record.result` rank unanswered requests last. Ending: .json
    Json,
    /// The same rows as csv, with typed columns, in a binary format. Ending: .parquet
    Parquet,
    /// HdrHistogram log 1.3 of the latency. Each second of a load, warm-up included, is an interval with the requests
    /// answered in that second. Values are nanoseconds; the third number of a line is the maximum in ms. Times assume
    /// that the first load of a cell starts with the cell. Tags: cell, gateway, repeat, load, phase, axes. Endings:
    /// .hlog, .hdr
    Hdr,
    /// k6 end-of-test summary, one line per load, times in ms. iteration_duration is the latency from the intended send
    /// time, http_req_duration the service time, and http_req_blocked the wait for a connection. http_reqs counts
    /// requests that completed, failed or timed out; `passes` of http_req_failed counts the failed ones.
    /// dropped_iterations counts requests that were never sent. vus counts connections. Ending: .json
    K6,
    /// Locust request statistics, latencies in ms without rounding. One row per route, and one row Aggregated per load.
    /// Requests that were never sent count as failures. Average Content Size is N/A. Ending: .csv
    Locust,
}

/// The formats for each ending of a file name. The first one is the default.
const ENDINGS: &[(&str, &[Format])] = &[
    ("weir", &[Format::Weir]),
    ("csv", &[Format::Csv, Format::Locust]),
    ("json", &[Format::Json, Format::K6]),
    ("parquet", &[Format::Parquet]),
    ("hlog", &[Format::Hdr]),
    ("hdr", &[Format::Hdr]),
];

impl Format {
    /// Returns the format that `--format` selects, or the one for the ending of `out`.
    fn chosen(asked: Option<Self>, out: Option<&Path>) -> Result<Self, Failure> {
        let Some((path, ending)) = out.and_then(|path| Some((path, path.extension()?))) else {
            return Ok(asked.unwrap_or(Self::Weir));
        };
        let ending = ending.to_string_lossy().to_ascii_lowercase();
        let path = path.display();
        match (asked, ENDINGS.iter().find(|(known, _)| *known == ending)) {
            (None, Some((_, formats))) => Ok(formats[0]),
            (None, None) => {
                let known: Vec<String> = ENDINGS.iter().map(|(ending, _)| format!(".{ending}")).collect();
                let remedy = format!("use --format, or a file name that ends with {}", known.join(", "));
                Err(Failure::wrong_use(format!("--out {path}: unknown format .{ending}"), remedy))
            }
            (Some(asked), Some((_, formats))) if !formats.contains(&asked) => {
                let [asked, meant] = [asked, formats[0]].map(Self::name);
                let remedy = format!("remove --format to write {meant}, or use another ending");
                let message = format!("--out {path}: the ending .{ending} contradicts --format {asked}");
                Err(Failure::wrong_use(message, remedy))
            }
            (Some(asked), _) => Ok(asked),
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn is_binary(self) -> bool {
        matches!(self, Self::Weir | Self::Parquet)
    }
}

/// Writes the run in the chosen format.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let out = args.out.as_deref().filter(|path| *path != Path::new("-"));
    let format = match Format::chosen(args.format, out)? {
        Format::Weir if args.findings && args.format.is_none() => Format::Csv,
        format => format,
    };
    if args.findings && !matches!(format, Format::Csv | Format::Json | Format::Parquet) {
        let message = format!("--findings: format {} cannot contain findings", format.name());
        return Err(Failure::wrong_use(message, "use --format csv, json or parquet"));
    }
    let selection = Selection { cell: args.cell.map(|number| number - 1), load: args.load.clone() };
    if format == Format::Weir && selection != Selection::default() {
        return Err(Failure::wrong_use(
            "--cell and --load select a part of a run, but --format weir exports the whole run",
            "remove --cell and --load, or use another --format",
        ));
    }
    if out.is_none() && format.is_binary() && io::stdout().is_terminal() {
        return Err(Failure::wrong_use(
            "cannot print a binary format to a terminal",
            "use --out FILE, or redirect the output",
        ));
    }
    if let Some(path) = out {
        refuse_to_overwrite(path, args.force)?;
    }
    let store = args.database.open()?;
    let run = store.run(&store.find(&args.run)?)?;
    let finished = store.cells(&run.id)?;
    if finished.len() < run.plan.len() {
        let planned = weir_results::words::counted(run.plan.len() as u64, "cell");
        note(format_args!("run {} is unfinished: {} of {planned} finished", run.id, finished.len()));
    }
    let cells =
        selection.of(finished).map_err(|error| Failure::wrong_use(error.to_string(), error.remedy()))?;
    let bytes = match args.findings {
        true => findings(format, &run, &summarize(&run, &cells))?,
        false => made(format, &run, &cells)?,
    };
    match out {
        Some(path) => {
            write_whole(path, &bytes).map_err(|error| unwritable(&path.display().to_string(), &error))?;
            note(path.display());
        }
        None => write(&bytes).map_err(|error| unwritable("standard output", &error))?,
    }
    Ok(Exit::Good)
}

fn made(format: Format, run: &Run, cells: &[Cell]) -> Result<Vec<u8>, Failure> {
    let text = match format {
        Format::Weir => {
            let mut bytes = Vec::new();
            write_archive(run, cells, &mut bytes).expect("writing to memory cannot fail");
            return Ok(bytes);
        }
        Format::Parquet => {
            return weir_export::parquet(run, cells).map_err(|error| inexpressible(run, &error));
        }
        Format::Csv => weir_export::csv(run, cells),
        Format::Json => weir_export::json(run, cells),
        Format::Hdr => weir_export::hdr(run, cells),
        Format::K6 => Ok(weir_export::k6(run, cells)),
        Format::Locust => weir_export::locust(run, cells),
    };
    text.map(String::into_bytes).map_err(|error| inexpressible(run, &error))
}

fn findings(format: Format, run: &Run, summary: &Summary) -> Result<Vec<u8>, Failure> {
    if summary.findings.is_empty() {
        note(format_args!("run {} has no findings: its scenario measures only loads", run.id));
    }
    Ok(match format {
        Format::Json => weir_export::findings_json(summary).into_bytes(),
        Format::Parquet => {
            weir_export::findings_parquet(summary).map_err(|error| inexpressible(run, &error))?
        }
        _ => weir_export::findings_csv(summary).into_bytes(),
    })
}

fn inexpressible(run: &Run, error: &weir_export::ExportError) -> Failure {
    let remedy = match error {
        weir_export::ExportError::Histogram { .. } => {
            "this cell is damaged in the database; export the other cells one by one with --cell N"
        }
        weir_export::ExportError::Parquet(_) => "report this as a bug, and use another --format",
    };
    Failure::environment(format!("run {}: {error}", run.id), remedy)
}

/// Rejects an existing regular file unless `force` is set. Pipes and terminals can be written to without losing
/// anything.
fn refuse_to_overwrite(path: &Path, force: bool) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => {
            let message = format!("{}: the path is a directory", path.display());
            Err(Failure::wrong_use(message, "use --out FILE with the path of a file in this directory"))
        }
        Ok(there) if there.is_file() && !force => {
            let message = format!("{}: the file already exists", path.display());
            Err(Failure::wrong_use(
                message,
                "give another name with --out FILE, or overwrite the file with --force",
            ))
        }
        _ => Ok(()),
    }
}

/// Writes a temporary file in the same folder and then renames it. So the file at `path` is always complete.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn unwritable(place: &str, error: &io::Error) -> Failure {
    let remedy =
        "check that the folder exists, is writable and has free space, or use another file with --out FILE";
    Failure::environment(format!("{place}: cannot write the export: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_selects_the_format_and_contradictions_are_rejected() {
        let check = |asked: Option<Format>, out: Option<&str>, expected: Result<Format, &str>| {
            let chosen = Format::chosen(asked, out.map(Path::new));
            match (chosen, expected) {
                (Ok(chosen), Ok(expected)) => assert_eq!(chosen, expected, "{out:?}"),
                (Err(failure), Err(words)) => {
                    let reported = format!("{} | {}", failure.problem.message, failure.problem.remedy);
                    assert!(reported.contains(words), "{reported}");
                }
                (chosen, expected) => panic!("{asked:?} {out:?}: {chosen:?}, not {expected:?}"),
            }
        };
        check(None, None, Ok(Format::Weir));
        check(None, Some("backup"), Ok(Format::Weir));
        for (out, format) in [
            ("x.weir", Format::Weir),
            ("x.csv", Format::Csv),
            ("a.b/X.CSV", Format::Csv),
            ("x.json", Format::Json),
            ("x.parquet", Format::Parquet),
            ("x.hlog", Format::Hdr),
        ] {
            check(None, Some(out), Ok(format));
        }
        check(Some(Format::Locust), Some("x_stats.csv"), Ok(Format::Locust));
        check(Some(Format::K6), Some("x.json"), Ok(Format::K6));
        check(Some(Format::Csv), Some("x.tsv"), Ok(Format::Csv));
        check(Some(Format::Csv), Some("x"), Ok(Format::Csv));
        check(Some(Format::Weir), Some("x.csv"), Err("the ending .csv contradicts --format weir"));
        check(Some(Format::Csv), Some("x.parquet"), Err("remove --format to write parquet"));
        check(None, Some("x.gz"), Err("unknown format .gz | use --format"));
    }
}
