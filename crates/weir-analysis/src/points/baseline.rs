//! Compares a gateway with the direct baseline of the same repeat (`docs/method.md#direct`).

use serde::Serialize;
use weir_results::Reason;

use crate::figures::figure::{Figure, Repeated, Sample};
use crate::points::measured::{Repeat, Repeats};
use crate::verdicts::reasons::{Metric, value};

/// Quantiles for which the added latency is given.
pub const ADDED: [&str; 5] = ["mean", "p50", "p90", "p99", "p999"];

/// Added latency at a quantile: latency with the gateway minus latency without it in the same repeat, nanoseconds.
///
/// The difference is taken between quantiles. It is not a quantile of the differences of single requests.
pub type Added = Figure;

/// Throughput through the gateway divided by the throughput of the direct baseline, in the same repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioToDirect {
    /// The ratio, at least 0.
    pub ratio: Figure,
    /// Whether the rig limited the direct baseline, so that the true ratio is at most `ratio`.
    pub at_most: bool,
    /// The reasons why the direct baseline was limited.
    #[serde(skip)]
    limited_by: Vec<Reason>,
}

impl RatioToDirect {
    /// Returns `ratio`. If the rig limited the direct baseline, returns an upper bound of the true ratio instead. The
    /// bound includes the sampling error.
    pub fn known(&self) -> Figure {
        if self.at_most { self.ratio.as_upper_bound(&self.limited_by) } else { self.ratio.clone() }
    }
}

/// Added latency by quantile; empty without a direct baseline.
pub(crate) fn added_latency(through: &Repeats<'_>, direct: &Repeats<'_>, open: bool) -> Vec<(String, Added)> {
    let pairs = pairs(through, direct);
    if pairs.is_empty() {
        return Vec::new();
    }
    let added = |name: &&str| {
        let repeated = pairs.iter().map(|(through, direct)| {
            let of = |repeat: &Repeat<'_>| repeat.judged(name, repeat.latency(name));
            let (own, base) = (of(through), of(direct));
            let sample = match (own.sample, base.sample) {
                (Sample::Value(through), Sample::Value(direct)) => Sample::Value(through - direct),
                (Sample::BeyondTimeout, _) => Sample::BeyondTimeout,
                _ => Sample::Missing,
            };
            let mut range = own.known().crossed(base.known(), |own, base| own - base);
            // "At least -5 ms" is not a useful bound of added latency. So a lower bound without an upper bound must be
            // above zero.
            if range.high.is_none() {
                range.low = range.low.filter(|low| *low > 0.0);
            }
            Repeated { sample, range, reasons: distinct([own.reasons, base.reasons].concat()), ..own }
        });
        let figure = Figure::of_difference(repeated.collect()).headline_if(open);
        ((*name).to_owned(), figure)
    };
    ADDED.iter().map(added).collect()
}

/// The ratio of throughputs; `None` without a direct baseline.
///
/// If the rig limited a direct cell, the cell counts as valid here, but the ratio is only an upper bound. Host noise in
/// a direct cell makes the ratio of its repeat invalid.
pub(crate) fn ratio_to_direct(through: &Repeats<'_>, direct: &Repeats<'_>) -> Option<RatioToDirect> {
    let pairs = pairs(through, direct);
    let by_the_rig = |reason: &Reason| matches!(reason, Reason::GeneratorLimited | Reason::UpstreamLimited);
    let repeated: Vec<Repeated> = pairs
        .iter()
        .map(|(through, direct)| {
            let rate = |repeat: &Repeat<'_>| repeat.measurement.record.result.rate_per_s;
            let of = |repeat: &Repeat<'_>| repeat.judged(value::THROUGHPUT, Sample::Value(rate(repeat)));
            let (own, mut base) = (of(through), of(direct));
            base.reasons.retain(|reason| !by_the_rig(reason));
            let ratio = rate(through) / rate(direct);
            let sample = if ratio.is_finite() { Sample::Value(ratio) } else { Sample::Missing };
            let range = own.known().crossed(base.known(), |own, base| own / base);
            Repeated { sample, range, reasons: distinct([own.reasons, base.reasons].concat()), ..own }
        })
        .collect();
    let reasons = pairs.iter().flat_map(|(_, direct)| direct.reasons(Metric::Throughput).to_vec());
    let limited_by = distinct(reasons.filter(by_the_rig).collect());
    let (ratio, at_most) = (Figure::of(repeated).headline_if(true), !limited_by.is_empty());
    (!ratio.repeats.is_empty()).then_some(RatioToDirect { ratio, at_most, limited_by })
}

fn pairs<'a, 'b>(through: &'b Repeats<'a>, direct: &'b Repeats<'a>) -> Vec<(&'b Repeat<'a>, &'b Repeat<'a>)> {
    through.iter().filter_map(|repeat| Some((repeat, direct.repeat(repeat.cell.key.repeat)?))).collect()
}

fn distinct(mut reasons: Vec<Reason>) -> Vec<Reason> {
    reasons.sort();
    reasons.dedup();
    reasons
}
