//! Computes instances and cost from the load points of an instance type.

use super::extrapolation::extrapolated;
use super::instance_type::{InstanceType, RatePoint, Shown};
use super::standing::{Check, Standing, cpu, objective, worse};
use super::{
    Basis, Bound, Cost, Count, Demand, HOURS_PER_MONTH, Later, MONTHS_AHEAD, Outcome, Price, PriceOf,
    Refused, RefusedFor, Sized, Span, searched, words,
};

/// Tolerance for floating-point division: 10,000 / 2,500 must not be rounded up to five instances.
const ROUNDING: f64 = 1e-12;

/// The load points of a type, checked against the demand.
pub(super) struct Judged<'a> {
    pub(super) points: &'a [RatePoint],
    /// Two checks for each point: first its values against the bounds, then its CPU share against the maximum.
    pub(super) checks: Vec<(Check, Check)>,
    /// Index of the highest rate that meets both checks. If a rate misses a check, it and all higher rates are ignored.
    pub(super) best: Option<usize>,
}

/// The rate that one instance carries; the number of instances is computed from it.
pub(super) struct PerInstance {
    pub(super) rate_per_s: Span,
    pub(super) basis: Basis,
    pub(super) cpu_share: Option<f64>,
    pub(super) notes: Vec<String>,
}

/// Sizes an instance type.
pub(super) fn answer(of: &InstanceType, bounds: &[Bound], demand: &Demand) -> Outcome {
    let judged = judge(&of.points, bounds, demand.cpu_share_max);
    let found = match searched::exactly(of, bounds, demand) {
        Some(found) => Ok(found),
        None => per_instance(&judged, demand).or_else(|why| {
            let known = searched::at_least(of, bounds, demand);
            known.ok_or_else(|| searched::refused(of, bounds, demand, why))
        }),
    };
    match found {
        Ok(found) => Outcome::Sized(Box::new(count(of, found, demand))),
        Err(refused) => Outcome::Refused(refused),
    }
}

fn judge<'a>(points: &'a [RatePoint], bounds: &[Bound], share_max: Option<f64>) -> Judged<'a> {
    let checks: Vec<(Check, Check)> =
        points.iter().map(|point| (objective(point, bounds), cpu(point, share_max))).collect();
    let worst = |(kept, used): &(Check, Check)| kept.standing.max(used.standing);
    // If a rate misses a bound, a higher rate meets this bound only by chance.
    let below = checks.iter().take_while(|both| worst(both) != Standing::Missed).count();
    let best = checks[..below].iter().rposition(|both| worst(both) == Standing::Met);
    Judged { points, checks, best }
}

/// Determines the rate per instance from load points. Extrapolates it if `demand` has a maximum CPU share and allows
/// extrapolation. Otherwise returns a measured rate.
fn per_instance(judged: &Judged<'_>, demand: &Demand) -> Result<PerInstance, Refused> {
    let measured = measured(judged, demand);
    match demand.cpu_share_max.filter(|_| demand.extrapolate) {
        Some(share_max) => extrapolated(judged, share_max, measured),
        None => measured,
    }
}

/// The highest measured rate that meets the demand.
fn measured(judged: &Judged<'_>, demand: &Demand) -> Result<PerInstance, Refused> {
    let Some(best) = judged.best else { return Err(refused(judged, demand)) };
    let point = &judged.points[best];
    let Shown::Interval { mean, low, high } = point.carried_per_s else {
        return Err(refused(judged, demand));
    };
    // Higher rates whose check is unknown do not change the result; notes report them.
    let (unknown, known) = above(judged, best);
    let mut notes: Vec<String> = unknown.map(|(at, check)| words::not_known(at, &check.words)).collect();
    let basis = match known {
        None => Basis::AtLeast,
        Some(_) => Basis::Measured,
    };
    notes.push(match known {
        None => words::at_least(point.asked_per_s, !notes.is_empty()),
        Some((place, check)) => {
            let (kept, used) = &judged.checks[place];
            let between = demand.cpu_share_max.filter(|_| kept.standing == Standing::Met);
            let between = between.and_then(|share_max| at_share(point, share_max));
            let at = judged.points[place].asked_per_s;
            match used.standing {
                Standing::Borderline if kept.standing == Standing::Met => {
                    words::not_more_yet(at, &check.words)
                }
                _ => words::not_more(
                    at,
                    &check.words,
                    between.filter(|of| point.asked_per_s < of.value && of.value < at),
                ),
            }
        }
    });
    let rate_per_s = Span { value: mean, low, high };
    Ok(PerInstance { rate_per_s, basis, cpu_share: share_at(point), notes })
}

