//! When a load starts, when its phases end, and the intervals for which values are reported (one second each).

use crate::recording::books::Phase;

/// Length of an interval for which values are reported.
const INTERVAL_NS: u64 = 1_000_000_000;

/// The times of a load on the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    /// Start of the warm-up.
    pub(crate) start_ns: u64,
    /// Start of the sustained phase.
    pub(crate) sustain_ns: u64,
    /// End of the sustained phase. If a closed loop ends after a number of requests, this is `u64::MAX` until the last
    /// request has ended.
    pub(crate) end_ns: u64,
    /// Time at which waiting for the last responses ends.
    pub(crate) drain_end_ns: u64,
}

/// An interval for which values are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// Whether the interval is in the sustained phase.
    pub(crate) sustained: bool,
}

impl Timeline {
    /// The times of a load that starts at `start_ns`. Without `duration_ns`, the load ends after a number of requests.
    pub(crate) fn new(start_ns: u64, warmup_ns: u64, duration_ns: Option<u64>, drain_ns: u64) -> Self {
        let sustain_ns = start_ns + warmup_ns;
        let end_ns = duration_ns.map_or(u64::MAX, |duration_ns| sustain_ns + duration_ns);
        Self { start_ns, sustain_ns, end_ns, drain_end_ns: end_ns.saturating_add(drain_ns) }
    }

    /// Moves the end of the load to `end_ns` if this is earlier than planned. After the end, workers wait at most
    /// `drain_ns` for responses.
    pub(crate) fn cut(&mut self, end_ns: u64, drain_ns: u64) {
        if end_ns < self.end_ns {
            self.end_ns = end_ns;
            self.drain_end_ns = end_ns.saturating_add(drain_ns);
        }
    }

    /// Postpones the start and the end of the sustained phase. If the load was cut short during the warm-up, only
    /// the start moves.
    pub(crate) fn put_off(&mut self, sustain_ns: u64) {
        let by_ns = sustain_ns.saturating_sub(self.sustain_ns);
        if self.end_ns > self.sustain_ns {
            self.end_ns = self.end_ns.saturating_add(by_ns);
            self.drain_end_ns = self.drain_end_ns.saturating_add(by_ns);
        }
        self.sustain_ns += by_ns;
    }

    /// The phase of a request intended to start at `intended_ns`.
    #[inline]
    pub(crate) fn phase(&self, intended_ns: u64) -> Phase {
        if intended_ns < self.sustain_ns { Phase::Warmup } else { Phase::Sustained }
    }

    /// Whether a time is in the sustained phase.
    pub(crate) fn sustained_at(&self, now_ns: u64) -> bool {
        now_ns >= self.sustain_ns && now_ns < self.end_ns
    }

    /// The interval that contains `now_ns`.
    pub(crate) fn span_at(&self, now_ns: u64) -> Span {
        let (from_ns, to_ns, sustained) = if now_ns >= self.end_ns {
            (self.end_ns, u64::MAX, false)
        } else if now_ns < self.sustain_ns {
            (self.start_ns, self.sustain_ns.min(self.end_ns), false)
        } else {
            (self.sustain_ns, self.end_ns, true)
        };
        let start_ns = from_ns + now_ns.saturating_sub(from_ns) / INTERVAL_NS * INTERVAL_NS;
        Span { start_ns, end_ns: start_ns.saturating_add(INTERVAL_NS).min(to_ns), sustained }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn intervals_never_cross_phase_boundaries() {
        let timeline = Timeline::new(100 * S, S * 3 / 2, Some(S * 5 / 4), 10 * S);
        let mut spans = Vec::new();
        let mut now = 100 * S;
        for _ in 0..6 {
            let span = timeline.span_at(now);
            assert_eq!(timeline.span_at(span.end_ns - 1), span);
            spans.push((span.start_ns - 100 * S, span.end_ns - 100 * S, span.sustained));
            now = span.end_ns;
        }
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(
            spans,
            [
                (0, ms(1_000), false),
                (ms(1_000), ms(1_500), false),
                (ms(1_500), ms(2_500), true),
                (ms(2_500), ms(2_750), true),
                (ms(2_750), ms(3_750), false),
                (ms(3_750), ms(4_750), false),
            ]
        );
    }

    #[test]
    fn a_cut_only_shortens() {
        let mut timeline = Timeline::new(0, 0, Some(10 * S), S);
        timeline.cut(20 * S, S);
        assert_eq!((timeline.end_ns, timeline.drain_end_ns), (10 * S, 11 * S));
        timeline.cut(4 * S, S / 2);
        assert_eq!((timeline.end_ns, timeline.drain_end_ns), (4 * S, 4 * S + S / 2));
    }

    #[test]
    fn a_postponed_phase_keeps_its_length_and_an_early_end_stays() {
        let mut timeline = Timeline::new(0, 2 * S, Some(10 * S), S);
        timeline.put_off(3 * S);
        assert_eq!((timeline.sustain_ns, timeline.end_ns, timeline.drain_end_ns), (3 * S, 13 * S, 14 * S));
        timeline.cut(S, S);
        timeline.put_off(4 * S);
        assert_eq!((timeline.sustain_ns, timeline.end_ns, timeline.drain_end_ns), (4 * S, S, 2 * S));
    }

    #[test]
    fn an_end_within_the_warm_up_leaves_no_sustained_phase() {
        let mut timeline = Timeline::new(0, 5 * S, Some(S), S);
        timeline.cut(2 * S + 1, S);
        let spans = [0, S, 2 * S, 2 * S + 1].map(|now_ns| timeline.span_at(now_ns));
        assert!(spans.iter().all(|span| !span.sustained && span.start_ns < span.end_ns));
        assert_eq!(spans[2].end_ns, spans[3].start_ns);
    }
}
