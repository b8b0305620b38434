//! Which versions of something that changes may be met by who looks meanwhile.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The versions of one thing, from 0; one thread changes it.
#[derive(Default)]
pub(crate) struct Versions {
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Versions {
    /// Brings the next one into force.
    pub(crate) fn change(&self, bring: impl FnOnce(usize)) {
        let next = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        bring(next);
        self.done.store(next, Ordering::SeqCst);
    }

    /// What `action` gives, and the versions that were in force at some time of it.
    pub(crate) fn during<T>(&self, action: impl FnOnce() -> T) -> (T, RangeInclusive<usize>) {
        let first = self.done.load(Ordering::SeqCst);
        let outcome = action();
        (outcome, first..=self.begun.load(Ordering::SeqCst))
    }
}
