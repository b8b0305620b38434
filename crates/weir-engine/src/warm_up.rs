//! A warm-up that is extended while latencies have not settled. This state is shared by the workers and their
//! coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod settle;

use settle::has_settled;

/// Number of time slots that the configured warm-up is divided into. The mean latency in each slot is one
/// observation.
const SLOTS: u64 = 100;

/// Bit of [`WarmUp::sustain_ns`] that is set once a worker has entered the sustained phase. No clock value reaches
/// this bit.
const REACHED: u64 = 1 << 63;

/// The start of the sustained phase, and the latencies of the warm-up. The start can be postponed only before a worker
/// reaches it.
#[derive(Debug)]
pub(crate) struct WarmUp {
    start_ns: u64,
    asked_ns: u64,
    most_ns: u64,
    /// Start of the sustained phase. The bit [`REACHED`] is set once a worker has entered this phase.
    sustain_ns: AtomicU64,
    /// The latencies that each worker recorded, by the worker's index.
    meters: Vec<Arc<Meter>>,
}

/// One worker's latencies during the warm-up. Only this worker writes them.
#[derive(Debug)]
pub(crate) struct Meter {
    start_ns: u64,
    slot_ns: u64,
    slots: Box<[Slot]>,
}

#[derive(Debug, Default)]
struct Slot {
    count: AtomicU64,
    sum_ns: AtomicU64,
}

impl WarmUp {
    /// A warm-up that starts at `start_ns` and lasts at least `asked_ns` and at most `most_ns`. `None` if the maximum
    /// allows no extension, or if `asked_ns` is below 100 ns.
    pub(crate) fn new(start_ns: u64, asked_ns: u64, most_ns: u64, workers: u32) -> Option<Arc<Self>> {
        let slot_ns = asked_ns / SLOTS;
        if slot_ns == 0 || most_ns <= asked_ns {
            return None;
        }
        let meter = || {
            let slots = (0..most_ns.div_ceil(slot_ns)).map(|_| Slot::default()).collect();
            Arc::new(Meter { start_ns, slot_ns, slots })
        };
        let meters = (0..workers).map(|_| meter()).collect();
        let sustain_ns = AtomicU64::new(start_ns + asked_ns);
        Some(Arc::new(Self { start_ns, asked_ns, most_ns, sustain_ns, meters }))
    }

    /// Where `worker` records its latencies.
    pub(crate) fn meter(&self, worker: u32) -> Arc<Meter> {
        Arc::clone(&self.meters[worker as usize])
    }

    /// Whether latencies have settled, judged by the time slots that ended before `now_ns`.
    pub(crate) fn has_settled(&self, now_ns: u64) -> bool {
        let Some(first) = self.meters.first() else { return true };
        let ended =
            (now_ns.saturating_sub(self.start_ns) / first.slot_ns).min(first.slots.len() as u64) as usize;
        let observations: Vec<f64> = (0..ended).filter_map(|slot| self.mean_ns(slot)).collect();
        has_settled(&observations)
    }

    /// Mean latency in a time slot over all workers; `None` without responses.
    fn mean_ns(&self, slot: usize) -> Option<f64> {
        let of = |read: fn(&Slot) -> &AtomicU64| -> u64 {
            self.meters.iter().map(|meter| read(&meter.slots[slot]).load(Ordering::Relaxed)).sum()
        };
        let count = of(|slot| &slot.count);
        (count > 0).then(|| of(|slot| &slot.sum_ns) as f64 / count as f64)
    }

    /// Returns the start of the sustained phase after one more extension, which is half of the configured warm-up.
    /// Returns `None` if the warm-up already has its maximum length.
    pub(crate) fn later_ns(&self, sustain_ns: u64) -> Option<u64> {
        let later_ns = (sustain_ns + self.asked_ns / 2).min(self.start_ns + self.most_ns);
        (later_ns > sustain_ns).then_some(later_ns)
    }

