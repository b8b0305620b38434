//! The rig's bias: the difference between the two direct cells of a block. It limits what a report may claim about
//! gateways.

use serde::Serialize;

use crate::figures::figure::Figure;
use crate::figures::quantity::time_ns;
use crate::points::conclusions::{join, with_interval};
use crate::points::{Point, Row};

use super::place;

/// Quantiles for which sentences state the added latency.
const CLAIMED: [&str; 2] = ["p50", "p99"];

/// Maximum number of intervals of the rig's bias that a sentence lists; tables list all of them.
const NAMED_MAX: usize = 4;

/// Difference between the two direct cells of a block, which are identical: the rig's own bias (A/A test).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RigBias {
    /// Difference of latencies in the same repeat, nanoseconds: the second direct cell (the twin) minus the first one
    /// (the direct baseline). One value per quantile, in the order of [`crate::ADDED`].
    pub difference_ns: Vec<(String, Figure)>,
}

/// What a report may claim about a difference of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// The interval excludes zero, and the whole interval exceeds the rig's bias.
    #[serde(rename = "told")]
    Significant,
    /// The interval includes zero.
    HoldsZero,
    /// The interval excludes zero, but overlaps with the rig's bias.
    WithinBias,
    /// No claim is possible: the difference is not a headline, or the rig's bias has no interval.
    Unknown,
}

