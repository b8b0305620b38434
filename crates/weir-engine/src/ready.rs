//! Which connections have something to do: a bit each, set by their wakers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The set of connections that were woken. One task serves them all, so that it can read, decide and write in
/// one go; a task per connection would need shared state for the same.
#[derive(Debug)]
pub(crate) struct ReadySet {
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct Shared {
    words: Box<[AtomicU64]>,
    /// Whether the task was woken since it last looked: only the first wake-up of many reaches it.
    is_woken: AtomicBool,
    task: Mutex<Waker>,
}

#[derive(Debug)]
struct ConnectionWaker {
    shared: Arc<Shared>,
    slot: usize,
}

impl ReadySet {
    /// A set for `slots` connections, all of them ready.
    pub(crate) fn new(slots: usize) -> Self {
        let words = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let task = Mutex::new(Waker::noop().clone());
        let shared = Arc::new(Shared { words, is_woken: AtomicBool::new(false), task });
        let wakers = (0..slots)
            .map(|slot| Waker::from(Arc::new(ConnectionWaker { shared: Arc::clone(&shared), slot })))
            .collect();
        let set = Self { shared, wakers };
        (0..slots).for_each(|slot| set.insert(slot));
        set
    }

    /// Connections are set by this waker from now on wake `task`; they are looked at now.
    pub(crate) fn attend(&self, task: &Waker) {
        self.shared.is_woken.store(false, Ordering::Release);
        let mut current = self.shared.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.will_wake(task) {
            current.clone_from(task);
        }
    }

    /// The waker that puts `slot` into the set.
    #[inline]
    pub(crate) fn waker(&self, slot: usize) -> &Waker {
        &self.wakers[slot]
    }

    /// Puts `slot` into the set without waking anybody.
    pub(crate) fn insert(&self, slot: usize) {
        self.shared.insert(slot);
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.words.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Number of words to take with [`ReadySet::take`].
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.shared.words.len()
    }

    /// Takes the ready connections of one word out of the set.
    #[inline]
    pub(crate) fn take(&self, word: usize) -> ReadySlots {
        let cell = &self.shared.words[word];
        // An untouched word costs a load; a swap would take the cache line for writing.
        let bits = if cell.load(Ordering::Acquire) == 0 { 0 } else { cell.swap(0, Ordering::AcqRel) };
        ReadySlots { base: word * 64, bits }
    }
}

/// Connections taken out of a [`ReadySet`].
#[derive(Debug)]
pub(crate) struct ReadySlots {
    base: usize,
    bits: u64,
}

impl Iterator for ReadySlots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.bits == 0 {
            return None;
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(self.base + bit)
    }
}

impl Shared {
    #[inline]
    fn insert(&self, slot: usize) {
        self.words[slot / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.insert(self.slot);
        if !self.shared.is_woken.swap(true, Ordering::AcqRel) {
            self.shared.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn taken(set: &ReadySet) -> Vec<usize> {
        (0..set.words()).flat_map(|word| set.take(word)).collect()
    }

    #[test]
    fn many_wake_ups_reach_the_task_once_and_each_connection_stands_in_the_set_once() {
        let set = ReadySet::new(200);
        assert_eq!(taken(&set).len(), 200);
        let task = Arc::new(Counting::default());
        set.attend(&Waker::from(Arc::clone(&task)));
        for slot in [3, 63, 64, 199, 3] {
            set.waker(slot).wake_by_ref();
        }
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert_eq!(taken(&set), [3, 63, 64, 199]);
        assert!(set.is_empty());
        set.attend(&Waker::from(Arc::clone(&task)));
        set.waker(0).wake_by_ref();
        assert_eq!(task.0.load(Ordering::Relaxed), 2);
        assert!(!set.is_empty());
    }
}
