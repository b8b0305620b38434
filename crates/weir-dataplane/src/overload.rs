//! Overload protection: rejects new requests, so that those in progress can complete.
//!
//! A separate thread samples memory once a second, and all workers reject requests if it is short. Each worker also
//! measures the lag of its own event loop, and rejects requests if that lag is high, whatever the lag of other workers.
//! A request checks one value of its worker, which the worker sets at each tick.
//!
//! ```text
//!         memory: 1 reading, lag: 5 ticks in a row above the limit
//!  normal <------------------------------------------------------> overloaded
//!         memory: 3 readings below 95 %, lag: 10 ticks below half of its limit
//! ```

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_config::{MemoryBound, Overload, Table};
use weir_io::trim_memory;

use crate::counters::{Counter, UpstreamCounters};
use crate::exposition::Exposition;
use crate::follower::Follower;
use crate::idle_memory::{IdleMemory, LOOK_EVERY};
use crate::memory::{Memory, MemoryFiles};
use crate::program_log::seldom;
use crate::worker::Shared;

/// How often memory is sampled.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How many readings in a row start an overload, and how many end it.
#[derive(Clone, Copy, Debug)]
struct Patience {
    begin: u32,
    end: u32,
}

const OF_MEMORY: Patience = Patience { begin: 1, end: 3 };
const OF_LAG: Patience = Patience { begin: 5, end: 10 };

/// Why requests are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strain {
    Memory,
    Lag,
}

/// The overload state that all workers share. It is written after a change, and once a second.
#[derive(Debug, Default)]
pub(crate) struct OverloadState {
    is_short_of_memory: AtomicBool,
    /// The number of workers that lag.
    late_workers: AtomicUsize,
    memory_used_bytes: AtomicU64,
    memory_limit_bytes: AtomicU64,
}

/// The overload state of one worker.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    strain: Cell<Option<Strain>>,
    lag: RefCell<Gate>,
}

/// The thread that samples memory. It ends with the gateway.
#[derive(Debug, Default)]
pub(crate) struct MemoryWatch(Follower);

/// The current overload state, and the numbers of rejected requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverloadStats {
    /// Whether memory use is above its limit.
    pub memory: bool,
    /// The number of workers that lag.
    pub late_workers: u64,
    /// Memory in use in bytes, as compared with `overload.memory`; 0 without a limit.
    pub memory_used_bytes: u64,
    /// The limit in bytes that results from `overload.memory`; 0 without a limit.
    pub memory_limit_bytes: u64,
    /// Requests rejected because of memory use.
    pub shed_by_memory: u64,
    /// Requests rejected because their worker lagged.
    pub shed_by_lag: u64,
}

impl MemoryWatch {
    /// Starts the memory thread. The thread returns unused memory to the system, and compares memory use with the limit
    /// of the active configuration.
    ///
    /// # Errors
    /// If the thread can't start.
    pub(crate) fn prepare(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let shared = Arc::clone(shared);
        self.0.start("weir-memory", move |looks| keep(looks, shared))
    }

    /// Makes the memory thread use the active configuration at once.
    pub(crate) fn look(&self) {
        self.0.look();
    }
}

fn memory_bound(table: &Table) -> Option<MemoryBound> {
    table.overload.as_ref().and_then(|overload| overload.memory)
}

async fn keep(mut looks: UnboundedReceiver<()>, shared: Arc<Shared>) {
    let files = MemoryFiles::default();
    let (mut gate, mut idle) = (Gate::default(), IdleMemory::default());
    loop {
        let bound = memory_bound(&shared.table.load());
        match bound {
            Some(bound) => shared.overload.take(files.read(bound), &mut gate),
            None => {
                gate = Gate::default();
                shared.overload.forget_memory();
            }
        }
        idle.look(&files);
        let pause = if bound.is_some() { READ_EVERY } else { LOOK_EVERY };
        if let Ok(None) = tokio::time::timeout(pause, looks.recv()).await {
            return;
        }
    }
}

impl OverloadState {
    /// Records a reading of memory use. `None` if the reading has failed.
    fn take(&self, reading: Option<Memory>, gate: &mut Gate) {
        let Some(Memory { used_bytes, limit_bytes }) = reading else {
            seldom!(
                log::Level::Warn,
                "`overload.memory` has no effect: cannot read the memory use from /proc or the cgroup"
            );
            return;
        };
        self.memory_used_bytes.store(used_bytes, Ordering::Relaxed);
        self.memory_limit_bytes.store(limit_bytes, Ordering::Relaxed);
        let has_changed = gate.see(used_bytes > limit_bytes, used_bytes < limit_bytes / 20 * 19, OF_MEMORY);
        if gate.is_on {
            // Return freed memory to the system. The allocator may otherwise keep it, and the overload might never end.
            trim_memory();
        }
        if has_changed {
            self.is_short_of_memory.store(gate.is_on, Ordering::Relaxed);
            match gate.is_on {
                true => log::warn!(
                    "overloaded: memory use is {used_bytes} bytes, `overload.memory` allows {limit_bytes}; new requests \
                     get 503"
                ),
                false => log::warn!("no longer overloaded: memory use is {used_bytes} bytes"),
            }
        }
    }