impl RigBias {
    /// The difference at the quantile with this name.
    pub fn difference(&self, name: &str) -> Option<&Figure> {
        self.difference_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// The size in nanoseconds that a significant difference at the quantile `name` must exceed. It is zero if the
    /// interval of the rig's bias includes zero, otherwise the larger absolute value of the two ends of this interval.
    /// `None` if the bias has no interval.
    pub fn least_ns(&self, name: &str) -> Option<f64> {
        let [low, high] = self.difference(name)?.interval?;
        let holds_zero = low <= 0.0 && high >= 0.0;
        Some(if holds_zero { 0.0 } else { low.abs().max(high.abs()) })
    }

    /// What a report may claim about `difference` at the quantile `name`.
    pub fn claim(&self, name: &str, difference: &Figure) -> Claim {
        claim(difference, self.least_ns(name))
    }
}

/// What a report may claim about `difference`, which must exceed `least_ns` to be significant.
pub(super) fn claim(difference: &Figure, least_ns: Option<f64>) -> Claim {
    let interval = difference.interval.filter(|_| difference.headline);
    let (Some([low, high]), Some(least_ns)) = (interval, least_ns) else { return Claim::Unknown };
    if low > least_ns || high < -least_ns {
        Claim::Significant
    } else if low <= 0.0 && high >= 0.0 {
        Claim::HoldsZero
    } else {
        Claim::WithinBias
    }
}

/// States in one sentence what latency each gateway adds at a load point, judged by its interval and the rig's bias.
/// `None` if no claim is possible.
pub(crate) fn claims(point: &Point, bias: &RigBias) -> Option<String> {
    let said: Vec<String> = point.gateways().filter_map(|row| of_gateway(row, bias)).collect();
    (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
}

/// The claims about one gateway: `weir adds 39.0 µs [36.0 .. 42.0] at p50, no significant latency at p99 (-2.00 µs
/// [-9.00 .. 5.00]; the interval includes zero)`.
fn of_gateway(row: &Row, bias: &RigBias) -> Option<String> {
    let (mut significant, mut others) = (Vec::new(), Vec::new());
    for name in CLAIMED {
        let figure = row.added_latency(name)?;
        let interval = with_interval(figure, time_ns);
        match bias.claim(name, figure) {
            Claim::Significant => significant.push(format!("{interval} at {name}")),
            Claim::HoldsZero => {
                others.push(format!(
                    "no significant latency at {name} ({interval}; the interval includes zero)"
                ));
            }
            Claim::WithinBias => {
                others.push(format!("no significant latency at {name} ({interval}; within the rig's bias)"));
            }
            Claim::Unknown => {}
        }
    }
    let significant = (!significant.is_empty()).then(|| join(&significant));
    let words: Vec<String> = significant.into_iter().chain(others).collect();
    (!words.is_empty()).then(|| format!("{} adds {}", row.gateway, words.join(", ")))
}

/// States the rig's bias at all load points in one sentence.
pub(super) fn conclude(points: &[Point]) -> Option<String> {
    let (mut intervals, mut apart) = (0, Vec::new());
    for point in points {
        for (name, figure) in point.bias.iter().flat_map(|bias| &bias.difference_ns) {
            let Some([low, high]) = figure.interval else { continue };
            intervals += 1;
            if low > 0.0 || high < 0.0 {
                let name = if name == "p999" { "p99.9" } else { name };
                apart.push(format!("{}, {name}: {}", place(point), with_interval(figure, time_ns)));
            }
        }
    }
    match (intervals, apart.len()) {
        (0, _) => Some(
            "The rig's bias is unknown: the two direct cells have too few valid repeats, so weir reports no \
            difference as significant."
                .into(),
        ),
        (_, 0) => Some(format!(
            "The rig shows no bias. weir compared the two direct cells of each repeat: all {intervals} intervals of \
            their difference include zero."
        )),
        // By chance, one 95 % interval in twenty excludes zero.
        (_, found) => {
            let more = found.saturating_sub(NAMED_MAX);
            apart.truncate(NAMED_MAX);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Some(format!(
                "The rig is biased. weir compared the two direct cells of each repeat: {found} of {intervals} \
                intervals of their difference exclude zero, and chance explains about one in twenty. At these load \
                points, smaller differences between gateways and direct are not significant: {}{more}.",
                apart.join("; ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(interval: Option<[f64; 2]>) -> Figure {
        let mean = interval.map(|[low, high]| (low + high) / 2.0);
        Figure { mean, interval, valid: 3, headline: true, ..Figure::default() }
    }

    fn bias(interval: Option<[f64; 2]>) -> RigBias {
        RigBias { difference_ns: vec![("p50".into(), difference(interval))] }
    }

    #[test]
    fn nothing_within_the_rigs_bias_is_claimed() {
        let check = |of_rig: Option<[f64; 2]>, of_gateway: Option<[f64; 2]>, expected: Claim| {
            let found = bias(of_rig).claim("p50", &difference(of_gateway));
            assert_eq!(found, expected, "{of_rig:?} {of_gateway:?}");
        };
        let holds_zero = Some([-900.0, 400.0]);
        check(holds_zero, Some([1.0, 2.0]), Claim::Significant);
        check(holds_zero, Some([-1.0, 2.0]), Claim::HoldsZero);
        check(holds_zero, Some([-3.0, -1.0]), Claim::Significant);
        let excludes_zero = Some([-4_000.0, -1_000.0]);
        check(excludes_zero, Some([4_001.0, 9_000.0]), Claim::Significant);
        check(excludes_zero, Some([3_999.0, 9_000.0]), Claim::WithinBias);
        check(excludes_zero, Some([-9_000.0, -4_001.0]), Claim::Significant);
        check(excludes_zero, Some([-9_000.0, 9_000.0]), Claim::HoldsZero);
        check(None, Some([1.0, 2.0]), Claim::Unknown);
        check(holds_zero, None, Claim::Unknown);
        assert_eq!(bias(excludes_zero).least_ns("p50"), Some(4_000.0));
        assert_eq!(bias(holds_zero).least_ns("p50"), Some(0.0));
        assert_eq!(bias(holds_zero).least_ns("p99"), None);
    }

    #[test]
    fn a_value_without_headline_allows_no_claim() {
        let short = Figure { headline: false, ..difference(Some([1.0, 2.0])) };
        assert_eq!(bias(Some([-1.0, 1.0])).claim("p50", &short), Claim::Unknown);
    }
}
