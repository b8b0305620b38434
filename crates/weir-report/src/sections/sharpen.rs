//! Advice on how to turn values that have only bounds into valid values.

use std::collections::BTreeSet;

use weir_analysis::{Figure, HEADLINE_REPEATS, Point, Row, Summary, reason_name};
use weir_results::{ArrivalModel, Cell, Reason, Run};

/// Maximum number of values that the advice names.
const NAMED: usize = 3;
/// More repeats than this are not advised.
const REPEATS_MAX: usize = 100;

/// Names the main results and p99s that have only bounds, and advises how many more repeats would make these values
/// valid. This number is estimated from the share of valid repeats so far. If no repeat was valid, or if more than
/// [`REPEATS_MAX`] would be needed, the advice is to remove the causes. `None` if no value has only bounds.
pub(crate) fn sharpen(run: &Run, cells: &[Cell], summary: &Summary) -> Option<String> {
    let rows = summary.points.iter().flat_map(|point| point.gateways().map(move |row| (point, row)));
    let bounded: Vec<(String, &Figure)> = rows.flat_map(|(point, row)| bounded(point, row)).collect();
    let (_, first) = bounded.first()?;
    let repeats = first.repeats.len();
    let more = bounded.iter().filter_map(|(_, figure)| more_repeats(figure)).max();
    let names: Vec<&str> = bounded.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
    let others = match bounded.len().saturating_sub(NAMED) {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let what = format!("only bounds are known: {}{others}", names.join(", "));
    Some(match more.filter(|more| *more <= REPEATS_MAX) {
        Some(more) => format!(
            "{what}. To get valid values, add about {more} more repeats{} (`weir run --resume {} --repeats {}`), or \
             use a quieter host",
            took(cells, more),
            run.id,
            repeats + more
        ),
        None => format!("{what}. {}", causes(bounded.iter().map(|(_, figure)| *figure))),
    })
}

/// Why too few repeats are valid, and what to do.
fn causes<'a>(figures: impl Iterator<Item = &'a Figure>) -> String {
    let reasons: BTreeSet<Reason> = figures
        .flat_map(|figure| &figure.repeats)
        .flat_map(|repeat| repeat.reasons.iter().copied())
        .collect();
    let others: Vec<&str> = reasons
        .iter()
        .filter(|reason| **reason != Reason::HostNoise)
        .map(|reason| reason_name(*reason))
        .collect();
    if others.is_empty() {
        return "Host noise affected almost all repeats: use a quieter host (check with `weir doctor`)"
            .into();
    }
    format!(
        "Host noise is not the only reason (also: {}), so more repeats alone do not help: remove other causes first",
        others.join(", ")
    )
}

/// The values of a row that have bounds, each with its name: throughput or latency, and CPU per request.
fn bounded<'a>(point: &Point, row: &'a Row) -> impl Iterator<Item = (String, &'a Figure)> + use<'a> {
    let main = match point.model {
        ArrivalModel::Closed => vec![("throughput", Some(&row.throughput_per_s))],
        ArrivalModel::Open => {
            vec![("p50", row.latency("p50")), ("p99 (not a main result)", row.latency("p99"))]
        }
    };
    let place = format!("{} at {}", row.gateway, point.load);
    let values = main.into_iter().chain([("CPU per request", Some(&row.cpu_us_per_request))]);
    let bounded =
        values.filter_map(|(name, figure)| Some((name, figure.filter(|figure| figure.is_bounded())?)));
    bounded.map(move |(name, figure)| (format!("{name} of {place}"), figure))
}

/// How many more repeats are needed until three are valid, estimated from the share of valid repeats so far. `None`
/// if no repeat was valid.
fn more_repeats(figure: &Figure) -> Option<usize> {
    let missing = HEADLINE_REPEATS.saturating_sub(figure.valid);
    (figure.valid > 0).then(|| (missing * figure.repeats.len()).div_ceil(figure.valid))
}

/// The estimated duration of `more` repeats of all cells, like `, 6 min`; empty if no repeat is complete.
fn took(cells: &[Cell], more: usize) -> String {
    let repeats = cells.iter().map(|cell| cell.key.repeat).collect::<BTreeSet<_>>().len();
    if repeats == 0 {
        return String::new();
    }
    // Exclude the time between two cells, because a run can be resumed days later.
    let measured: u64 =
        cells.iter().map(|cell| cell.ended_unix_ms.saturating_sub(cell.started_unix_ms)).sum();
    let seconds = measured as f64 / 1e3 / repeats as f64 * more as f64;
    if seconds < 100.0 {
        format!(", {seconds:.0} s")
    } else {
        format!(", {:.0} min", (seconds / 60.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use weir_analysis::Range;

    use super::*;

    #[test]
    fn missing_repeats_follow_from_the_share_of_valid_ones() {
        let figure = |valid, of| Figure {
            valid,
            bounds: Range { low: None, high: Some(1.0) },
            repeats: vec![weir_analysis::Repeated::default(); of],
            ..Figure::default()
        };
        assert_eq!(more_repeats(&figure(2, 3)), Some(2));
        assert_eq!(more_repeats(&figure(1, 3)), Some(6));
        assert_eq!(more_repeats(&figure(0, 3)), None);
    }
}
