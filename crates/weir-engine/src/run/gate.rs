//! Lets a caller decide when a prepared load starts.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// Decides when a prepared load starts. Prepared means that its connections are open, and its requests are rendered.
pub trait Gate {
    /// Waits until the start time is decided. Returns it in nanoseconds of this machine's `CLOCK_MONOTONIC`. `None`
    /// starts the load as soon as possible. Implementations return `None` when `stop` is set.
    fn wait(&self, stop: &AtomicBool) -> Option<u64>;
}

/// Starts the load as soon as possible.
impl Gate for () {
    fn wait(&self, _: &AtomicBool) -> Option<u64> {
        None
    }
}

/// The start time of a load: planned, or decided by the gate. The gate is called at most once; the starts of later
/// steps follow from this start.
pub(super) struct Start<'a> {
    gate: &'a dyn Gate,
    planned_ns: Cell<Option<u64>>,
    is_asked: Cell<bool>,
}

impl<'a> Start<'a> {
    pub(super) fn new(gate: &'a dyn Gate, planned_ns: Option<u64>) -> Self {
        Self { gate, planned_ns: Cell::new(planned_ns), is_asked: Cell::new(planned_ns.is_some()) }
    }

    /// The planned start of the load; `None` if none is known so far.
    pub(super) fn planned_ns(&self) -> Option<u64> {
        self.planned_ns.get()
    }

    /// Returns the planned start. If no start is planned, the first call waits for the gate.
    pub(super) fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        if !self.is_asked.replace(true) {
            self.planned_ns.set(self.gate.wait(stop));
        }
        self.planned_ns.get()
    }
}
