//! How long one upstream connection is kept and reused.

use weir_config::Keepalive;

use crate::wheel::{NEVER, ticks};

/// A connection's limits are randomly reduced by at most this share.
const JITTER: f64 = 0.1;

/// How many more requests a connection may serve, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    requests: u32,
    /// From this tick on, the connection serves no request.
    until: u32,
}

impl Life {
    /// The limits of a connection that serves only one request.
    pub(crate) const ONE: Life = Life { requests: 1, until: NEVER };

    /// The limits of a connection that opens now.
    pub(crate) fn begin(keepalive: &Keepalive, now: u32) -> Life {
        let some_less = |most: u32| (f64::from(most) * (1.0 - JITTER * fastrand::f64())).ceil() as u32;
        Life {
            requests: keepalive.requests.map_or(u32::MAX, some_less),
            until: keepalive.time.map_or(NEVER, |time| now.saturating_add(some_less(ticks(time.0)))),
        }
    }

    /// Counts a served request. Returns whether the connection may serve another.
    pub(crate) fn spend(&mut self, now: u32) -> bool {
        self.requests = self.requests.saturating_sub(1);
        self.requests > 0 && !self.is_over(now)
    }

    /// Whether the connection's time limit has passed.
    pub(crate) fn is_over(&self, now: u32) -> bool {
        self.until <= now
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_document::Time;

    use super::*;

    #[test]
    fn limits_are_reduced_by_at_most_a_tenth() {
        let keepalive = |requests, seconds| Keepalive { requests, time: seconds };
        let hundred = keepalive(Some(100), Some(Time(Duration::from_secs(100))));
        let lives: Vec<Life> = (0..200).map(|_| Life::begin(&hundred, 5)).collect();
        assert!(lives.iter().all(|life| (90..=100).contains(&life.requests)));
        // A time limit gets one extra tick, so that it never expires early.
        assert!(lives.iter().all(|life| (5 + 900..=5 + 1001).contains(&life.until)));
        assert!(lives.iter().any(|life| *life != lives[0]));
        let mut twice = Life::begin(&keepalive(Some(2), None), 0);
        assert_eq!([0, NEVER - 1].map(|now| twice.spend(now)), [true, false]);
        let mut one = Life::ONE;
        assert!(!one.spend(0));
        let mut endless = Life::begin(&keepalive(None, None), 0);
        assert!((0..10).all(|_| endless.spend(NEVER - 1)));
    }
}
