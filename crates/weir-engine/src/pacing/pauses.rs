//! Times at which a slot of a closed loop must not send: think times, and the time before and after the load uses the
//! slot. A connection with n concurrent streams has n slots.

use crate::pacing::think::Think;
use crate::spec::ShardSpec;
use crate::timeline::Timeline;

/// Identifies a worker among the workers of all machines that share a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    pub(crate) shard: ShardSpec,
}

/// The pauses of the slots of one worker.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    think: Option<Thinking>,
    ramp: Option<Ramp>,
}

#[derive(Debug)]
struct Thinking {
    think: Think,
    seat: Seat,
    places: Vec<Thinker>,
}

/// The think time of one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Thinker {
    /// Number of requests that have ended so far. No think time precedes the first request.
    requests: u64,
    /// The end of the current think time. A lost connection does not change it.
    until_ns: u64,
}

/// The number of connections of all machines together, which changes linearly during the sustained phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ramp {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) seat: Seat,
    /// Number of slots per connection.
    pub(crate) streams: u32,
}

impl Seat {
    /// Converts an index within this worker to an index over all workers of all machines.
    fn number(self, local: u64) -> u64 {
        self.shard.number(local * u64::from(self.workers) + u64::from(self.worker))
    }
}

impl Pauses {
    /// The pauses of a worker with this number of slots.
    pub(crate) fn new(think: Option<Think>, ramp: Option<Ramp>, seat: Seat, slots: usize) -> Self {
        let think = think.map(|think| Thinking { think, seat, places: vec![Thinker::default(); slots] });
        Self { think, ramp }
    }

    /// Starts the think time of a slot whose request has ended, with or without a response.
    #[inline]
    pub(crate) fn resolved(&mut self, slot: usize, now_ns: u64) {
        if let Some(think) = &mut self.think {
            think.begin(slot, now_ns);
        }
    }

    /// Returns the earliest time at which the slot may send; at least `now_ns`. The slot must be up and idle at
    /// `now_ns`.
    #[inline]
    pub(crate) fn until_ns(&self, slot: usize, now_ns: u64, timeline: &Timeline) -> u64 {
        let begins_ns = self.begins_ns(slot, timeline);
        let thinks_ns = self.think.as_ref().map_or(0, |think| think.places[slot].until_ns);
        now_ns.max(begins_ns).max(thinks_ns)
    }

    /// Returns the time from which the slot is used; 0 unless the number of connections grows.
    #[inline]
    pub(crate) fn begins_ns(&self, slot: usize, timeline: &Timeline) -> u64 {
        self.ramp.map_or(0, |ramp| ramp.begins_ns(slot, timeline))
    }

    /// The time from which the slot is no longer used; `u64::MAX` if the number of connections does not fall.
    #[inline]
    pub(crate) fn ends_ns(&self, slot: usize, timeline: &Timeline) -> u64 {
        self.ramp.map_or(u64::MAX, |ramp| ramp.ends_ns(slot, timeline))
    }
}

impl Thinking {
    fn begin(&mut self, slot: usize, now_ns: u64) {
        let among_all = self.seat.number(slot as u64);
        let place = &mut self.places[slot];
        place.requests += 1;
        place.until_ns = now_ns.saturating_add(self.think.draw_ns(among_all, place.requests));
    }
}

impl Ramp {
    /// The time from which the load uses the slot's connection; 0 if it uses this connection from the start.
    fn begins_ns(&self, slot: usize, timeline: &Timeline) -> u64 {
        match self.number(slot) {
            number if number < u64::from(self.from) => 0,
            number => self.reached_ns(number + 1, timeline),
        }
    }

    fn ends_ns(&self, slot: usize, timeline: &Timeline) -> u64 {
        match self.number(slot) {
            number if number < u64::from(self.to) || self.to >= self.from => u64::MAX,
            number => self.reached_ns(number, timeline),
        }
    }

    /// The index of the slot's connection among the connections of all workers on all machines.
    fn number(&self, slot: usize) -> u64 {
        self.seat.number(slot as u64 / u64::from(self.streams))
    }

