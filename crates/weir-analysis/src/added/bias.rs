//! How far two direct cells of a block are apart, and what may be claimed beside that.

use serde::Serialize;

use crate::figures::figure::Figure;
use crate::figures::quantity::time_ns;
use crate::points::conclusions::{join, with_interval};
use crate::points::{Point, Row};

use super::place;

/// Quantiles that sentences name.
const CLAIMED: [&str; 2] = ["p50", "p99"];

/// Intervals of the rig's that a sentence names; the tables have all.
const NAMED_MAX: usize = 4;

/// What two direct cells of a block are apart by: the rig's own doing (A/A).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RigBias {
    /// Latency of the twin minus that of the direct baseline in the same repeat, nanoseconds, by quantile in the order
    /// of [`crate::ADDED`].
    pub difference_ns: Vec<(String, Figure)>,
}

/// What a difference of latencies allows to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// It is there: its whole interval lies beyond zero and beyond the rig's bias.
    Told,
    /// Its interval holds zero.
    HoldsZero,
    /// Its interval excludes zero, and reaches into what the rig itself makes of nothing.
    WithinBias,
    /// Too few repeats count, of it or of the twin.
    Unknown,
}

impl RigBias {
    /// The difference at the quantile of that name.
    pub fn difference(&self, name: &str) -> Option<&Figure> {
        self.difference_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// The size that a difference must exceed, nanoseconds: zero where the twin's interval holds zero, else its end
    /// that is farther from zero. `None` where there is no interval of valid repeats.
    pub fn least_ns(&self, name: &str) -> Option<f64> {
        let [low, high] = self.difference(name)?.interval?;
        let holds_zero = low <= 0.0 && high >= 0.0;
        Some(if holds_zero { 0.0 } else { low.abs().max(high.abs()) })
    }

    /// What `difference`, of the quantile of that name, allows to say.
    pub fn claim(&self, name: &str, difference: &Figure) -> Claim {
        claim(difference, self.least_ns(name))
    }
}

/// What `difference` allows to say where only what is larger than `least_ns` may be claimed.
pub(super) fn claim(difference: &Figure, least_ns: Option<f64>) -> Claim {
    let interval = difference.interval.filter(|_| difference.headline);
    let (Some([low, high]), Some(least_ns)) = (interval, least_ns) else { return Claim::Unknown };
    if low > least_ns || high < -least_ns {
        Claim::Told
    } else if low <= 0.0 && high >= 0.0 {
        Claim::HoldsZero
    } else {
        Claim::WithinBias
    }
}

/// What each gateway adds at a load point, as far as its intervals and the rig's bias allow.
pub(crate) fn claims(point: &Point, bias: &RigBias) -> Option<String> {
    let said: Vec<String> = point.gateways().filter_map(|row| of_gateway(row, bias)).collect();
    (!said.is_empty()).then(|| format!("{}.", said.join("; ")))
}

/// `weir adds 39.0 µs [36.0 .. 42.0] at p50; at p99 nothing that is told apart from zero (-2.00 µs [-9.00 .. 5.00])`.
fn of_gateway(row: &Row, bias: &RigBias) -> Option<String> {
    let (mut told, mut untold) = (Vec::new(), Vec::new());
    for name in CLAIMED {
        let figure = row.added_latency(name)?;
        let interval = with_interval(figure, time_ns);
        match bias.claim(name, figure) {
            Claim::Told => told.push(format!("{interval} at {name}")),
            Claim::HoldsZero => {
                untold.push(format!("at {name} nothing distinguishable from zero ({interval})"));
            }
            Claim::WithinBias => {
                untold.push(format!("at {name} nothing distinguishable from the rig's bias ({interval})"));
            }
            Claim::Unknown => {}
        }
    }
    let words: Vec<String> = (!told.is_empty()).then(|| join(&told)).into_iter().chain(untold).collect();
    (!words.is_empty()).then(|| format!("{} adds {}", row.gateway, words.join(", ")))
}

/// What the rig makes of nothing, over all load points.
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
            "The rig's bias is unknown: the direct cells have too few valid repeats, so no difference is \
            significant."
                .into(),
        ),
        (_, 0) => Some(format!(
            "The two direct cells of a block do not differ: all {intervals} of their intervals include zero."
        )),
        // Intervals of 95 % leave zero out once in twenty by chance.
        (_, found) => {
            let more = found.saturating_sub(NAMED_MAX);
            apart.truncate(NAMED_MAX);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Some(format!(
                "The rig's bias: {found} of {intervals} intervals between the two direct cells of a block \
                exclude zero (by chance about one in twenty does). Smaller differences are not significant \
                there: {}{more}.",
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
        check(holds_zero, Some([1.0, 2.0]), Claim::Told);
        check(holds_zero, Some([-1.0, 2.0]), Claim::HoldsZero);
        check(holds_zero, Some([-3.0, -1.0]), Claim::Told);
        let excludes_zero = Some([-4_000.0, -1_000.0]);
        check(excludes_zero, Some([4_001.0, 9_000.0]), Claim::Told);
        check(excludes_zero, Some([3_999.0, 9_000.0]), Claim::WithinBias);
        check(excludes_zero, Some([-9_000.0, -4_001.0]), Claim::Told);
        check(excludes_zero, Some([-9_000.0, 9_000.0]), Claim::HoldsZero);
        check(None, Some([1.0, 2.0]), Claim::Unknown);
        check(holds_zero, None, Claim::Unknown);
        assert_eq!(bias(excludes_zero).least_ns("p50"), Some(4_000.0));
        assert_eq!(bias(holds_zero).least_ns("p50"), Some(0.0));
        assert_eq!(bias(holds_zero).least_ns("p99"), None);
    }

    #[test]
    fn a_figure_that_is_no_headline_is_no_claim() {
        let short = Figure { headline: false, ..difference(Some([1.0, 2.0])) };
        assert_eq!(bias(Some([-1.0, 1.0])).claim("p50", &short), Claim::Unknown);
    }
}
