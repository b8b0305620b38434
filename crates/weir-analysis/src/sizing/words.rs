//! The sentences of a sizing. `assets/sizing.js` of the report must have the same wording.

use super::{SearchedFor, Shown, Span};
use crate::figures::quantity::{counted, range, rate};

pub(super) use crate::figures::latencies::title;
pub(super) use crate::figures::quantity::{percent, time_ns as time};

pub(super) fn missed(name: &str, figure: [f64; 3], limit: f64, format: fn(f64) -> String) -> String {
    format!("{name} is {}, above the limit of {}", with_interval(figure, format), format(limit))
}

pub(super) fn borderline(name: &str, figure: [f64; 3], limit: f64, format: fn(f64) -> String) -> String {
    format!(
        "{name} is {}, borderline: the limit of {} lies within its interval",
        with_interval(figure, format),
        format(limit)
    )
}

pub(super) fn failed(name: &str, why: &str) -> String {
    format!("{name} is not met: {why}")
}

pub(super) fn no_value(name: &str, why: &str) -> String {
    format!("no valid value for {name}: {why}")
}

pub(super) fn at_least(rate_per_s: f64, is_below_unknown: bool) -> String {
    let highest =
        if is_below_unknown { "the highest rate with valid results" } else { "the highest rate measured" };
    format!(
        "objective met at {}, {highest}: an instance may carry more. `weir run capacity` searches for the maximum",
        rate(rate_per_s)
    )
}

pub(super) fn not_known(above_per_s: f64, why: &str) -> String {
    format!("undecided: at {}, {why}", rate(above_per_s))
}

pub(super) fn not_more(above_per_s: f64, why: &str, between: Option<Span>) -> String {
    let measure = between.map_or_else(String::new, |between| {
        format!("; measure at about {} to narrow the gap", rate(between.value))
    });
    format!("next rate not used: at {}, {why}{measure}", rate(above_per_s))
}

pub(super) fn not_more_yet(above_per_s: f64, why: &str) -> String {
    format!("{}; more repeats narrow the interval", not_more(above_per_s, why, None))
}

pub(super) fn extrapolated(measured_per_s: f64, share: f64, share_max: f64, rate_per_s: f64) -> String {
    format!(
        "extrapolated from {}, which used {} of the CPU limit. This assumes the same CPU time per request at \
        {}, and nothing shows that the objective is met there. Measure at {} to check",
        rate(measured_per_s),
        percent(share),
        percent(share_max),
        rate(rate_per_s)
    )
}

pub(super) fn not_extrapolated(rate_per_s: f64) -> String {
    format!("not extrapolated: it is not certain that the objective is met at {}", rate(rate_per_s))
}

pub(super) fn below_one(target_per_s: f64, rate_per_s: f64) -> String {
    format!("one instance suffices: the target is {} of its rate", percent(target_per_s / rate_per_s))
}

pub(super) fn no_cores() -> &'static str {
    "no cost: the price is per core, and the instance has no CPU limit"
}

pub(super) fn nothing_measured() -> &'static str {
    "the run has no open load at a constant rate"
}

pub(super) fn measure_something() -> &'static str {
    "add open loads at several rates, like `steady: { model: open, rate: 2500/s }`; a closed load has no \
    fixed rate"
}

pub(super) fn searched(searched: &SearchedFor) -> String {
    let SearchedFor { words, searches, trials, .. } = searched;
    let (trials, searches) = (counted(*trials, "trial"), counted(*searches as u64, "search"));
    format!("from a search for {words}: {trials} in {searches}")
}

pub(super) fn searched_for_more(kept: &str) -> String {
    format!("an instance may carry more: the search had a stricter objective, {kept}")
}

pub(super) fn searched_without_cpu() -> &'static str {
    "the run has only a capacity search, which does not measure CPU"
}

pub(super) fn measure_cpu() -> &'static str {
    "remove --max-cpu, or add open loads at several rates"
}

pub(super) fn searched_for_less(kept: &str) -> String {
    format!("the run has only a search for another objective, {kept}")
}

pub(super) fn search_for_this() -> &'static str {
    "use the objective of the search, run a search for this objective, or add open loads at several rates"
}

pub(super) fn found_nothing(searched: &SearchedFor) -> String {
    let why = match &searched.per_s {
        Shown::Failed { why } | Shown::Invalid { why } => why.as_str(),
        Shown::Interval { .. } => "",
    };
    format!("the search for {} has no valid result: {why}", searched.words)
}

pub(super) fn at_the_least(rate_per_s: f64, why: &str) -> String {
    format!("at {}, the lowest measured rate, {why}", rate(rate_per_s))
}

pub(super) fn measure_lower(rate_per_s: f64) -> String {
    format!("measure lower rates, for example {}", rate(rate_per_s))
}

pub(super) fn measure_at_share(least_per_s: f64, at_share: Option<Span>) -> String {
    let rate_per_s = at_share.map_or(least_per_s / 2.0, |at| at.low);
    format!(
        "measure lower rates, for example {}, or extrapolate by CPU time per request (--extrapolate)",
        rate(rate_per_s)
    )
}

pub(super) fn measure_more(rate_per_s: f64) -> String {
    format!(
        "add repeats to narrow the interval (`weir run --resume RUN --repeats N`), or measure below {}",
        rate(rate_per_s)
    )
}

pub(super) fn measure_again() -> &'static str {
    "measure again; `weir report RUN` shows why the value is invalid"
}

/// Formats a mean with its interval: `31.0 ms [30.1 .. 32.0]`.
fn with_interval([mean, low, high]: [f64; 3], format: fn(f64) -> String) -> String {
    let mean = format(mean);
    format!("{mean} [{}]", range(&mean, &format(low), &format(high)))
}
