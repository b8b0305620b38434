//! Decides the outcome of each request: a fixed pattern that meets every share exactly, over all workers.
//!
//! Each outcome has a share, and is scheduled like a periodic task with deadlines. With a share of 0.1, each period has
//! 10 requests, and one of them gets this outcome. In general, the j-th request with the outcome comes in period j. The
//! bounds of this period are the smallest numbers for which:
//!
//! ```text
//! first request of period j: number x share > j - 1
//! last request (deadline): number x share >= j
//! ```
//!
//! `number` counts all requests from 1. If the shares sum to at most 1, every outcome can meet all its deadlines. So
//! after any number of requests, the count of each outcome is `number x share`, rounded down, or one more.

use std::sync::{Mutex, PoisonError};

use super::Outcome;
use crate::FaultSpec;

/// Numbers the requests, and decides the outcome of each.
#[derive(Debug)]
pub(crate) struct Outcomes(Mutex<Pattern>);

#[derive(Debug)]
struct Pattern {
    seen: u64,
    /// If several parts have the same deadline, the first one in this list is chosen. The part for successful responses
    /// is first, so it comes before faults with the same deadline.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    outcome: Outcome,
    share: f64,
    given: u64,
    /// Deadline for the next choice of this part: the number of the last request that meets it.
    deadline: u64,
}

impl Outcomes {
    /// Returns `None` if all responses are successful, so that an origin without faults has no shared state.
    pub(crate) fn of(faults: &FaultSpec) -> Option<Self> {
        let shares = faults.shares();
        let good = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
        let parts: Vec<Part> = std::iter::once((Outcome::Good, good))
            .chain(shares)
            .filter(|(_, share)| *share > 0.0)
            .map(|(outcome, share)| Part::new(outcome, share))
            .collect();
        let has_faults = parts.iter().any(|part| part.outcome != Outcome::Good);
        has_faults.then(|| Self(Mutex::new(Pattern { seen: 0, parts })))
    }

    /// Returns the outcome of the next request.
    pub(crate) fn next(&self) -> Outcome {
        // The pattern is consistent after every call, so it can be used even if another thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

impl Pattern {
    fn next(&mut self) -> Outcome {
        let number = self.seen + 1;
        self.seen = number;
        // `min_by_key` returns the first of equal elements.
        let wanted = self.parts.iter_mut().filter(|part| part.is_begun(number));
        let Some(part) = wanted.min_by_key(|part| part.deadline) else { return Outcome::Good };
        part.give();
        part.outcome
    }
}

impl Part {
    fn new(outcome: Outcome, share: f64) -> Self {
        let mut part = Self { outcome, share, given: 0, deadline: 0 };
        part.deadline = part.next_deadline();
        part
    }

    /// Whether this part may get the request `number`. It may if it has fewer requests than its share of the first
    /// `number` requests.
    fn is_begun(&self, number: u64) -> bool {
        number as f64 * self.share > self.given as f64
    }

    fn give(&mut self) {
        self.given += 1;
        self.deadline = self.next_deadline();
    }

    /// Returns the smallest `number` for which `number * share`, rounded down, is at least `given + 1`. The search
    /// starts one below `(given + 1) / share`, because this quotient may be rounded.
    fn next_deadline(&self) -> u64 {
        let wanted = self.given + 1;
        let reaches = |number: u64| (number as f64 * self.share) as u64 >= wanted;
        let mut number = ((wanted as f64 / self.share) as u64).saturating_sub(1);
        while !reaches(number) && number < u64::MAX {
            number += 1;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use weir_document::{Share, Slow, Time};

    use super::*;

    fn faults(errors: f64, resets: f64, half: f64, slow: f64, refuse: f64) -> FaultSpec {
        let slow = Some(Slow { share: Share(slow), time: Time::default() });
        let [errors, resets, half, refuse] = [errors, resets, half, refuse].map(Share);
        FaultSpec { errors, resets, half, slow, refuse }
    }

    fn first(faults: &FaultSpec, count: usize) -> Vec<Outcome> {
        let outcomes = Outcomes::of(faults).expect("there are faults");
        (0..count).map(|_| outcomes.next()).collect()
    }

    fn count(outcomes: &[Outcome], of: Outcome) -> usize {
        outcomes.iter().filter(|outcome| **outcome == of).count()
    }

    #[track_caller]
    fn check(share: f64, of: usize, expected: usize) {
        let outcomes = first(&faults(share, 0.0, 0.0, 0.0, 0.0), of);
        assert_eq!(count(&outcomes, Outcome::Error), expected);
    }

    #[test]
    fn one_share_is_met_exactly() {
        assert!(Outcomes::of(&FaultSpec::default()).is_none());
        check(1.0, 1_000, 1_000);
        check(0.001, 1_000_000, 1_000);
        check(0.25, 7, 1);
        check(1.0 / 3.0, 300_000, 100_000);
        check(0.999, 100_000, 99_900);
        check(1e-9, 1_000, 0);
        check(f64::MIN_POSITIVE, 10, 0);
    }

    #[test]
    fn faults_are_spread_evenly() {
        for (share, expected) in
            [(0.1, vec![10, 20, 30, 40]), (0.25, (1..=10).map(|place| 4 * place).collect())]
        {
            let outcomes = first(&faults(0.0, share, 0.0, 0.0, 0.0), 40);
            let at: Vec<usize> = (1..=40).filter(|number| outcomes[number - 1] == Outcome::Reset).collect();
            assert_eq!(at, expected);
        }
    }

    #[test]
    fn several_shares_are_each_met_exactly_at_any_time() {
        for shares in [
            [0.5, 0.5, 0.0, 0.0, 0.0],
            [0.5, 0.25, 0.25, 0.0, 0.0],
            [0.1, 0.1, 0.1, 0.1, 0.1],
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.01, 0.3, 0.125, 0.02, 0.5],
            [0.9, 0.001, 0.05, 0.0, 0.049],
        ] {
            let [errors, resets, half, slow, refuse] = shares;
            let outcomes = first(&faults(errors, resets, half, slow, refuse), 2_000);
            let of = [Outcome::Error, Outcome::Reset, Outcome::Half, Outcome::Slow, Outcome::Refused];
            for (outcome, share) in of.into_iter().zip(shares) {
                let mut given = 0;
                for (before, is) in outcomes.iter().enumerate() {
                    given += usize::from(*is == outcome);
                    let due = (before + 1) as f64 * share;
                    let most = (due - 1e-9).ceil() as usize;
                    assert!(
                        (due.floor() as usize..=most).contains(&given),
                        "{outcome:?} of {shares:?}: {given} at {due}"
                    );
                }
            }
        }
    }
}
