//! The set of HTTP/2 streams of a connection that must be polled. A waker adds its stream by setting a bit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

/// The streams of a connection that were woken and not polled since.
#[derive(Debug)]
pub(super) struct Woken {
    words: Arc<[AtomicU64]>,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct StreamWaker {
    words: Arc<[AtomicU64]>,
    at: usize,
}

/// Streams that [`Woken::take`] removed from the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    base: usize,
    bits: u64,
}

impl Woken {
    /// An empty set for this number of streams.
    pub(super) fn new(streams: usize) -> Arc<Self> {
        let words: Arc<[AtomicU64]> = (0..streams.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let wakers =
            (0..streams).map(|at| Waker::from(Arc::new(StreamWaker { words: Arc::clone(&words), at })));
        Arc::new(Self { wakers: wakers.collect(), words })
    }

    /// The waker that adds the stream with index `at` to the set.
    #[inline]
    pub(super) fn waker(&self, at: usize) -> &Waker {
        &self.wakers[at]
    }

    pub(super) fn insert(&self, at: usize) {
        insert(&self.words, at);
    }

    /// Number of 64-bit words that hold the set. [`Woken::take`] accepts an index below this number.
    #[inline]
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    /// Removes the streams of one word (64 streams) from the set and returns them.
    #[inline]
    pub(super) fn take(&self, word: usize) -> Bits {
        Bits { base: word * 64, bits: self.words[word].swap(0, Ordering::Relaxed) }
    }
}

impl Iterator for Bits {
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

/// Adds a stream to the set. Only one thread uses it; the words are atomic because wakers must be `Send`.
#[inline]
fn insert(words: &[AtomicU64], at: usize) {
    words[at / 64].fetch_or(1 << (at % 64), Ordering::Relaxed);
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        insert(&self.words, self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_is_in_the_set_once_and_take_removes_it() {
        let woken = Woken::new(130);
        for at in [129, 3, 64, 63, 3] {
            woken.waker(at).wake_by_ref();
        }
        woken.insert(0);
        let taken = || (0..woken.words()).flat_map(|word| woken.take(word)).collect::<Vec<_>>();
        assert_eq!(taken(), [0, 3, 63, 64, 129]);
        assert!(taken().is_empty());
    }
}
