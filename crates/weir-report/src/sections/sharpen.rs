//! Advice on how to turn bounded values into valid ones.

use weir_analysis::{Figure, HEADLINE_REPEATS, Point, Row, Summary};
use weir_results::{ArrivalModel, Run};

/// The message names at most this many values.
const NAMED: usize = 3;
/// Above this number, more repeats are not advised.
const REPEATS_MAX: usize = 100;

/// Names the headline values that have only bounds, and estimates how many more repeats would make them valid from the
/// share of valid repeats so far. If none was valid, only a quieter host helps.
pub(crate) fn sharpen(run: &Run, summary: &Summary) -> Option<String> {
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
    let what = format!("bounded: {}{others}", names.join(", "));
    Some(match more.filter(|more| *more <= REPEATS_MAX) {
        Some(more) => format!(
            "{what}. For valid values: about {more} more repeats{} (`weir run --resume {} --repeats {}`), or a quieter \
             host",
            took(run, repeats, more),
            run.id,
            repeats + more
        ),
        None => format!("{what}. The host noise was constant: use a quieter host (check with `weir doctor`)"),
    })
}

/// The headline values of a row that have only bounds, with their names.
fn bounded<'a>(point: &Point, row: &'a Row) -> impl Iterator<Item = (String, &'a Figure)> + use<'a> {
    let main = match point.model {
        ArrivalModel::Closed => vec![("throughput", Some(&row.throughput_per_s))],
        ArrivalModel::Open => vec![("p50", row.latency("p50")), ("p99", row.latency("p99"))],
    };
    let place = format!("{} at {}", row.gateway, point.load);
    let values = main.into_iter().chain([("CPU per request", Some(&row.cpu_us_per_request))]);
    let bounded =
        values.filter_map(|(name, figure)| Some((name, figure.filter(|figure| figure.is_bounded())?)));
    bounded.map(move |(name, figure)| (format!("{name} of {place}"), figure))
}

/// The number of repeats until three are valid, from the share that is valid so far; `None` if none is.
fn more_repeats(figure: &Figure) -> Option<usize> {
    let missing = HEADLINE_REPEATS.saturating_sub(figure.valid);
    (figure.valid > 0).then(|| (missing * figure.repeats.len()).div_ceil(figure.valid))
}

/// `, 6 min`: the estimated duration of the additional repeats, from the duration of the run.
fn took(run: &Run, repeats: usize, more: usize) -> String {
    let Some(ended) = run.ended_unix_ms else { return String::new() };
    let seconds =
        ended.saturating_sub(run.started_unix_ms) as f64 / 1e3 / repeats.max(1) as f64 * more as f64;
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
