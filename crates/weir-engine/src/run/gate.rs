//! A start time that is decided once the load is prepared.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// Decides the start of a prepared load: its connections are open, and its requests are rendered.
pub trait Gate {
    /// Waits for the start: a time of this machine's `CLOCK_MONOTONIC`, in nanoseconds. `None` starts as soon as
    /// possible; it is also the result if `stop` is set meanwhile.
    fn wait(&self, stop: &AtomicBool) -> Option<u64>;
}

/// Starts as soon as possible.
impl Gate for () {
    fn wait(&self, _: &AtomicBool) -> Option<u64> {
        None
    }
}

/// The start of a load. The gate is called only once; later steps follow from its result.
pub(super) struct Start<'a> {
    gate: &'a dyn Gate,
    planned_ns: Cell<Option<u64>>,
    is_asked: Cell<bool>,
}

impl<'a> Start<'a> {
    pub(super) fn new(gate: &'a dyn Gate, planned_ns: Option<u64>) -> Self {
        Self { gate, planned_ns: Cell::new(planned_ns), is_asked: Cell::new(planned_ns.is_some()) }
    }

    /// The planned start of the load, if known.
    pub(super) fn planned_ns(&self) -> Option<u64> {
        self.planned_ns.get()
    }

    /// The planned start; waits for the gate if it was not called yet.
    pub(super) fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        if !self.is_asked.replace(true) {
            self.planned_ns.set(self.gate.wait(stop));
        }
        self.planned_ns.get()
    }
}
