//! The error share of each repeat, with bounds that hold even if the repeat is invalid.
//!
//! A status of 400 or more, a failed check and a broken connection are always errors of the gateway, even on a noisy
//! host. Timed-out and dropped requests can have another cause: a host, a generator or an upstream that is short of
//! CPU. If a repeat has a reason in `OTHERS`, its timed-out and dropped requests count only toward the upper bound.
//! `docs/ci.md` describes the rule.

use serde::Serialize;
use weir_results::{Reason, Requests};

use crate::points::measured::Repeat;
use crate::verdicts::reasons::Metric;

/// The error share of one repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorShare {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Lower and upper bound of the share of scheduled requests that failed because of the gateway. They are equal if
    /// only the gateway can be the cause. `None` if no request was scheduled, or the counts do not add up.
    pub bounds: Option<[f64; 2]>,
    /// Reasons why timed-out and dropped requests may not be the gateway's fault; empty if they are the gateway's
    /// fault.
    pub reasons: Vec<Reason>,
}

/// Reasons why a timed-out or dropped request may not be the gateway's fault: another part was short of CPU, or the
/// measurement contradicts itself.
const OTHERS: [Reason; 5] = [
    Reason::GeneratorLimited,
    Reason::UpstreamLimited,
    Reason::HostNoise,
    Reason::Implausible,
    Reason::LimitNotApplied,
];

impl ErrorShare {
    pub(crate) fn of(repeat: &Repeat<'_>) -> Self {
        // Every reason in `OTHERS` can make latency invalid, so only the reasons for invalid latency are checked.
        let reasons = repeat.reasons(Metric::Latency).iter().copied();
        let reasons: Vec<Reason> = reasons.filter(|reason| OTHERS.contains(reason)).collect();
        let requests = &repeat.measurement.record.result.requests;
        Self { repeat: repeat.cell.key.repeat, bounds: bounds(requests, reasons.is_empty()), reasons }
    }

    /// Whether the share is at most `limit`; `None` if the limit lies between the bounds, or if there are no bounds.
    pub(crate) fn is_within(&self, limit: f64) -> Option<bool> {
        let [at_least, at_most] = self.bounds?;
        if at_least > limit { Some(false) } else { (at_most <= limit).then_some(true) }
    }
}

fn bounds(requests: &Requests, given_up_by_gateway: bool) -> Option<[f64; 2]> {
    let at_most = requests.error_share().filter(|_| requests.balance())?;
    let wrong = u128::from(requests.unexpected) + u128::from(requests.failed);
    let at_least = if given_up_by_gateway { at_most } else { wrong as f64 / requests.scheduled as f64 };
    Some([at_least, at_most])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_requests_are_the_gateways_fault_only_without_another_possible_cause() {
        let requests = Requests {
            scheduled: 1_000,
            completed: 900,
            unexpected: 20,
            failed: 30,
            timed_out: 40,
            dropped: 10,
            in_flight: 20,
            ..Requests::default()
        };
        assert_eq!(bounds(&requests, true), Some([0.1, 0.1]));
        assert_eq!(bounds(&requests, false), Some([0.05, 0.1]));
        assert_eq!(bounds(&Requests { completed: 899, ..requests }, true), None, "the counts do not add up");
        assert_eq!(bounds(&Requests::default(), true), None, "nothing was scheduled");
    }

    #[test]
    fn a_limit_between_the_bounds_is_not_decided() {
        let share = ErrorShare { repeat: 0, bounds: Some([0.05, 0.1]), reasons: Vec::new() };
        let check = |limit, expected| assert_eq!(share.is_within(limit), expected, "{limit}");
        check(0.04, Some(false));
        check(0.05, None);
        check(0.09, None);
        check(0.1, Some(true));
        assert_eq!(ErrorShare { bounds: None, ..share }.is_within(0.5), None);
    }
}