    fn forget_memory(&self) {
        self.is_short_of_memory.store(false, Ordering::Relaxed);
        self.memory_used_bytes.store(0, Ordering::Relaxed);
        self.memory_limit_bytes.store(0, Ordering::Relaxed);
    }

    /// Names of the fields of `overload` whose limits are exceeded.
    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        let memory = self.is_short_of_memory.load(Ordering::Relaxed);
        let lag = self.late_workers.load(Ordering::Relaxed) > 0;
        [(memory, "memory"), (lag, "lag")]
            .into_iter()
            .filter_map(|(is, reason)| is.then_some(reason))
            .collect()
    }

    pub(crate) fn stats<'c>(&self, workers: impl Iterator<Item = &'c UpstreamCounters>) -> OverloadStats {
        let mut stats = OverloadStats {
            memory: self.is_short_of_memory.load(Ordering::Relaxed),
            late_workers: self.late_workers.load(Ordering::Relaxed) as u64,
            memory_used_bytes: self.memory_used_bytes.load(Ordering::Relaxed),
            memory_limit_bytes: self.memory_limit_bytes.load(Ordering::Relaxed),
            ..OverloadStats::default()
        };
        for worker in workers {
            stats.shed_by_memory += worker.shed_by_memory.value();
            stats.shed_by_lag += worker.shed_by_lag.value();
        }
        stats
    }
}

impl Pressure {
    /// Whether new requests are rejected.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.strain.get().is_some()
    }

    /// Whether the worker lags.
    pub(crate) fn is_late(&self) -> bool {
        self.lag.borrow().is_on
    }

    /// Updates the state at a tick of the worker's clock that is `late_ns` late.
    pub(crate) fn look(
        &self,
        limits: Option<&Overload>,
        late_ns: u64,
        shared: &OverloadState,
        worker: usize,
    ) {
        let Some(limits) = limits else {
            self.end(shared);
            return;
        };
        let mut lag = self.lag.borrow_mut();
        let limit_ns =
            limits.lag.map_or(u64::MAX, |limit| u64::try_from(limit.0.as_nanos()).unwrap_or(u64::MAX));
        if lag.see(late_ns > limit_ns, late_ns <= limit_ns / 2, OF_LAG) {
            match lag.is_on {
                true => {
                    shared.late_workers.fetch_add(1, Ordering::Relaxed);
                    let late = Duration::from_nanos(late_ns);
                    seldom!(
                        log::Level::Warn,
                        "overloaded: worker {worker} lags by {late:?} (`overload.lag`); its new requests get 503"
                    );
                }
                false => {
                    shared.late_workers.fetch_sub(1, Ordering::Relaxed);
                    seldom!(log::Level::Warn, "no longer overloaded: worker {worker} keeps up");
                }
            }
        }
        let is_short_of_memory = shared.is_short_of_memory.load(Ordering::Relaxed);
        self.strain.set(match (is_short_of_memory, lag.is_on) {
            (true, _) => Some(Strain::Memory),
            (false, true) => Some(Strain::Lag),
            (false, false) => None,
        });
    }

    /// Ends the worker's overload. The worker then rejects no more requests.
    pub(crate) fn end(&self, shared: &OverloadState) {
        if self.lag.take().is_on {
            shared.late_workers.fetch_sub(1, Ordering::Relaxed);
        }
        self.strain.set(None);
    }

    /// Counts a rejected request.
    pub(crate) fn count(&self, counters: &UpstreamCounters) {
        let counter: Option<&Counter> = self.strain.get().map(|strain| match strain {
            Strain::Memory => &counters.shed_by_memory,
            Strain::Lag => &counters.shed_by_lag,
        });
        if let Some(counter) = counter {
            counter.add(1);
        }
    }
}

/// A state that starts and ends only after several readings in a row.
#[derive(Debug, Default)]
struct Gate {
    is_on: bool,
    /// Number of consecutive readings that contradict the state.
    against: u32,
}

impl Gate {
    /// Records whether a reading is above the start limit or below the end limit. Returns whether the state changes.
    fn see(&mut self, is_high: bool, is_low: bool, patience: Patience) -> bool {
        let (is_against, enough) =
            if self.is_on { (is_low, patience.end) } else { (is_high, patience.begin) };
        self.against = if is_against { self.against + 1 } else { 0 };
        let changes = self.against >= enough;
        if changes {
            *self = Gate { is_on: !self.is_on, against: 0 };
        }
        changes
    }
}

