//! Locust's request statistics (`locust --csv`): one row per route, and one row `Aggregated` per load.

use weir_results::{Cell, Measurement, Requests, Run, TimesNs};

use crate::ExportError;
use crate::csv::line;
use crate::entry::{loads, route_times, sum};

/// Locust's text for a missing value.
const MISSING: &str = "N/A";

/// The columns: those of Locust, then columns that identify the load.
const COLUMNS: [&str; 28] = [
    "Type",
    "Name",
    "Request Count",
    "Failure Count",
    "Median Response Time",
    "Average Response Time",
    "Min Response Time",
    "Max Response Time",
    "Average Content Size",
    "Requests/s",
    "Failures/s",
    "50%",
    "66%",
    "75%",
    "80%",
    "90%",
    "95%",
    "98%",
    "99%",
    "99.9%",
    "99.99%",
    "100%",
    "weir run",
    "weir cell",
    "weir gateway",
    "weir axes",
    "weir repeat",
    "weir load",
];

/// Renders the statistics of all loads.
pub(crate) fn draw(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    let mut text = line(COLUMNS.into_iter().map(str::to_owned));
    for (cell, measurement) in loads(cells) {
        let record = &measurement.record;
        let which = which(run, cell, measurement);
        let mut put = |row: Vec<String>| text.push_str(&line(row.into_iter().chain(which.iter().cloned())));
        for route in &record.routes {
            let times = route_times(route).map_err(ExportError::histogram(cell, &measurement.load))?;
            let (method, name) = method_and_name(&route.name);
            let per_s = per_second(route.requests.completed, record.result.duration_s);
            put(statistics(method, name, &route.requests, &times, per_s, record.result.duration_s));
        }
        let result = &record.result;
        let per_s = Some(result.rate_per_s);
        put(statistics("", "Aggregated", &result.requests, &result.latency_ns, per_s, result.duration_s));
    }
    Ok(text)
}

/// The values of the columns that identify the load.
fn which(run: &Run, cell: &Cell, measurement: &Measurement) -> [String; 6] {
    let key = &cell.key;
    let (index, repeat) = (key.index.to_string(), key.repeat.to_string());
    let axes = weir_analysis::axes_words(&key.axes);
    let load = match &measurement.trial {
        Some(trial) => format!("{}, trial {}", measurement.load, trial.number),
        None => measurement.load.clone(),
    };
    [run.id.clone(), index, key.gateway.clone(), axes, repeat, load]
}

/// Splits the name of a route: `GET /get/:id` is `GET` and `/get/:id`. A name from the scenario has no method.
fn method_and_name(route: &str) -> (&str, &str) {
    match route.split_once(' ') {
        Some((method, name)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => (method, name),
        _ => ("", route),
    }
}

/// The values of Locust's columns in one row; times are in milliseconds.
fn statistics(
    method: &str,
    name: &str,
    books: &Requests,
    times: &TimesNs,
    per_s: Option<f64>,
    duration_s: f64,
) -> Vec<String> {
    let lost = sum([books.failed, books.timed_out, books.dropped]);
    let (failures, ended) = (sum([books.unexpected, lost]), sum([books.completed, lost]));
    let ms = |ns: Option<u64>| number(ns.map(|ns| ns as f64 / 1e6));
    let mut row = vec![method.to_owned(), name.to_owned(), ended.to_string(), failures.to_string()];
    row.extend([ms(times.p50), number(times.mean.map(|ns| ns / 1e6)), ms(times.min), ms(times.max)]);
    // weir counts bytes on the wire, including headers, so the size of the bodies is unknown.
    row.push(MISSING.to_owned());
    row.extend([number(per_s), number(per_second(failures, duration_s))]);
    let quantiles = [
        times.p50,
        times.p66,
        times.p75,
        times.p80,
        times.p90,
        times.p95,
        times.p98,
        times.p99,
        times.p999,
        times.p9999,
        times.max,
    ];
    row.extend(quantiles.map(ms));
    row
}

fn per_second(count: u64, duration_s: f64) -> Option<f64> {
    (duration_s > 0.0).then(|| count as f64 / duration_s)
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| MISSING.to_owned(), |value| format!("{value:?}"))
}
