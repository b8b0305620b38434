//! Computes how far a reason may have changed each value (`docs/method.md#reasons`).
//!
//! Throughput, CPU time and memory change by a factor. Quantiles change because a share `s` of the requests was
//! affected; it is unknown which ones. The quantile `q` without the effect lies between two measured quantiles:
//!
//! - if requests were delayed: `q * (1 - s)` and `q`
//! - if requests were replaced, for example by errors: `q - s` and `q + s`
//!
//! Source: partial identification under contaminated and corrupted sampling, Horowitz and Manski, *Econometrica* 63,
//! 1995.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use weir_results::{Bounds, LoadRecord, LoadResult, Reason, Thresholds, Usage, quantile_ns};

use crate::figures::latencies::{LATENCIES, latency_ns, quantile};
use crate::verdicts::reasons::value;

/// The upper bound of a quantile may exceed the next higher quantile by at most this factor. The lower bound may be
/// below the next lower quantile by at most this factor. Bounds beyond that are meaningless, and are dropped.
const NEIGHBOUR_FACTOR: f64 = 10.0;

/// Lower and upper bound of the value that would be measured without the effect of a reason, each divided by the
/// measured value. `None` if a bound is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Factors {
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

impl Factors {
    /// The reason does not affect the value.
    pub(crate) const EXACT: Self = Self { low: Some(1.0), high: Some(1.0) };
    /// Without the effect, the value would be at least the measured one.
    pub(crate) const AT_LEAST: Self = Self { low: Some(1.0), high: None };
    /// Without the effect, the value would be at most the measured one.
    pub(crate) const AT_MOST: Self = Self { low: None, high: Some(1.0) };
    /// The value may have changed by any factor.
    pub(crate) const UNKNOWN: Self = Self { low: None, high: None };

    /// The value may have changed by the share `margin` in either direction; by any factor if `margin` is at least 1.
    pub(crate) fn within(margin: f64) -> Self {
        if margin < 1.0 { Self { low: Some(1.0 - margin), high: Some(1.0 + margin) } } else { Self::UNKNOWN }
    }

    /// Combines two effects on the same value.
    pub(crate) fn and(self, other: Self) -> Self {
        let product = |one: Option<f64>, other: Option<f64>| Some(one? * other?);
        Self { low: product(self.low, other.low), high: product(self.high, other.high) }
    }

    /// Returns the factors for a value that is inversely proportional to the value of `self`. Example: at its CPU
    /// quota, the throughput of a gateway is the quota divided by the CPU time per request.
    pub(crate) fn inverse(self) -> Self {
        Self { low: self.high.map(f64::recip), high: self.low.map(f64::recip) }
    }
}

/// How a reason may have changed latencies. Most fields are shares of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranks {
    /// Share of requests that were delayed. It is unknown which ones.
    pub(crate) delayed: f64,
    /// Share of requests that would perhaps be faster without the effect, not including `delayed`; `None` if unknown.
    pub(crate) below: Option<f64>,
    /// Share of requests that would perhaps be slower without the effect; `None` if unknown.
    pub(crate) above: Option<f64>,
    /// Without the effect, a latency could exceed the measured one by up to this share. This only widens bounds; it
    /// makes no value invalid.
    pub(crate) slower: f64,
    /// Without the effect, every latency could be lower by up to this share. Like `slower`, this only widens bounds.
    pub(crate) faster: f64,
}

impl Ranks {
    pub(crate) const EXACT: Self =
        Self { delayed: 0.0, below: Some(0.0), above: Some(0.0), slower: 0.0, faster: 0.0 };
    pub(crate) const AT_LEAST: Self = Self { above: None, ..Self::EXACT };
    pub(crate) const AT_MOST: Self = Self { below: None, ..Self::EXACT };
    pub(crate) const UNKNOWN: Self = Self { below: None, above: None, ..Self::EXACT };

    /// Ranks for a reason that delayed the share `delayed` of the requests. If `delayed` is at least 1, latencies are
    /// only upper bounds.
    pub(crate) fn delayed(delayed: f64) -> Self {
        if delayed < 1.0 { Self { delayed, ..Self::EXACT } } else { Self::AT_MOST }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        let delayed = 1.0 - (1.0 - self.delayed) * (1.0 - other.delayed);
        Self {
            delayed,
            below: sum(self.below, other.below),
            above: sum(self.above, other.above),
            slower: self.slower + other.slower,
            faster: self.faster + other.faster,
        }
    }
}