    /// Postpones the start of the sustained phase from `sustain_ns` to `later_ns`. Returns false if a worker has
    /// already entered the sustained phase.
    pub(crate) fn put_off(&self, sustain_ns: u64, later_ns: u64) -> bool {
        self.sustain_ns.compare_exchange(sustain_ns, later_ns, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Called when a worker reaches `sustain_ns`, the planned start of its sustained phase. Makes this start final. If
    /// the coordinator has postponed it, returns the new start instead.
    pub(crate) fn reach(&self, sustain_ns: u64) -> Result<(), u64> {
        let reached = self.sustain_ns.compare_exchange(
            sustain_ns,
            sustain_ns | REACHED,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match reached {
            Ok(_) => Ok(()),
            Err(other) if other == sustain_ns | REACHED => Ok(()),
            Err(other) => Err(other & !REACHED),
        }
    }
}

impl Meter {
    /// Records the latency of a response that arrived at `came_ns`.
    #[inline]
    pub(crate) fn answered(&self, came_ns: u64, latency_ns: u64) {
        let slot = came_ns.saturating_sub(self.start_ns) / self.slot_ns;
        let Some(slot) = self.slots.get(slot as usize) else { return };
        // Only one thread writes, so loads and stores without a lock are enough.
        slot.count.store(slot.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        slot.sum_ns.store(slot.sum_ns.load(Ordering::Relaxed).saturating_add(latency_ns), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn warm_up() -> Arc<WarmUp> {
        WarmUp::new(1_000 * MS, 100 * MS, 230 * MS, 2).unwrap()
    }

    #[test]
    fn a_warm_up_is_extended_by_halves_up_to_its_maximum() {
        let warm_up = warm_up();
        assert_eq!(warm_up.later_ns(1_100 * MS), Some(1_150 * MS));
        assert_eq!(warm_up.later_ns(1_200 * MS), Some(1_230 * MS));
        assert_eq!(warm_up.later_ns(1_230 * MS), None);
        assert!(WarmUp::new(0, 100 * MS, 100 * MS, 1).is_none());
        assert!(WarmUp::new(0, 0, 100 * MS, 1).is_none());
    }

    #[test]
    fn the_first_worker_fixes_the_start_for_all() {
        let warm_up = warm_up();
        assert!(warm_up.put_off(1_100 * MS, 1_150 * MS));
        assert_eq!(warm_up.reach(1_100 * MS), Err(1_150 * MS), "it has not heard yet");
        assert_eq!(warm_up.reach(1_150 * MS), Ok(()));
        assert!(!warm_up.put_off(1_150 * MS, 1_200 * MS));
        assert_eq!(warm_up.reach(1_150 * MS), Ok(()), "the second worker");
        assert_eq!(warm_up.reach(1_100 * MS), Err(1_150 * MS), "a worker that had no CPU for a while");
    }

    #[test]
    fn latencies_of_all_workers_form_one_series() {
        let warm_up = warm_up();
        let meters = [warm_up.meter(0), warm_up.meter(1)];
        meters[0].answered(1_000 * MS, 10);
        meters[1].answered(1_000 * MS + MS / 2, 20);
        meters[1].answered(1_002 * MS, 5);
        meters[0].answered(5_000 * MS, 5);
        assert_eq!([0, 1, 2].map(|slot| warm_up.mean_ns(slot)), [Some(15.0), None, Some(5.0)]);
    }

    #[test]
    fn slots_that_have_not_ended_are_ignored() {
        let warm_up = warm_up();
        let meter = warm_up.meter(0);
        for slot in 0..100 {
            // Latencies grow during the whole warm-up.
            meter.answered(1_000 * MS + slot * MS, 1_000 + slot * 100);
        }
        assert!(!warm_up.has_settled(1_090 * MS));
        assert!(warm_up.has_settled(1_030 * MS), "six batches say nothing");
    }
}
