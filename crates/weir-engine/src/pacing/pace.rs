//! How often a worker may wake up for arrivals.

/// Mean distance of wake-ups when arrivals are many.
const GRAIN_NS: u64 = 150_000;
/// Wake-ups that may follow each other at once after a pause.
const BURST: u64 = 10;

/// The budget of wake-ups.
///
/// A wake-up costs more CPU time than the request it is for. Up to some thousand arrivals a second each arrival has its
/// own; above that, arrivals due within the same grain share one and are late by less than a grain. The budget is the
/// generic cell rate algorithm (ITU-T I.371, annex A), so it depends on the schedule alone.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the budget will be full again.
    full_ns: u64,
}

impl Pace {
    /// When to wake for an arrival that is due at `due_ns`: then, or as soon as the budget allows.
    pub(crate) fn admit(&mut self, due_ns: u64) -> u64 {
        let wake_ns = due_ns.max(self.full_ns.saturating_sub(BURST * GRAIN_NS));
        self.full_ns = self.full_ns.max(wake_ns) + GRAIN_NS;
        wake_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_arrivals_have_a_wake_up_each_and_many_share() {
        let mut pace = Pace::default();
        for nth in 1..100 {
            assert_eq!(pace.admit(nth * GRAIN_NS), nth * GRAIN_NS);
        }
        let start_ns = 1_000 * GRAIN_NS;
        let wakes: Vec<u64> = (0..30).map(|nth| pace.admit(start_ns + nth) - start_ns).collect();
        assert!(wakes[..=BURST as usize].iter().zip(0..).all(|(wake, nth)| *wake == nth), "{wakes:?}");
        let later = &wakes[BURST as usize + 1..];
        assert!(later.windows(2).all(|pair| pair[1] - pair[0] == GRAIN_NS), "{wakes:?}");
    }
}
