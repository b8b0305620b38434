//! Returns memory to the system that has been free for a while.
//!
//! The allocator keeps what connections free in the arena of their worker, behind whatever small thing lies at its end:
//! after a flood of 5,000 clients 160 MiB stayed resident for ever. Returning it takes the locks of all arenas for some
//! milliseconds, and memory that is wanted again costs a page fault for each page. So it is returned only when much of it
//! was free at several looks in a row (docs/decisions/0022-memory-after-a-flood.md).

use std::time::{Duration, Instant};

use weir_io::{allocated_bytes, trim_memory};

use crate::memory::MemoryFiles;

/// Between two looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks in a row that find memory free before it is returned.
const LOOKS: usize = 3;

/// Less than this is not worth the locks.
const WORTH_BYTES: u64 = 16 << 20;

/// What is known of free memory from earlier looks.
#[derive(Debug, Default)]
pub(crate) struct IdleMemory {
    looked: Option<Instant>,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    /// Anonymous memory behind which nothing can be returned: that of the first look, or what the last return left.
    base_bytes: Option<u64>,
    /// Free memory that a return leaves, since pages that are in use in part stay.
    stays_bytes: u64,
    /// Looks in a row that found more free memory than that.
    in_a_row: usize,
}

impl IdleMemory {
    /// Looks, where it is time to, and returns what has been free for several looks.
    pub(crate) fn look(&mut self, files: &MemoryFiles) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let Some(anonymous_bytes) = files.anonymous_bytes() else { return };
        if !self.seen.is_idle(anonymous_bytes, allocated_bytes) {
            return;
        }
        let began = Instant::now();
        trim_memory();
        let took = began.elapsed();
        let left_bytes = files.anonymous_bytes().unwrap_or(anonymous_bytes);
        self.seen.returned(left_bytes, allocated_bytes());
        let returned_bytes = anonymous_bytes.saturating_sub(left_bytes);
        log::info!("returned {returned_bytes} bytes of free memory to the system, which took {took:?}");
    }
}

impl Seen {
    /// Takes in how much anonymous memory is resident; whether enough of it has been free for long enough. What is
    /// allocated is only asked for where there may be something to return.
    fn is_idle(&mut self, anonymous_bytes: u64, allocated_bytes: impl FnOnce() -> Option<u64>) -> bool {
        let base_bytes = *self.base_bytes.get_or_insert(anonymous_bytes);
        let free_bytes = match anonymous_bytes >= base_bytes + WORTH_BYTES {
            true => allocated_bytes().map_or(0, |allocated| anonymous_bytes.saturating_sub(allocated)),
            false => 0,
        };
        self.in_a_row = if free_bytes >= self.stays_bytes + WORTH_BYTES { self.in_a_row + 1 } else { 0 };
        self.in_a_row >= LOOKS
    }

    /// Free memory was returned, and this is left.
    fn returned(&mut self, anonymous_bytes: u64, allocated_bytes: Option<u64>) {
        let stays_bytes = allocated_bytes.map_or(0, |allocated| anonymous_bytes.saturating_sub(allocated));
        *self = Seen { base_bytes: Some(anonymous_bytes), stays_bytes, in_a_row: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Whether looks that find so much anonymous and allocated memory, in MiB, say that it is idle.
    fn check(seen: &mut Seen, looks: &[(u64, u64, bool)]) {
        for (index, &(anonymous, allocated, expected)) in looks.iter().enumerate() {
            let is_idle = seen.is_idle(anonymous * MIB, || Some(allocated * MIB));
            assert_eq!(is_idle, expected, "look {index}: {anonymous} {allocated}");
        }
    }

    #[test]
    fn a_flood_leaves_memory_that_is_returned_once() {
        let mut seen = Seen::default();
        check(
            &mut seen,
            &[(10, 8, false), (170, 165, false), (170, 12, false), (170, 12, false), (170, 12, true)],
        );
        seen.returned(14 * MIB, Some(12 * MIB));
        check(&mut seen, &[(14, 12, false), (20, 12, false), (20, 1, false), (20, 1, false), (20, 1, false)]);
        check(&mut seen, &[(200, 30, false), (200, 30, false), (200, 30, true)]);
    }

    #[test]
    fn memory_that_is_wanted_in_between_stays() {
        let mut seen = Seen::default();
        check(&mut seen, &[(10, 8, false)]);
        let load = [(170, 20, false), (170, 20, false), (170, 160, false)];
        for _ in 0..5 {
            check(&mut seen, &load);
        }
    }

    #[test]
    fn what_can_not_be_returned_is_not_tried_again() {
        let mut seen = Seen::default();
        check(&mut seen, &[(10, 8, false), (170, 12, false), (170, 12, false), (170, 12, true)]);
        // Pages that are in use in part stay.
        seen.returned(100 * MIB, Some(12 * MIB));
        check(&mut seen, &[(100, 12, false); 5]);
        check(&mut seen, &[(117, 17, false); 5]);
        check(&mut seen, &[(117, 12, false), (117, 12, false), (117, 12, true)]);
    }

    #[test]
    fn an_allocator_that_says_nothing_is_let_alone() {
        let mut seen = Seen::default();
        assert!(![10, 170, 170, 170, 170].iter().any(|&bytes| seen.is_idle(bytes * MIB, || None)));
    }

    #[test]
    fn what_is_allocated_is_not_asked_for_without_a_reason() {
        let mut seen = Seen::default();
        for _ in 0..5 {
            assert!(!seen.is_idle(20 * MIB, || panic!("nothing has grown")));
        }
    }
}
