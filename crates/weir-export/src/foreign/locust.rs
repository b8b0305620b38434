//! Reads Locust's request statistics (`locust --csv FILE` writes `FILE_stats.csv`): the row for all requests.

use super::rows::{Line, Rows};
use super::{ForeignError, ForeignFile, Read, SummedUp, failed_repeats, summed_up};
use weir_analysis::quantity::{count, counted};

pub(super) const PROGRAM: &str = "Locust";
/// Required columns. They also identify the format.
pub(super) const COLUMNS: [&str; 7] =
    ["Name", "Request Count", "Failure Count", "Average Response Time", "Requests/s", "50%", "99%"];
/// The name of the row for all requests.
const ALL: &str = "Aggregated";
/// Locust's text for a missing value.
const MISSING: &str = "N/A";
/// Columns with times: Locust's name, weir's name and the quantile.
const TIMES: [(&str, &str, Option<f64>); 11] = [
    ("Average Response Time", "mean", None),
    ("50%", "p50", Some(0.5)),
    ("66%", "p66", Some(0.66)),
    ("75%", "p75", Some(0.75)),
    ("80%", "p80", Some(0.8)),
    ("90%", "p90", Some(0.9)),
    ("95%", "p95", Some(0.95)),
    ("98%", "p98", Some(0.98)),
    ("99%", "p99", Some(0.99)),
    ("99.9%", "p999", Some(0.999)),
    ("99.99%", "p9999", Some(0.9999)),
];

/// The values in one file, which is one repeat.
pub(super) struct Statistics {
    requests: f64,
    failures: f64,
    rate_per_s: f64,
    /// The times in the order of [`TIMES`], nanoseconds.
    times_ns: Vec<Option<f64>>,
}

/// Reads the values in a file.
pub(super) fn statistics(file: &ForeignFile, rows: &Rows) -> Result<Statistics, ForeignError> {
    let mut all = rows.lines.iter().filter(|line| rows.field(line, "Name") == ALL);
    let nothing = |detail: &str, remedy| ForeignError::Nothing {
        name: file.name.clone(),
        detail: detail.into(),
        remedy,
    };
    let Some(line) = all.next() else {
        return Err(nothing(
            "the file has no row `Aggregated`",
            "use FILE_stats.csv of a finished Locust run",
        ));
    };
    if all.next().is_some() {
        let remedy = "if the file is from weir, export the run with --format weir and use that file";
        return Err(nothing("the file has several `Aggregated` rows", remedy));
    }
    let number = |column: &str| line.number(file, column, rows.field(line, column), "number");
    let statistics = Statistics {
        requests: number("Request Count")?,
        failures: number("Failure Count")?,
        rate_per_s: number("Requests/s")?,
        times_ns: TIMES
            .iter()
            .map(|(column, ..)| time_ns(file, rows, line, column))
            .collect::<Result<_, _>>()?,
    };
    if statistics.requests < 1.0 {
        return Err(nothing("the file has no requests", "use the statistics of a run that sent requests"));
    }
    Ok(statistics)
}

/// Reads a time in milliseconds and returns nanoseconds. `None` if the column or its value is missing: users choose
/// which quantiles Locust reports.
fn time_ns(file: &ForeignFile, rows: &Rows, line: &Line, column: &str) -> Result<Option<f64>, ForeignError> {
    let value = rows.field(line, column);
    if value.is_empty() || value == MISSING {
        return Ok(None);
    }
    line.number(file, column, value, "number of milliseconds").map(|ms| Some(ms * 1e6))
}

/// Combines all repeats.
pub(super) fn read(repeats: &[Statistics]) -> Read {
    let all: Vec<SummedUp<'_>> = repeats.iter().map(Statistics::summed_up).collect();
    let failures: f64 = repeats.iter().map(|repeat| repeat.failures).sum();
    let requests: f64 = repeats.iter().map(|repeat| repeat.requests).sum();
    let mut warnings: Vec<String> = failed_repeats(&all).into_iter().collect();
    if failures > 0.0 {
        warnings.push(format!(
            "{} of {} failed",
            count(failures as u64),
            counted(requests as u64, "request")
        ));
    }
    let mut notes = vec!["throughput includes failed requests".to_owned()];
    if repeats.iter().all(Statistics::is_rounded) {
        notes.push(
            "Locust rounds times below 100 ms to whole milliseconds, and longer times to two significant digits"
                .to_owned(),
        );
    }
    Read { program: PROGRAM, series: vec![summed_up(&TIMES, &all)], notes, warnings }
}

impl Statistics {
    fn summed_up(&self) -> SummedUp<'_> {
        SummedUp {
            rate_per_s: self.rate_per_s,
            times_ns: &self.times_ns,
            failed: Some(self.failures / self.requests),
        }
    }

    /// Whether all quantiles are whole milliseconds, as Locust writes them. The mean is excluded, because Locust does
    /// not round it.
    fn is_rounded(&self) -> bool {
        let quantiles = TIMES.iter().zip(&self.times_ns).filter(|((.., quantile), _)| quantile.is_some());
        quantiles.filter_map(|(_, ns)| *ns).all(|ns| (ns / 1e6).fract() == 0.0)
    }
}
