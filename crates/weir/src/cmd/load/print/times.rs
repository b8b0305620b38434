//! The table of latencies and other times, with an explanation.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use weir_engine::LoadSpec;
use weir_results::words::counted;
use weir_results::{HISTOGRAM_LOW_NS, LoadRecord, Requests, TimesNs, quantile_needs};

use super::figures::{grouped, time};

/// What the table shows for a missing value.
pub(super) const NOTHING_THERE: &str = "–";

/// Title and value of each quantile that all tables show.
pub(super) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// The values of the [`QUANTILES`] in a result.
fn quantiles_of(times: &TimesNs) -> [Option<u64>; 5] {
    [times.p50, times.p90, times.p95, times.p99, times.p999]
}

/// The table cells with the quantiles of `requests` requests. A quantile with too few requests is shown as `–`, and a
/// quantile beyond the timeout as `beyond`.
pub(super) fn cells(times: &TimesNs, requests: u64, beyond: &str) -> Vec<String> {
    let cell = |(ns, (_, quantile)): (Option<u64>, (&str, f64))| {
        if times.min.is_none() || requests < quantile_needs(quantile) {
            return NOTHING_THERE.to_owned();
        }
        ns.map_or_else(|| beyond.to_owned(), shown)
    };
    quantiles_of(times).into_iter().zip(QUANTILES).map(cell).collect()
}

/// The table with the times of all requests, and its explanation.
pub(super) fn table(spec: &LoadSpec, record: &LoadRecord) -> String {
    let result = &record.result;
    let requests = &result.requests;
    let unanswered = format!("> {}", time(spec.timeout_ns as f64));
    let mut table = Table::new();
    table.load_preset(NOTHING);
    let titles = QUANTILES.map(|(title, _)| title);
    table.set_header(["", "min"].into_iter().chain(titles).chain(["max", "mean", "stddev"]));
    let mut legend = Vec::new();
    let mut row = |name: &str, times: &TimesNs, what: &str| {
        let max = match (times.max, times.min) {
            (Some(ns), _) => shown(ns),
            (None, Some(_)) => unanswered.clone(),
            (None, None) => NOTHING_THERE.to_owned(),
        };
        let mean =
            |ns: Option<f64>| ns.map_or_else(|| NOTHING_THERE.to_owned(), |ns| shown(ns.round() as u64));
        let mut cells = vec![format!("  {name}"), times.min.map_or_else(|| NOTHING_THERE.to_owned(), shown)];
        cells.extend(self::cells(times, requests.scheduled, &unanswered));
        let stddev = times.stddev.map_or_else(|| NOTHING_THERE.to_owned(), time);
        cells.extend([max, mean(times.mean), stddev]);
        table.add_row(cells);
        legend.push(format!("{name}: {what}"));
    };
    match &result.lateness_ns {
        None => row("latency", &result.latency_ns, "from the send to the last byte of the response"),
        Some(lateness) => {
            let what = "from the intended send time to the last byte of the response";
            row("latency", &result.latency_ns, what);
            let what = "from the actual send time to the last byte of the response";
            row("service time", &result.service_time_ns, what);
            row("lateness", lateness, "from the intended to the actual send time");
        }
    }
    if let Some(wait) = &record.generator.connection_wait_ns {
        row("connection wait", wait, "the part of the lateness spent waiting for a free connection");
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut out = table.trim_fmt() + "\n";
    for line in legend.into_iter().chain([ranking(requests)]).chain(too_few(requests.scheduled)) {
        let _ = write!(out, "\n  {line}");
    }
    out
}

/// Text after the verdict `valid`: the highest quantile with enough requests. Empty if all quantiles have enough.
pub(super) fn supported(requests: u64) -> String {
    let supported = QUANTILES.iter().rev().find(|(_, quantile)| requests >= quantile_needs(*quantile));
    match supported {
        Some(&(title, _)) if title == QUANTILES[QUANTILES.len() - 1].0 => String::new(),
        Some((title, _)) => format!(" up to {title}"),
        None => " for minimum and mean only".to_owned(),
    }
}

/// Explains how the quantiles are computed.
fn ranking(requests: &Requests) -> String {
    let scheduled = counted(requests.scheduled, "scheduled request");
    match requests.unanswered() {
        0 => format!("quantiles: nearest rank of {scheduled}"),
        unanswered => {
            format!(
                "quantiles: nearest rank of {scheduled}; unanswered requests ({}) count as slowest",
                grouped(unanswered)
            )
        }
    }
}

/// Names the quantiles that are left out, and how many requests each would need. `None` if none is left out.
fn too_few(requests: u64) -> Option<String> {
    let needs = QUANTILES.iter().filter(|(_, quantile)| requests < quantile_needs(*quantile));
    let needs: Vec<String> =
        needs.map(|(title, quantile)| format!("{title} {}", grouped(quantile_needs(*quantile)))).collect();
    (!needs.is_empty() && requests > 0)
        .then(|| format!("{NOTHING_THERE}: fewer requests than this quantile needs ({})", needs.join(", ")))
}

fn shown(ns: u64) -> String {
    match ns {
        // The histogram cannot distinguish lower values.
        ns if ns < HISTOGRAM_LOW_NS => format!("< {HISTOGRAM_LOW_NS} ns"),
        ns => time(ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unanswered_requests_are_named_in_the_ranking() {
        let all = Requests { scheduled: 1_500, completed: 1_500, ..Requests::default() };
        assert_eq!(ranking(&all), "quantiles: nearest rank of 1,500 scheduled requests");
        let some = Requests { completed: 1_400, timed_out: 60, dropped: 40, ..all };
        assert!(ranking(&some).ends_with("; unanswered requests (100) count as slowest"));
    }

    #[test]
    fn six_requests_have_a_median_and_no_tail() {
        let ms = |ms: u64| Some(ms * 1_000_000);
        let times = TimesNs { min: ms(1), p50: ms(2), p99: ms(9), p999: ms(9), ..TimesNs::default() };
        assert_eq!(cells(&times, 6, "> 1 s"), ["2 ms", "–", "–", "–", "–"]);
        assert_eq!(cells(&times, 5, "> 1 s"), ["–"; 5]);
        assert_eq!(cells(&times, 3_000, "> 1 s"), ["2 ms", "> 1 s", "> 1 s", "9 ms", "9 ms"]);
        assert_eq!(
            [5, 6, 2_999, 3_000].map(supported),
            [" for minimum and mean only", " up to p50", " up to p99", ""]
        );
        assert_eq!(
            too_few(299).unwrap(),
            "–: fewer requests than this quantile needs (p99 300, p99.9 3,000)"
        );
        assert_eq!((too_few(3_000), too_few(0)), (None, None));
    }
}
