//! The share of errors in each repeat, between bounds that hold whatever else is wrong with the repeat.
//!
//! Errors are counts. A status of 400 or more, a failed check and a connection that broke come from the gateway, also on
//! a noisy host. Only requests that were given up may be the fault of a host, a generator or an upstream that was short
//! of CPU: in such a repeat they count for the upper bound alone. `docs/ci.md` has the rule.

use serde::Serialize;
use weir_results::{Reason, Requests};

use crate::points::measured::Repeat;
use crate::verdicts::reasons::Metric;

/// The error share of one repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorShare {
    /// Repeat, from 0.
    pub repeat: u32,
    /// The share of the scheduled requests that the gateway failed, at least and at most. Both ends are the same where
    /// nothing but the gateway can be the cause; `None` where nothing was scheduled, or the books do not balance.
    pub bounds: Option<[f64; 2]>,
    /// Why requests that were given up may not be the gateway's fault.
    pub reasons: Vec<Reason>,
}

/// Why a request may be given up through no fault of the gateway's: somebody else was short of CPU, or the measurement
/// contradicts itself.
const OTHERS: [Reason; 5] = [
    Reason::GeneratorLimited,
    Reason::UpstreamLimited,
    Reason::HostNoise,
    Reason::Implausible,
    Reason::LimitNotApplied,
];

impl ErrorShare {
    pub(crate) fn of(repeat: &Repeat<'_>) -> Self {
        // Every reason voids latency, so these are all of them.
        let reasons = repeat.reasons(Metric::Latency).iter().copied();
        let reasons: Vec<Reason> = reasons.filter(|reason| OTHERS.contains(reason)).collect();
        let requests = &repeat.measurement.record.result.requests;
        Self { repeat: repeat.cell.key.repeat, bounds: bounds(requests, reasons.is_empty()), reasons }
    }

    /// Whether the share is at most `limit`; `None` where the bounds lie on both sides of it.
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
    fn requests_that_were_given_up_are_the_gateways_fault_only_where_nobody_else_can_be_the_cause() {
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
        assert_eq!(bounds(&Requests { completed: 899, ..requests }, true), None, "the books do not balance");
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
