//! Checks a load point against the demand.
//!
//! A bound is met only if the whole interval is within the limit. If the interval includes the limit, the point is
//! borderline, and the next lower point is used.

use super::instance_type::{RatePoint, Shown};
use super::{Bound, words};

/// Result of a check of a value or a load point, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The whole interval is at the limit or below.
    Met,
    /// The interval includes the limit.
    Borderline,
    /// There is no valid value.
    Unknown,
    /// The whole interval is above the limit, or the gateway failed.
    Missed,
}

/// Result of one check, or the worst result of several checks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Check {
    pub(super) standing: Standing,
    /// Why the check is not met: `p99 is 31.0 ms [30.1 .. 32.0], above the limit of 20.0 ms`. Empty if met.
    pub(super) words: String,
}

/// Checks a point against the bounds.
pub(super) fn objective(point: &RatePoint, bounds: &[Bound]) -> Check {
    let carried = match &point.carried_per_s {
        Shown::Interval { .. } => met(),
        Shown::Failed { why } => Check { standing: Standing::Missed, words: words::failed("the rate", why) },
        Shown::Invalid { why } => {
            Check { standing: Standing::Unknown, words: words::no_value("the rate", why) }
        }
    };
    bounds.iter().map(|bound| check_bound(point, bound)).fold(carried, worse)
}

/// Checks the CPU use at a point, as share of the CPU limit, against `share_max`. If there is no `share_max`, the check
/// passes.
pub(super) fn cpu(point: &RatePoint, share_max: Option<f64>) -> Check {
    share_max.map_or_else(met, |limit| against("CPU", &point.cpu_share, limit, words::percent))
}

fn check_bound(point: &RatePoint, bound: &Bound) -> Check {
    if bound.name == "errors" {
        return against("the error share", &point.errors, bound.limit, words::percent);
    }
    let shown = point.latency_ns.iter().find(|(name, _)| *name == bound.name);
    match shown {
        Some((_, shown)) => against(words::title(&bound.name), shown, bound.limit, words::time),
        None => Check { standing: Standing::Unknown, words: words::no_value(&bound.name, "not measured") },
    }
}

fn against(name: &str, shown: &Shown, limit: f64, format: fn(f64) -> String) -> Check {
    let (standing, words) = match shown {
        Shown::Interval { high, .. } if *high <= limit => return met(),
        Shown::Interval { mean, low, high } if *low > limit => {
            (Standing::Missed, words::missed(name, [*mean, *low, *high], limit, format))
        }
        Shown::Interval { mean, low, high } => {
            (Standing::Borderline, words::borderline(name, [*mean, *low, *high], limit, format))
        }
        Shown::Failed { why } => (Standing::Missed, words::failed(name, why)),
        Shown::Invalid { why } => (Standing::Unknown, words::no_value(name, why)),
    };
    Check { standing, words }
}

fn met() -> Check {
    Check { standing: Standing::Met, words: String::new() }
}

/// Returns the worse of two checks; the first if both have the same standing.
pub(super) fn worse(first: Check, second: Check) -> Check {
    if second.standing > first.standing { second } else { first }
}