impl OverloadStats {
    pub(crate) fn append(&self, text: &mut Exposition) {
        let help = "1 while new requests are rejected for the reason in the label, else 0.";
        text.family("weir_overloaded", "gauge", help);
        for (reason, is_on) in [("memory", self.memory), ("lag", self.late_workers > 0)] {
            text.sample("weir_overloaded", &[("reason", reason)], u8::from(is_on));
        }
        let help = "Requests rejected because of overload, by reason; weir_errors_total also counts them as overloaded.";
        text.family("weir_requests_shed_total", "counter", help);
        for (reason, count) in [("memory", self.shed_by_memory), ("lag", self.shed_by_lag)] {
            text.sample("weir_requests_shed_total", &[("reason", reason)], count);
        }
        let help = "Memory use in bytes that the gateway compares with overload.memory; 0 without a limit.";
        text.family("weir_overload_memory_used_bytes", "gauge", help);
        text.sample("weir_overload_memory_used_bytes", &[], self.memory_used_bytes);
        text.family(
            "weir_overload_memory_limit_bytes",
            "gauge",
            "Memory limit from overload.memory, in \
            bytes; 0 without a limit.",
        );
        text.sample("weir_overload_memory_limit_bytes", &[], self.memory_limit_bytes);
    }
}

#[cfg(test)]
mod tests {
    use weir_document::Time;

    use super::*;

    #[test]
    fn memory_overload_starts_at_once_and_ends_after_a_while() {
        let (state, mut gate) = (OverloadState::default(), Gate::default());
        let mut after = |used_bytes: u64| {
            state.take(Some(Memory { used_bytes, limit_bytes: 1000 }), &mut gate);
            state.reasons()
        };
        let short = vec!["memory"];
        assert!(after(1000).is_empty(), "the limit may be reached");
        assert_eq!(after(1001), short);
        for used_bytes in [999, 950, 949, 949, 950, 949, 949] {
            assert_eq!(after(used_bytes), short, "{used_bytes}");
        }
        assert!(after(949).is_empty());
        assert!(after(999).is_empty(), "a value below the limit does not start an overload");
        assert_eq!(after(2000), short);
        state.take(None, &mut gate);
        assert_eq!(state.reasons(), short, "an unknown reading changes nothing");
        assert_eq!(state.stats(std::iter::empty()).memory_used_bytes, 2000);
        state.forget_memory();
        assert_eq!(state.stats(std::iter::empty()), OverloadStats::default());
    }

    #[test]
    fn a_worker_lags_only_after_several_late_ticks() {
        let (shared, worker) = (OverloadState::default(), Pressure::default());
        let limits = Overload { lag: Some(Time(Duration::from_nanos(100))), memory: None };
        let after = |late_ns: &[u64]| {
            late_ns.iter().for_each(|late_ns| worker.look(Some(&limits), *late_ns, &shared, 0));
            (worker.strain.get(), shared.reasons())
        };
        let (well, late) = ((None, vec![]), (Some(Strain::Lag), vec!["lag"]));
        assert_eq!(
            after(&[101, 500, 101, 101, 100, 101, 101, 101, 101]),
            well,
            "four late ticks in a row are not enough"
        );
        assert_eq!(after(&[101]), late);
        assert_eq!(after(&[50, 0, 0, 0, 0, 0, 0, 0, 0, 51, 0, 0, 0, 0, 0, 0, 0, 0, 0]), late);
        assert_eq!(after(&[0]), well);
        assert_eq!(after(&[101; 5]), late);
        worker.end(&shared);
        assert_eq!((worker.strain.get(), shared.reasons()), well);
        assert_eq!(after(&[101; 5]), late);
        worker.look(None, 101, &shared, 0);
        assert_eq!((worker.strain.get(), shared.reasons()), well, "a configuration without a limit ends it");
    }

    #[test]
    fn rejected_requests_are_counted_by_reason() {
        let (shared, worker, counters) =
            (OverloadState::default(), Pressure::default(), UpstreamCounters::default());
        let limits = Overload { lag: Some(Time(Duration::from_nanos(100))), memory: None };
        let reject = |times: u32, late_ns: u64| {
            (0..times).for_each(|_| worker.look(Some(&limits), late_ns, &shared, 0));
            worker.count(&counters);
            let stats = shared.stats(std::iter::once(&counters));
            (worker.is_on(), stats.shed_by_memory, stats.shed_by_lag)
        };
        assert_eq!(reject(1, 0), (false, 0, 0));
        assert_eq!(reject(5, 101), (true, 0, 1));
        shared.is_short_of_memory.store(true, Ordering::Relaxed);
        assert_eq!(reject(1, 101), (true, 1, 1), "memory overload applies to all workers");
    }
}
