//! `--until`: adds repeats until the confidence intervals of the main values of every gateway are narrow enough.

use std::collections::BTreeMap;
use std::str::FromStr;

use weir_analysis::{Figure, Point, Row, quantity};
use weir_document::Share;
use weir_results::ArrivalModel;

/// How narrow the intervals must be. For each metric: the maximum distance from the mean to an end of the interval,
/// as a share of the mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Until {
    tolerances: BTreeMap<String, f64>,
}

/// The metrics that have a tolerance by default. Tail latencies have none.
const DEFAULTS: [(&str, f64); 3] = [("cpu", 0.05), ("throughput", 0.10), ("p50", 0.10)];

/// Whether the results so far are precise enough.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Look {
    /// All intervals are narrow enough.
    Reached,
    /// Some values are not precise enough yet. `values` describes each of them in words. `is_hopeless`: all repeats of
    /// these values are invalid or bounded, so more repeats would probably not help.
    Open { values: Vec<String>, is_hopeless: bool },
}

impl FromStr for Until {
    type Err = String;

    /// Parses `default`, or tolerances that replace or extend the defaults: `cpu=3%,p99=25%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut tolerances: BTreeMap<String, f64> =
            DEFAULTS.into_iter().map(|(name, share)| (name.to_owned(), share)).collect();
        for part in text.split(',').filter(|part| *part != "default") {
            let (name, share) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` is not a tolerance; use METRIC=SHARE, for example cpu=3% or p99=25%")
            })?;
            let is_known = ["cpu", "throughput"].contains(&name) || weir_analysis::LATENCIES.contains(&name);
            if !is_known {
                return Err(format!(
                    "unknown metric `{name}`; use throughput, cpu, or a latency such as p50 or p99"
                ));
            }
            let share: Share = share.parse().map_err(|error| format!("{name}: {error}"))?;
            if !(share.0 > 0.0 && share.0.is_finite()) {
                return Err(format!("{name}: use a share above 0, for example 5%"));
            }
            tolerances.insert(name.to_owned(), share.0);
        }
        Ok(Self { tolerances })
    }
}

impl Until {
    /// Checks whether the results so far are precise enough.
    pub(super) fn look(&self, points: &[Point]) -> Look {
        let mut values = Vec::new();
        let mut is_hopeless = true;
        for point in points {
            for row in point.gateways() {
                for (name, figure, tolerance) in self.judged(point.model, row) {
                    let reach = reach(figure);
                    if reach.is_some_and(|reach| reach <= tolerance) && figure.headline {
                        continue;
                    }
                    is_hopeless &= figure.valid == 0;
                    let reach = reach.filter(|_| figure.valid > 1);
                    let reach = reach.map_or("no interval yet".to_owned(), |reach| {
                        format!("±{}", quantity::percent(reach))
                    });
                    let at_most = quantity::percent_short(tolerance);
                    values.push(format!(
                        "{name} of {} at {}: {reach} (allowed: {at_most})",
                        row.gateway, point.load
                    ));
                }
            }
        }
        if values.is_empty() { Look::Reached } else { Look::Open { values, is_hopeless } }
    }

    /// The values of `row` that have a tolerance, as (name, value, tolerance). Leaves out throughput of open loads, and
    /// latency of closed loads.
    fn judged<'a>(
        &'a self,
        model: ArrivalModel,
        row: &'a Row,
    ) -> impl Iterator<Item = (&'a str, &'a Figure, f64)> {
        self.tolerances.iter().filter_map(move |(name, tolerance)| {
            let figure = match (name.as_str(), model) {
                ("cpu", _) => Some(&row.cpu_us_per_request),
                ("throughput", ArrivalModel::Closed) => Some(&row.throughput_per_s),
                ("throughput", ArrivalModel::Open) | (_, ArrivalModel::Closed) => None,
                (latency, ArrivalModel::Open) => row.latency(latency),
            };
            Some((name.as_str(), figure?, *tolerance))
        })
    }
}

/// The distance from the mean to the farther end of the confidence interval, as a share of the mean.
fn reach(figure: &Figure) -> Option<f64> {
    let (mean, [low, high]) = (figure.mean.filter(|mean| *mean > 0.0)?, figure.interval?);
    Some((high - mean).max(mean - low) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_override_single_defaults() {
        let of =
            |text: &str| text.parse::<Until>().map(|until| until.tolerances.into_iter().collect::<Vec<_>>());
        let named =
            |all: &[(&str, f64)]| Ok(all.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect());
        assert_eq!(of("default"), named(&[("cpu", 0.05), ("p50", 0.1), ("throughput", 0.1)]));
        assert_eq!(
            of("cpu=3%,p99=25%"),
            named(&[("cpu", 0.03), ("p50", 0.1), ("p99", 0.25), ("throughput", 0.1)])
        );
        for (text, words) in [
            ("cpu", "METRIC=SHARE"),
            ("rps=5%", "unknown metric `rps`"),
            ("cpu=0%", "above 0"),
            ("cpu=x", "cpu: "),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_value_is_reached_with_three_valid_repeats_within_its_tolerance() {
        let point = |spread: f64, valid: usize| {
            let values = [1.0 - spread, 1.0, 1.0 + spread];
            let figure = Figure { headline: valid == 3, valid, ..Figure::of_valid(values.map(Some)) };
            let row = Row { gateway: "weir".into(), cpu_us_per_request: figure, ..Row::default() };
            Point {
                axes: BTreeMap::new(),
                load: "tail".into(),
                model: ArrivalModel::Open,
                connections: 1,
                rate_per_s: None,
                rows: vec![row],
                bias: None,
                conclusions: Vec::new(),
            }
        };
        let until: Until = "default".parse().unwrap();
        assert_eq!(until.look(&[point(0.001, 3)]), Look::Reached);
        let Look::Open { values, is_hopeless } = until.look(&[point(0.1, 3)]) else {
            panic!("it is not reached")
        };
        assert!(values[0].starts_with("cpu of weir at tail: ±") && !is_hopeless, "{values:?}");
        let Look::Open { is_hopeless, .. } = until.look(&[point(0.1, 0)]) else {
            panic!("it is not reached")
        };
        assert!(is_hopeless);
    }
}