/// How far a reason may have changed the values of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effect {
    pub(crate) throughput: Factors,
    pub(crate) latency: Ranks,
    /// CPU time per request.
    pub(crate) cpu: Factors,
    /// Cores used, and their share of the limit.
    pub(crate) cores: Factors,
    pub(crate) memory: Factors,
    /// Whether the tolerance applies. If so, a value stays valid if the reason changed it by no more than the
    /// tolerance.
    pub(crate) is_tolerable: bool,
}

impl Effect {
    /// Another part of the rig limited the throughput, so the gateway's own maximum is higher.
    pub(crate) const LIMITED_BY_RIG: Self = Self {
        throughput: Factors::AT_LEAST,
        latency: Ranks::AT_MOST,
        cores: Factors::AT_LEAST,
        memory: Factors::AT_LEAST,
        ..Self::UNKNOWN
    };

    /// The reason may have changed every value by any amount.
    pub(crate) const UNKNOWN: Self = Self {
        throughput: Factors::UNKNOWN,
        latency: Ranks::UNKNOWN,
        cpu: Factors::UNKNOWN,
        cores: Factors::UNKNOWN,
        memory: Factors::UNKNOWN,
        is_tolerable: false,
    };
    /// The reason affects no value.
    pub(crate) const NONE: Self = Self {
        throughput: Factors::EXACT,
        latency: Ranks::EXACT,
        cpu: Factors::EXACT,
        cores: Factors::EXACT,
        memory: Factors::EXACT,
        is_tolerable: true,
    };

    fn factors(&self, value: Value) -> Factors {
        match value {
            Value::Throughput => self.throughput,
            Value::Cpu => self.cpu,
            Value::Cores => self.cores,
            Value::Memory => self.memory,
        }
    }
}

/// A value that interference can multiply by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Throughput,
    Cpu,
    Cores,
    Memory,
}

impl Value {
    pub(crate) const ALL: [Self; 4] = [Self::Throughput, Self::Cpu, Self::Cores, Self::Memory];

    /// The key of this value in `Judgement::bounds`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Throughput => value::THROUGHPUT,
            Self::Cpu => value::CPU,
            Self::Cores => value::CORES,
            Self::Memory => value::MEMORY,
        }
    }
}

/// Everything needed to compute bounds for the values of a load.
pub(crate) struct Affected<'a> {
    pub(crate) record: &'a LoadRecord,
    /// Resource use of the gateway's data plane; `None` in direct cells.
    pub(crate) data: Option<&'a Usage>,
    pub(crate) thresholds: &'a Thresholds,
    /// The reasons of the load, each with its effect.
    pub(crate) effects: &'a [(Reason, Effect)],
}