    /// The time at which the number of connections is `number`.
    fn reached_ns(&self, number: u64, timeline: &Timeline) -> u64 {
        let length_ns = timeline.end_ns.saturating_sub(timeline.sustain_ns) as f64;
        let share =
            number.abs_diff(u64::from(self.from)) as f64 / f64::from(self.to.abs_diff(self.from).max(1));
        timeline.sustain_ns + (length_ns * share.min(1.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn seat(worker: u32, workers: u32) -> Seat {
        Seat { worker, workers, shard: ShardSpec::WHOLE }
    }

    #[test]
    fn connections_open_and_close_evenly_over_the_phase() {
        let timeline = Timeline::new(0, S, Some(10 * S), S);
        let up = Ramp { from: 2, to: 12, seat: seat(1, 2), streams: 1 };
        // Worker 1 of 2 has the connections 1, 3, 5, ...
        let begins: Vec<u64> = (0..6).map(|slot| up.begins_ns(slot, &timeline) / S).collect();
        assert_eq!(begins, [0, 3, 5, 7, 9, 11]);
        assert!((0..6).all(|slot| up.ends_ns(slot, &timeline) == u64::MAX));
        let down = Ramp { from: 4, to: 1, seat: seat(0, 1), streams: 2 };
        let ends: Vec<u64> = (0..8).map(|slot| down.ends_ns(slot, &timeline)).collect();
        assert_eq!(ends[..2], [u64::MAX; 2]);
        assert_eq!(ends[6..].iter().map(|ns| (ns - S + 1) * 3 / (10 * S)).collect::<Vec<_>>(), [1, 1]);
        assert!((0..8).all(|slot| down.begins_ns(slot, &timeline) == 0));
    }

    #[test]
    fn machines_share_a_ramp_like_the_workers_of_one_machine() {
        let timeline = Timeline::new(0, S, Some(10 * S), S);
        for (from, to) in [(2, 13), (13, 2)] {
            let times = |shards: u32, workers: u32| {
                let mut times = Vec::new();
                for (index, worker) in (0..shards).flat_map(|index| (0..workers).map(move |w| (index, w))) {
                    let seat = Seat { worker, workers, shard: ShardSpec { index, of: shards } };
                    let ramp = Ramp { from, to, seat, streams: 1 };
                    let slots = (0..).take_while(|slot| ramp.number(*slot) < 13);
                    times.extend(
                        slots.map(|slot| (ramp.begins_ns(slot, &timeline), ramp.ends_ns(slot, &timeline))),
                    );
                }
                times.sort_unstable();
                times
            };
            assert_eq!(times(1, 1).len(), 13);
            for (shards, workers) in [(1, 3), (3, 1), (3, 2), (5, 4)] {
                assert_eq!(times(shards, workers), times(1, 1), "{shards} machines of {workers} workers");
            }
        }
    }

    #[test]
    fn think_times_follow_responses_but_never_precede_the_first_request() {
        let timeline = Timeline::new(0, 0, Some(S), S);
        let think = Think::new(1, "7ns".parse().unwrap());
        let mut pauses = Pauses::new(Some(think), None, seat(0, 1), 2);
        assert_eq!([0, 1].map(|slot| pauses.until_ns(slot, 100, &timeline)), [100, 100]);
        pauses.resolved(0, 100);
        assert_eq!([0, 1].map(|slot| pauses.until_ns(slot, 100, &timeline)), [107, 100]);
        // A reconnect during the think time does not start another think time.
        assert_eq!([105, 107, 110].map(|now_ns| pauses.until_ns(0, now_ns, &timeline)), [107, 107, 110]);
    }

    #[test]
    fn think_times_of_a_slot_differ_between_machines() {
        let timeline = Timeline::new(0, 0, Some(S), S);
        let mut drawn = std::collections::BTreeSet::new();
        for index in 0..3 {
            let think = Think::new(1, "exp:1ms".parse().unwrap());
            let seat = Seat { worker: 0, workers: 2, shard: ShardSpec { index, of: 3 } };
            let mut pauses = Pauses::new(Some(think), None, seat, 4);
            for slot in 0..4 {
                pauses.resolved(slot, 0);
                drawn.insert(pauses.until_ns(slot, 0, &timeline));
            }
        }
        assert_eq!(drawn.len(), 12);
    }
}
