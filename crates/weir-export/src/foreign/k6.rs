//! Reads k6's end-of-test summary: the file of `--summary-export`, or the data of `handleSummary`. In the latter, the
//! values are one level deeper, under `values`.

use super::error::cut;
use super::{ForeignError, ForeignFile, Read, SummedUp, failed_repeats, summed_up};
use serde_json::Value;

pub(super) const PROGRAM: &str = "k6";
/// The latencies in a k6 summary: (k6's name, weir's name, quantile).
const TIMES: [(&str, &str, Option<f64>); 7] = [
    ("avg", "mean", None),
    ("med", "p50", Some(0.5)),
    ("p(90)", "p90", Some(0.9)),
    ("p(95)", "p95", Some(0.95)),
    ("p(99)", "p99", Some(0.99)),
    ("p(99.9)", "p999", Some(0.999)),
    ("p(99.99)", "p9999", Some(0.9999)),
];

/// The values in one summary, which is one repeat.
pub(super) struct Summary {
    rate_per_s: f64,
    /// Share of failed requests; `None` if the summary does not contain it.
    failed: Option<f64>,
    /// The times in the order of [`TIMES`], nanoseconds.
    times_ns: Vec<Option<f64>>,
}

/// Parses the JSON of a file.
pub(super) fn parsed(file: &ForeignFile, text: &str) -> Result<Value, ForeignError> {
    serde_json::from_str(text).map_err(|error| {
        let several = error.to_string().starts_with("trailing characters");
        let detail = match several {
            true => "the file has several summaries; use one file per repeat".to_owned(),
            false => format!("the file is not JSON: {error}"),
        };
        ForeignError::Malformed { name: file.name.clone(), detail }
    })
}

/// Reads the values in a summary.
pub(super) fn summary(file: &ForeignFile, document: &Value) -> Result<Summary, ForeignError> {
    let of_metric = |metric: &str, figure: &str| {
        let stands = document.get("metrics").and_then(|metrics| metrics.get(metric));
        let value = stands.and_then(|stands| stands.get("values").unwrap_or(stands).get(figure));
        value.filter(|value| !value.is_null()).map(|value| number(file, metric, figure, value)).transpose()
    };
    let needed = |metric: &str, figure: &str| {
        of_metric(metric, figure)?.ok_or_else(|| ForeignError::Nothing {
            name: file.name.clone(),
            detail: format!("the file has no metrics.{metric}.{figure}"),
            remedy: "use the file from `k6 run --summary-export FILE`, or the data of handleSummary as JSON",
        })
    };
    let rate_per_s = needed("http_reqs", "rate")?;
    needed("http_req_duration", "med")?;
    let time = |(name, ..): &(&str, &str, Option<f64>)| {
        Ok(of_metric("http_req_duration", name)?.map(|ms: f64| ms * 1e6))
    };
    let failed = match of_metric("http_req_failed", "rate")? {
        Some(share) => Some(share),
        None => of_metric("http_req_failed", "value")?,
    };
    Ok(Summary { rate_per_s, failed, times_ns: TIMES.iter().map(time).collect::<Result<_, _>>()? })
}

/// Converts a value to a number of at least 0.
fn number(file: &ForeignFile, metric: &str, figure: &str, value: &Value) -> Result<f64, ForeignError> {
    let number = value.as_f64().filter(|number| *number >= 0.0);
    number.ok_or_else(|| ForeignError::Malformed {
        name: file.name.clone(),
        detail: format!(
            "metrics.{metric}.{figure} is `{}`, which is not a number of at least 0",
            cut(&value.to_string())
        ),
    })
}

/// Combines all repeats.
pub(super) fn read(repeats: &[Summary]) -> Read {
    let all: Vec<SummedUp<'_>> = repeats.iter().map(Summary::summed_up).collect();
    let mut notes = vec!["latency is http_req_duration, which starts at the actual send time".to_owned()];
    if repeats.iter().any(|repeat| repeat.times_ns[4].is_none()) {
        notes.push(
            "p(99) is missing: k6 writes it with --summary-trend-stats 'avg,med,p(90),p(95),p(99)'".into(),
        );
    }
    let worst = repeats.iter().filter_map(|repeat| repeat.failed).fold(0.0, f64::max);
    let mut warnings: Vec<String> = failed_repeats(&all).into_iter().collect();
    if worst > 0.0 {
        warnings.push(format!(
            "in the worst repeat, {} of the requests failed",
            weir_analysis::quantity::percent(worst)
        ));
    }
    Read { program: PROGRAM, series: vec![summed_up(&TIMES, &all)], notes, warnings }
}

impl Summary {
    fn summed_up(&self) -> SummedUp<'_> {
        SummedUp { rate_per_s: self.rate_per_s, times_ns: &self.times_ns, failed: self.failed }
    }
}