impl Affected<'_> {
    /// Computes bounds for each value that a reason affects.
    pub(crate) fn bounds(&self) -> BTreeMap<String, Bounds> {
        let factors = Value::ALL.into_iter().filter_map(|value| Some((value.name(), self.factors(value)?)));
        let latency = self.record.latency.decode().unwrap_or_else(|_| weir_results::new_histogram());
        let latencies = LATENCIES.iter().filter_map(|name| Some((*name, self.latency(name, &latency)?)));
        factors.chain(latencies).map(|(name, bounds)| (name.to_owned(), bounds)).collect()
    }

    fn factors(&self, value: Value) -> Option<Bounds> {
        let (reasons, is_tolerable) = self.reasons(|effect| effect.factors(value) != Factors::EXACT);
        let all = self.effects.iter().map(|(_, effect)| effect.factors(value));
        let Factors { low, high } = all.fold(Factors::EXACT, Factors::and);
        let measured = self.measured(value);
        let tolerance = match value {
            // In a closed loop, the cores used are proportional to the throughput.
            Value::Throughput | Value::Cores => self.thresholds.throughput_tolerance,
            Value::Cpu => self.thresholds.cpu_tolerance,
            Value::Memory => 0.0,
        };
        let factors = Bounds { low, high, reasons, is_valid: false };
        let is_valid = is_tolerable && is_within(&factors, 1.0, tolerance);
        let scaled = |factor: Option<f64>| Some(factor? * measured?);
        let Bounds { reasons, .. } = factors;
        (!reasons.is_empty()).then(|| Bounds { low: scaled(low), high: scaled(high), reasons, is_valid })
    }

    fn measured(&self, value: Value) -> Option<f64> {
        match value {
            Value::Throughput => Some(self.record.result.rate_per_s),
            Value::Cpu => cpu_us_per_request(self.data?, &self.record.result),
            Value::Cores => Some(self.data?.cpu_cores),
            Value::Memory => Some(self.data?.memory_bytes_peak? as f64),
        }
    }

    fn latency(&self, name: &str, latency: &Histogram<u64>) -> Option<Bounds> {
        let (reasons, is_tolerable) = self.reasons(|effect| effect.latency != Ranks::EXACT);
        if reasons.is_empty() {
            return None;
        }
        let shifts = self.effects.iter().map(|(_, effect)| effect.latency).fold(Ranks::EXACT, Ranks::and);
        let times = &self.record.result.latency_ns;
        let measured = latency_ns(times, name);
        let unanswered = self.record.result.requests.unanswered();
        let distribution = Distribution { latency, unanswered };
        let Ranks { delayed, below, above, slower, faster } = shifts;
        let low = match below {
            Some(0.0) if delayed == 0.0 => measured,
            Some(below) => distribution.moved(name, delayed, -below),
            None => None,
        };
        let high = match above {
            Some(0.0) => measured,
            Some(above) => distribution.moved(name, 0.0, above),
            None => None,
        };
        let mut bounds = Bounds { low, high, reasons, is_valid: false };
        self.drop_empty_sides(name, &mut bounds);
        let tolerance = match quantile(name) {
            Some(quantile) if quantile > 0.5 => self.thresholds.tail_tolerance,
            Some(_) | None => self.thresholds.median_tolerance,
        };
        bounds.is_valid = measured.is_some_and(|value| is_tolerable && is_within(&bounds, value, tolerance));
        bounds.low = bounds.low.map(|low| low * (1.0 - faster).max(0.0));
        bounds.high = bounds.high.map(|high| high * (1.0 + slower));
        Some(bounds)
    }

    /// Drops the upper bound if it is far above the next higher quantile, and the lower bound if it is far below the
    /// next lower quantile ([`NEIGHBOUR_FACTOR`]).
    fn drop_empty_sides(&self, name: &str, bounds: &mut Bounds) {
        let quantiles = self.record.result.latency_ns.quantiles();
        let Some(place) = quantiles.iter().position(|(known, ..)| *known == name) else { return };
        let neighbour = |place: Option<usize>| Some(quantiles.get(place?)?.2? as f64);
        if let Some(next) = neighbour(Some(place + 1)) {
            bounds.high = bounds.high.filter(|high| *high <= next * NEIGHBOUR_FACTOR);
        }
        if let Some(next) = neighbour(place.checked_sub(1)) {
            bounds.low = bounds.low.filter(|low| *low >= next / NEIGHBOUR_FACTOR);
        }
    }

    /// Returns the reasons whose effect matches `affects`, and whether the tolerance applies to all matching effects.
    fn reasons(&self, affects: impl Fn(&Effect) -> bool) -> (Vec<Reason>, bool) {
        let affecting = || self.effects.iter().filter(|(_, effect)| affects(effect));
        (affecting().map(|(reason, _)| *reason).collect(), affecting().all(|(_, effect)| effect.is_tolerable))
    }
}

/// CPU time per completed request, microseconds; `None` if no request completed.
pub fn cpu_us_per_request(data: &Usage, result: &LoadResult) -> Option<f64> {
    let completed = result.requests.completed;
    (completed > 0).then(|| data.cpu_s.total() * 1e6 / completed as f64)
}

/// Whether both bounds are known and differ from `value` by at most the share `tolerance`.
fn is_within(bounds: &Bounds, value: f64, tolerance: f64) -> bool {
    let (Some(low), Some(high)) = (bounds.low, bounds.high) else { return false };
    low >= value * (1.0 - tolerance) && high <= value * (1.0 + tolerance)
}

/// The latencies of a load, and the number of its unanswered requests, which rank as the slowest.
struct Distribution<'a> {
    latency: &'a Histogram<u64>,
    unanswered: u64,
}