/// Finds the first point above `best` whose result is known (not [`Standing::Unknown`]). Returns the points before it,
/// each with its rate and result, then the index and result of the found point. The result of a point is the worse of
/// its two checks: objective and CPU.
fn above<'a>(
    judged: &'a Judged<'_>,
    best: usize,
) -> (impl Iterator<Item = (f64, Check)> + 'a, Option<(usize, Check)>) {
    let worst = |place: usize| worse(judged.checks[place].0.clone(), judged.checks[place].1.clone());
    let is_known = |place: &usize| worst(*place).standing != Standing::Unknown;
    let known = (best + 1..judged.points.len()).find(is_known);
    let unknown = best + 1..known.unwrap_or(judged.points.len());
    let unknown = unknown.map(move |place| (judged.points[place].asked_per_s, worst(place)));
    (unknown, known.map(|place| (place, worst(place))))
}

/// Share of the CPU limit that was used at `point`; `None` without a valid value.
pub(super) fn share_at(point: &RatePoint) -> Option<f64> {
    match point.cpu_share {
        Shown::Interval { mean, .. } => Some(mean),
        Shown::Failed { .. } | Shown::Invalid { .. } => None,
    }
}

/// The rate that uses `share` of the CPU limit, if CPU time per request is the same as at `point`.
pub(super) fn at_share(point: &RatePoint, share: f64) -> Option<Span> {
    match point.whole_limit_per_s {
        Shown::Interval { mean, low, high } => {
            Some(Span { value: mean * share, low: low * share, high: high * share })
        }
        Shown::Failed { .. } | Shown::Invalid { .. } => None,
    }
}

/// Explains why no rate per instance was found, based on the checks of the lowest rate.
fn refused(judged: &Judged<'_>, demand: &Demand) -> Refused {
    let (Some(point), Some((kept, used))) = (judged.points.first(), judged.checks.first()) else {
        return Refused {
            why: RefusedFor::NothingMeasured,
            words: words::nothing_measured().into(),
            remedy: words::measure_something().into(),
        };
    };
    let asked_per_s = point.asked_per_s;
    let check = worse(kept.clone(), used.clone());
    let (why, remedy) = match (check.standing, kept.standing, demand.cpu_share_max) {
        (Standing::Missed, Standing::Missed, _) => {
            (RefusedFor::NeverMet, words::measure_lower(asked_per_s / 2.0))
        }
        (Standing::Missed, _, Some(share_max)) => {
            (RefusedFor::CpuAbove, words::measure_at_share(asked_per_s, at_share(point, share_max)))
        }
        (Standing::Borderline, ..) => (RefusedFor::Borderline, words::measure_more(asked_per_s)),
        _ => (RefusedFor::Unknown, words::measure_again().to_owned()),
    };
    Refused { why, words: words::at_the_least(asked_per_s, &check.words), remedy }
}

fn count(of: &InstanceType, found: PerInstance, demand: &Demand) -> Sized {
    let PerInstance { rate_per_s, basis, cpu_share, mut notes } = found;
    let instances = instances(demand.rate_per_s, rate_per_s, demand.spare);
    if demand.rate_per_s < rate_per_s.value {
        notes.push(words::below_one(demand.rate_per_s, rate_per_s.value));
    }
    let per_hour = demand.price.map(|price| instance_hour(price, of.cores));
    if per_hour == Some(None) {
        notes.push(words::no_cores().into());
    }
    let later = demand.growth_per_year.map(|growth| {
        MONTHS_AHEAD.map(|months| {
            let rate = (1.0 + growth).powi((months / 12) as i32) * demand.rate_per_s;
            Later { months, rate_per_s: rate, instances: self::instances(rate, rate_per_s, demand.spare) }
        })
    });
    Sized {
        rate_per_s,
        basis,
        cpu_share,
        instances,
        later: later.into_iter().flatten().collect(),
        cost: per_hour.flatten().map(|per_hour| cost(instances, per_hour, demand.rate_per_s)),
        notes,
    }
}

/// Number of instances: `ceil(target / rate)`, at least one, plus `spare`. The lowest rate gives the highest number.
fn instances(target_per_s: f64, rate_per_s: Span, spare: u32) -> Count {
    let of = |per_s: f64| {
        let carrying = (target_per_s / per_s * (1.0 - ROUNDING)).ceil().max(1.0);
        carrying as u64 + u64::from(spare)
    };
    Count { value: of(rate_per_s.value), low: of(rate_per_s.high), high: of(rate_per_s.low) }
}

/// Cost of an instance per hour; `None` if the price is per core and the instance has no CPU limit.
fn instance_hour(price: Price, cores: Option<f64>) -> Option<f64> {
    match price.of {
        PriceOf::Instance => Some(price.per_hour),
        PriceOf::Core => cores.map(|cores| price.per_hour * cores),
    }
}

fn cost(instances: Count, per_hour: f64, rate_per_s: f64) -> Cost {
    let month = |count: u64| count as f64 * per_hour * HOURS_PER_MONTH;
    let millions = rate_per_s * 3600.0 * HOURS_PER_MONTH / 1e6;
    let per_month =
        Span { value: month(instances.value), low: month(instances.low), high: month(instances.high) };
    let Span { value, low, high } = per_month;
    let per_million = Span { value: value / millions, low: low / millions, high: high / millions };
    Cost { per_month, per_million }
}
