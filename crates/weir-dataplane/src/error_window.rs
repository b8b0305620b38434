//! Error rate over a sliding time window: counts in a ring of fixed size.

/// The number of parts of a window. The newest part is incomplete, so the counts cover up to a tenth less than the
/// whole window.
const PARTS: usize = 10;

/// Requests and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
}

/// The outcomes in a sliding window, counted per part of the window. All times must come from the same clock.
#[derive(Debug, Default)]
pub(crate) struct ErrorWindow {
    part_ns: u64,
    /// The number of the newest part, counted from time 0 of the clock.
    newest: u64,
    parts: [Outcomes; PARTS],
}

impl Outcomes {
    /// Whether at least `share` of the requests failed. False if there are no requests, or fewer than `least`.
    pub(crate) fn has_share(self, share: f64, least: u32) -> bool {
        let is_enough = self.requests >= u64::from(least).max(1);
        is_enough && self.errors as f64 / self.requests as f64 >= share
    }
}

impl ErrorWindow {
    /// Records the outcome of one request. A changed window length resets the window.
    pub(crate) fn note(&mut self, is_error: bool, window_ns: u64, now_ns: u64) {
        let part_ns = (window_ns / PARTS as u64).max(1);
        let part = now_ns / part_ns;
        if part_ns != self.part_ns {
            *self = ErrorWindow { part_ns, newest: part, ..ErrorWindow::default() };
        }
        // Clear the parts since the last outcome, at most a whole window.
        let first_new = (self.newest + 1).max(part.saturating_sub(PARTS as u64 - 1));
        for new in first_new..=part {
            self.parts[slot(new)] = Outcomes::default();
        }
        self.newest = self.newest.max(part);
        // Each worker reads the clock itself, so `now_ns` may be slightly before the newest part of the window.
        // Outcomes older than the window are ignored.
        if self.newest - part < PARTS as u64 {
            let outcomes = &mut self.parts[slot(part)];
            outcomes.requests += 1;
            outcomes.errors += u64::from(is_error);
        }
    }

    /// All outcomes of the window that ends at the newest outcome.
    pub(crate) fn outcomes(&self) -> Outcomes {
        self.parts.iter().fold(Outcomes::default(), |sum, part| Outcomes {
            requests: sum.requests + part.requests,
            errors: sum.errors + part.errors,
        })
    }
}

fn slot(part: u64) -> usize {
    (part % PARTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records outcomes in a 1 s window, and checks its counts. Each outcome in `noted` is a pair: whether it is an
    /// error, and its time in ms.
    fn check(noted: &[(bool, u64)], requests: u64, errors: u64) {
        let mut window = ErrorWindow::default();
        noted.iter().for_each(|&(is_error, ms)| window.note(is_error, 1_000_000_000, ms * 1_000_000));
        assert_eq!(window.outcomes(), Outcomes { requests, errors }, "{noted:?}");
    }

    #[test]
    fn outcomes_count_for_the_window_length() {
        check(&[], 0, 0);
        check(&[(true, 5_000), (false, 5_050), (true, 5_899)], 3, 2);
        check(&[(true, 5_000), (false, 5_099), (true, 5_999)], 3, 2);
        check(&[(true, 5_000), (false, 5_100), (true, 6_000)], 2, 1);
        check(&[(true, 5_000), (false, 5_100), (true, 6_099)], 2, 1);
        check(&[(true, 5_000), (true, 6_100)], 1, 1);
        check(&[(true, 5_000), (true, 5_500), (false, 500_000)], 1, 0);
    }

    #[test]
    fn late_outcomes_count_only_inside_the_window() {
        check(&[(false, 6_000), (true, 5_900)], 2, 1);
        check(&[(false, 6_000), (true, 5_100)], 2, 1);
        check(&[(false, 6_000), (true, 5_000)], 1, 0);
        check(&[(false, 6_000), (true, 0)], 1, 0);
    }

    #[test]
    fn changed_length_resets_the_window() {
        let mut window = ErrorWindow::default();
        window.note(true, 1_000, 50);
        window.note(true, 2_000, 60);
        assert_eq!(window.outcomes(), Outcomes { requests: 1, errors: 1 });
    }

    #[test]
    fn share_limit_is_inclusive() {
        let has = |requests, errors, share| Outcomes { requests, errors }.has_share(share, 10);
        assert!(has(30, 3, 0.1) && !has(30, 2, 0.1) && !has(31, 3, 0.1));
        assert!(has(10, 10, 1.0) && !has(10, 9, 1.0));
        assert!(!has(9, 9, 0.1), "too few requests");
        assert!(!Outcomes::default().has_share(0.1, 0));
    }
}
