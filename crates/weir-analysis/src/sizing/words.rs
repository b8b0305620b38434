//! The sentences of a sizing. `assets/sizing.js` of the report says the same, word by word.

use super::{SearchedFor, Shown, Span};
use crate::quantity::{counted, range, rate};

pub(super) use crate::quantity::{percent, time_ns as time};

/// A quantile's name for people: `p999` is p99.9.
pub(super) fn title(name: &str) -> &str {
    match name {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "mean" => "the mean",
        "max" => "the maximum",
        other => other,
    }
}

pub(super) fn missed(name: &str, figure: [f64; 3], limit: f64, format: fn(f64) -> String) -> String {
    format!("{name} is {}, and at most {} is asked", with_interval(figure, format), format(limit))
}

pub(super) fn borderline(name: &str, figure: [f64; 3], limit: f64, format: fn(f64) -> String) -> String {
    format!(
        "{name} is {}, borderline: its interval holds the limit of {}",
        with_interval(figure, format),
        format(limit)
    )
}

pub(super) fn failed(name: &str, why: &str) -> String {
    format!("{name} is not kept: {why}")
}

pub(super) fn void(name: &str, why: &str) -> String {
    format!("{name} does not count: {why}")
}

pub(super) fn at_least(rate_per_s: f64, is_below_unknown: bool) -> String {
    let highest = if is_below_unknown { "the highest rate that counts" } else { "the highest rate measured" };
    format!("kept at {}, {highest}: an instance may carry more", rate(rate_per_s))
}

pub(super) fn not_known(above_per_s: f64, why: &str) -> String {
    format!("not known: at {}, {why}", rate(above_per_s))
}

pub(super) fn not_more(above_per_s: f64, why: &str, between: Option<Span>) -> String {
    let measure = between.map_or_else(String::new, |between| {
        format!("; measure about {} to know what lies between", rate(between.value))
    });
    format!("not more: at {}, {why}{measure}", rate(above_per_s))
}

pub(super) fn not_more_yet(above_per_s: f64, why: &str) -> String {
    format!("{}; more repeats make it narrower", not_more(above_per_s, why, None))
}

pub(super) fn extrapolated(measured_per_s: f64, share: f64, share_max: f64, rate_per_s: f64) -> String {
    format!(
        "extrapolated: {} was measured, at {} of the CPU limit; CPU time per request is taken to stay the same at {}, and \
         whether the objective is kept there is not known; measure {} to know",
        rate(measured_per_s),
        percent(share),
        percent(share_max),
        rate(rate_per_s)
    )
}

pub(super) fn not_extrapolated(rate_per_s: f64) -> String {
    format!("not extrapolated: at {} the objective is not known to be kept", rate(rate_per_s))
}

pub(super) fn below_one(target_per_s: f64, rate_per_s: f64) -> String {
    format!("the target is below what one instance carries: {} of it", percent(target_per_s / rate_per_s))
}

pub(super) fn no_cores() -> &'static str {
    "no cost: the price is for a core, and there is no CPU limit"
}

pub(super) fn nothing_measured() -> &'static str {
    "no open load at a steady rate was measured"
}

pub(super) fn measure_something() -> &'static str {
    "add open loads at several rates, like `steady: { model: open, rate: 2500/s }`: a closed load has no rate of its own"
}

pub(super) fn searched(searched: &SearchedFor) -> String {
    let SearchedFor { words, searches, trials, .. } = searched;
    let (trials, searches) = (counted(*trials, "trial"), counted(*searches as u64, "search"));
    format!("searched for: {words}, in {trials} of {searches}")
}

pub(super) fn searched_for_more(kept: &str) -> String {
    format!("searched for with more asked, {kept}: an instance may carry more")
}

pub(super) fn searched_without_cpu() -> &'static str {
    "only a capacity was searched for, which says nothing of CPU"
}

pub(super) fn measure_cpu() -> &'static str {
    "leave --max-cpu out, or add open loads at several rates"
}

pub(super) fn searched_for_less(kept: &str) -> String {
    format!("only searched for: {kept}, which says nothing of what is asked")
}

pub(super) fn search_for_this() -> &'static str {
    "ask for that, search for this, or add open loads at several rates"
}

pub(super) fn found_nothing(searched: &SearchedFor) -> String {
    let why = match &searched.per_s {
        Shown::Failed { why } | Shown::Void { why } => why.as_str(),
        Shown::Interval { .. } => "",
    };
    format!("the search for {} has no answer that counts: {why}", searched.words)
}

pub(super) fn at_the_least(rate_per_s: f64, why: &str) -> String {
    format!("at {}, the least rate measured, {why}", rate(rate_per_s))
}

pub(super) fn measure_lower(rate_per_s: f64) -> String {
    format!("measure lower rates, like {}", rate(rate_per_s))
}

pub(super) fn measure_at_share(least_per_s: f64, at_share: Option<Span>) -> String {
    let rate_per_s = at_share.map_or(least_per_s / 2.0, |at| at.low);
    format!("measure lower rates, like {}, or let --extrapolate go by CPU time per request", rate(rate_per_s))
}

pub(super) fn measure_more(rate_per_s: f64) -> String {
    format!(
        "more repeats make the interval narrower (`weir run --resume RUN --repeats N`); or measure below {}",
        rate(rate_per_s)
    )
}

pub(super) fn measure_again() -> &'static str {
    "measure again where the figure counts; `weir report RUN` has the evidence"
}

/// `31.0 ms [30.1 .. 32.0]`.
fn with_interval([mean, low, high]: [f64; 3], format: fn(f64) -> String) -> String {
    let mean = format(mean);
    format!("{mean} [{}]", range(&mean, &format(low), &format(high)))
}