impl Distribution<'_> {
    /// Recomputes the latency `name`: leaves out the slowest share `delayed` of the requests, and shifts the rank of
    /// the quantile by `shift`, a share of the requests. `None` if no measured latency has the new rank.
    fn moved(&self, name: &str, delayed: f64, shift: f64) -> Option<f64> {
        match quantile(name) {
            Some(quantile) => {
                let moved = quantile * (1.0 - delayed) + shift;
                let is_measured = (0.0..=1.0).contains(&moved) && !self.latency.is_empty();
                is_measured
                    .then(|| quantile_ns(self.latency, self.unanswered, moved))
                    .flatten()
                    .map(|ns| ns as f64)
            }
            None => self.trimmed_mean(if shift > 0.0 { shift } else { shift - delayed }),
        }
    }

    /// Trimmed mean of the latencies. A positive `shift` is the share of requests to leave out at the fast end. A
    /// negative `shift` leaves out the share `-shift` at the slow end. `None` if the remaining latencies are not all
    /// known.
    fn trimmed_mean(&self, shift: f64) -> Option<f64> {
        let total = self.latency.len() as f64;
        let kept = total * (1.0 - shift.abs());
        if kept < 1.0 || (shift > 0.0 && self.unanswered > 0) {
            return None;
        }
        let mut skipped = if shift > 0.0 { total - kept } else { 0.0 };
        let (mut left, mut sum) = (kept, 0.0);
        for step in self.latency.iter_recorded() {
            let count = step.count_since_last_iteration() as f64;
            let passed = count.min(skipped);
            skipped -= passed;
            let taken = (count - passed).min(left);
            sum += taken * step.value_iterated_to() as f64;
            left -= taken;
        }
        Some(sum / kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thousand() -> Histogram<u64> {
        let mut latency = weir_results::new_histogram();
        (1..=1_000_u64).for_each(|place| latency.record(place * 1_000).expect("within the bounds"));
        latency
    }

    #[track_caller]
    fn near(value: Option<f64>, expected: f64) {
        assert!(
            value.is_some_and(|value| (value / expected - 1.0).abs() < 0.002),
            "{value:?}, not {expected}"
        );
    }

    #[test]
    fn a_quantile_moves_by_the_share_of_delayed_requests() {
        let latency = thousand();
        let of = |unanswered| Distribution { latency: &latency, unanswered };
        near(of(0).moved("p99", 0.0, -0.1), 890_000.0);
        near(of(0).moved("p99", 0.1, 0.0), 891_000.0);
        near(of(0).moved("p50", 0.1, -0.1), 350_000.0);
        near(of(0).moved("p50", 0.0, 0.2), 700_000.0);
        near(of(0).moved("p50", 0.0, -0.4), 100_000.0);
        near(of(0).moved("max", 0.5, 0.0), 500_000.0);
        assert_eq!(of(0).moved("p50", 0.0, -0.51), None, "the shifted quantile is below 0");
        assert_eq!(of(0).moved("p99", 0.0, 0.02), None);
        assert_eq!(of(1_000).moved("p50", 0.0, 0.01), None, "among the unanswered");
    }

    #[test]
    fn the_mean_loses_its_slowest_or_fastest_requests() {
        let latency = thousand();
        let of = |unanswered| Distribution { latency: &latency, unanswered };
        near(of(0).moved("mean", 0.1, 0.0), 450_500.0);
        near(of(0).moved("mean", 0.0, 0.1), 550_500.0);
        assert_eq!(of(1).moved("mean", 0.0, 0.1), None);
        assert_eq!(of(0).moved("mean", 0.0, -1.0), None);
    }

    #[test]
    fn factors_multiply_and_an_unknown_side_stays_unknown() {
        let both = Factors::within(0.5).and(Factors::AT_LEAST);
        assert_eq!(both, Factors { low: Some(0.5), high: None });
        assert_eq!(Factors { low: Some(0.5), high: None }.inverse(), Factors { low: None, high: Some(2.0) });
        assert_eq!(Factors::AT_MOST.and(Factors::AT_LEAST), Factors::UNKNOWN);
        assert_eq!(Factors::within(1.0), Factors::UNKNOWN);
    }
}
