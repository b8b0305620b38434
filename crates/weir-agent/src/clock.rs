//! How far the clock of an agent is from the coordinator's (`docs/method.md#many-machines`).
//!
//! Each exchange has four timestamps, as in NTP (RFC 5905, section 8): sent, received, answered, back. The offset lies within
//! half of the round trip, whatever the two directions take.

/// Exchanges that are kept.
const KEPT: usize = 64;

/// How fast two clocks may drift apart, as share: ten times what quartz does, and above what NTP slews.
const DRIFT: f64 = 100e-6;

/// One exchange of timestamps, nanoseconds of the monotonic clock of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the coordinator sent the ping.
    pub sent_ns: u64,
    /// When the agent received it.
    pub received_ns: u64,
    /// When the agent answered.
    pub answered_ns: u64,
    /// When the answer was back.
    pub back_ns: u64,
}

/// The clock of an agent relative to the coordinator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// Time of the agent minus time of the coordinator, nanoseconds.
    pub offset_ns: i64,
    /// How far the true offset can be from it, nanoseconds.
    pub bound_ns: u64,
}

/// The latest exchanges with one agent.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    kept: std::collections::VecDeque<Exchange>,
}

impl Exchange {
    /// Time on the way, both directions together.
    fn round_trip_ns(&self) -> u64 {
        let away_ns = self.back_ns.saturating_sub(self.sent_ns);
        away_ns.saturating_sub(self.answered_ns.saturating_sub(self.received_ns))
    }

    fn offset_ns(&self) -> i64 {
        let there = self.received_ns as i64 - self.sent_ns as i64;
        let back = self.answered_ns as i64 - self.back_ns as i64;
        // Each can be near the greatest number if the clocks are far apart; their sum must not overflow.
        there / 2 + back / 2
    }

    /// How far the true offset can be from this one at `now_ns`: half of the round trip, and drift since.
    fn bound_ns(&self, now_ns: u64) -> u64 {
        let age_ns = now_ns.saturating_sub(self.back_ns);
        self.round_trip_ns().div_ceil(2) + 1 + (age_ns as f64 * DRIFT).ceil() as u64
    }
}

impl Clocks {
    /// Adds an exchange.
    pub fn add(&mut self, exchange: Exchange) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(exchange);
    }

    /// The offset with the least bound at `now_ns` of the coordinator; `None` before the first exchange.
    pub fn offset(&self, now_ns: u64) -> Option<ClockOffset> {
        let best = self.kept.iter().min_by_key(|exchange| exchange.bound_ns(now_ns))?;
        Some(ClockOffset { offset_ns: best.offset_ns(), bound_ns: best.bound_ns(now_ns) })
    }
}

impl ClockOffset {
    /// The agent's time at `coordinator_ns`.
    pub fn of_agent(&self, coordinator_ns: u64) -> u64 {
        coordinator_ns.saturating_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange that begins at `sent_ns` with a clock that is `offset_ns` ahead.
    fn exchange(sent_ns: u64, offset_ns: i64, there_ns: u64, back_ns: u64) -> Exchange {
        let received = sent_ns + there_ns;
        let answered = received + 500;
        Exchange {
            sent_ns,
            received_ns: received.saturating_add_signed(offset_ns),
            answered_ns: answered.saturating_add_signed(offset_ns),
            back_ns: answered + back_ns,
        }
    }

    #[test]
    fn the_true_offset_lies_within_the_bound_whatever_each_direction_takes() {
        for offset_ns in [-7_000_000_000_i64, -1, 0, 1, 20_000_000, 9_000_000_000_000] {
            for (there_ns, back_ns) in [(100, 100), (1, 900_000), (900_000, 1), (0, 0), (3, 4)] {
                let mut clocks = Clocks::default();
                clocks.add(exchange(10_000_000_000, offset_ns, there_ns, back_ns));
                let found = clocks.offset(10_002_000_000).unwrap();
                assert!(found.offset_ns.abs_diff(offset_ns) <= found.bound_ns, "{offset_ns}: {found:?}");
                let coordinator_ns = 10_000_000_000_000;
                let agent_ns = coordinator_ns + found.offset_ns;
                assert_eq!(found.of_agent(coordinator_ns as u64), agent_ns as u64);
            }
        }
    }

    #[test]
    fn the_least_round_trip_is_taken_until_drift_makes_a_later_one_better() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.offset(0), None);
        clocks.add(exchange(1_000_000_000, 40, 10_000, 10_000));
        clocks.add(exchange(1_010_000_000, 40, 90_000, 10_000));
        let soon = clocks.offset(1_020_000_000).unwrap();
        assert_eq!(soon.offset_ns, 40);
        // A minute later the first has drifted by up to 6 ms.
        clocks.add(exchange(61_000_000_000, 5_000, 90_000, 90_000));
        assert_eq!(clocks.offset(61_001_000_000).unwrap().offset_ns, 5_000);
    }
}
