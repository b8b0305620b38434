//! How often a worker may wake up for arrivals.

/// Mean time between wake-ups at high arrival rates, in nanoseconds.
const GRAIN_NS: u64 = 150_000;
/// Number of wake-ups that are allowed at once after an idle time.
const BURST: u64 = 10;

/// The budget of a worker's wake-ups.
///
/// A wake-up costs more CPU time than a request. Up to a few thousand arrivals per second, each arrival has its own
/// wake-up. Above that, arrivals that are due within [`GRAIN_NS`] share one wake-up, and are late by less than
/// [`GRAIN_NS`]. The budget follows the generic cell rate algorithm (ITU-T I.371, annex A). It depends only on the
/// schedule, not on the time of the calls.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// The time at which all [`BURST`] wake-ups are available again.
    full_ns: u64,
}

impl Pace {
    /// Returns the time to wake up for an arrival that is due at `due_ns`: the due time, or the first time that the
    /// budget allows.
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
    fn few_arrivals_wake_up_individually_and_many_share_wake_ups() {
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
