//! Tracks which versions of a changing resource an observer can see during an action.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The versions of a resource that only one thread changes. The first version is 0.
#[derive(Default)]
pub(crate) struct Versions {
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl Versions {
    /// Makes the next version active.
    pub(crate) fn change(&self, bring: impl FnOnce(usize)) {
        let next = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        bring(next);
        self.done.store(next, Ordering::SeqCst);
    }

    /// The result of `action`, and the versions that were active at some time during it.
    pub(crate) fn during<T>(&self, action: impl FnOnce() -> T) -> (T, RangeInclusive<usize>) {
        let first = self.done.load(Ordering::SeqCst);
        let outcome = action();
        (outcome, first..=self.begun.load(Ordering::SeqCst))
    }
}
