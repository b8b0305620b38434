//! Measures the offset between the clocks of an agent and the coordinator (`docs/method.md#many-machines`).
//!
//! Each exchange has four timestamps, as in NTP (RFC 5905, section 8): the coordinator sends a ping, the agent receives
//! it, the agent responds, the coordinator receives the response. The error of the offset is at most half of the round
//! trip, even if one direction takes longer than the other.

/// Maximum number of exchanges that are kept per agent.
const KEPT: usize = 64;

/// Assumed maximum drift between two clocks, seconds per second: ten times that of a typical quartz clock.
const DRIFT: f64 = 100e-6;

/// One exchange of timestamps, nanoseconds of the monotonic clock of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the coordinator sent the ping.
    pub sent_ns: u64,
    /// When the agent received the ping.
    pub received_ns: u64,
    /// When the agent responded.
    pub answered_ns: u64,
    /// When the coordinator received the response.
    pub back_ns: u64,
}

/// The monotonic clock of an agent relative to that of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The agent's clock minus the coordinator's clock, nanoseconds.
    pub offset_ns: i64,
    /// Maximum error of the offset, nanoseconds.
    pub bound_ns: u64,
}

/// The latest exchanges with one agent.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    kept: std::collections::VecDeque<Exchange>,
}

impl Exchange {
    /// The time that ping and response spent on the network: the round trip without the time in the agent.
    fn round_trip_ns(&self) -> u64 {
        let away_ns = self.back_ns.saturating_sub(self.sent_ns);
        away_ns.saturating_sub(self.answered_ns.saturating_sub(self.received_ns))
    }

    fn offset_ns(&self) -> i64 {
        let there = self.received_ns as i64 - self.sent_ns as i64;
        let back = self.answered_ns as i64 - self.back_ns as i64;
        // Halves each term before the sum: if the clocks are far apart, both terms can be near the maximum, and their
        // sum could overflow.
        there / 2 + back / 2
    }

    /// Maximum error of this exchange's offset at `now_ns`: half of the round trip, plus the drift since the exchange.
    fn bound_ns(&self, now_ns: u64) -> u64 {
        let age_ns = now_ns.saturating_sub(self.back_ns);
        self.round_trip_ns().div_ceil(2) + 1 + (age_ns as f64 * DRIFT).ceil() as u64
    }
}

impl Clocks {
    /// Adds an exchange, and drops the oldest if there are more than 64.
    pub fn add(&mut self, exchange: Exchange) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(exchange);
    }

    /// The offset with the smallest maximum error at `now_ns`, a time of the coordinator's clock. `None` before the
    /// first exchange.
    pub fn offset(&self, now_ns: u64) -> Option<ClockOffset> {
        let best = self.kept.iter().min_by_key(|exchange| exchange.bound_ns(now_ns))?;
        Some(ClockOffset { offset_ns: best.offset_ns(), bound_ns: best.bound_ns(now_ns) })
    }
}

impl ClockOffset {
    /// Converts `coordinator_ns`, a time of the coordinator's clock, to the agent's clock.
    pub fn of_agent(&self, coordinator_ns: u64) -> u64 {
        coordinator_ns.saturating_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange that starts at `sent_ns`, with an agent's clock that is `offset_ns` ahead.
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
    fn the_true_offset_is_within_the_bound_for_any_delays() {
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
    fn the_shortest_round_trip_is_used_until_drift_exceeds_a_later_one() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.offset(0), None);
        clocks.add(exchange(1_000_000_000, 40, 10_000, 10_000));
        clocks.add(exchange(1_010_000_000, 40, 90_000, 10_000));
        let soon = clocks.offset(1_020_000_000).unwrap();
        assert_eq!(soon.offset_ns, 40);
        // After a minute, the first exchange may be off by 6 ms.
        clocks.add(exchange(61_000_000_000, 5_000, 90_000, 90_000));
        assert_eq!(clocks.offset(61_001_000_000).unwrap().offset_ns, 5_000);
    }
}
