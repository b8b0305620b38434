//! Returns unused memory to the system.
//!
//! The allocator keeps memory of closed connections in the arena of their worker. A small live block at the end of an
//! arena keeps the whole arena resident: after a flood of 5,000 clients, 160 MiB stayed resident. Returning memory
//! locks all arenas for some milliseconds, and each returned page costs a page fault when it is used again. So memory
//! is returned only if several samples in a row find much free memory (docs/decisions/0022-memory-after-a-flood.md).

use std::time::{Duration, Instant};

use weir_io::{allocated_bytes, trim_memory};

use crate::memory::MemoryFiles;

/// The time between two samples of unused memory.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Memory is returned after this many samples in a row with enough free memory.
const LOOKS: usize = 3;

/// Minimum amount of free memory to return. For less, the gain would not justify locking the allocator.
const WORTH_BYTES: u64 = 16 << 20;

/// Free memory as seen by earlier samples.
#[derive(Debug, Default)]
pub(crate) struct IdleMemory {
    looked: Option<Instant>,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    /// Resident anonymous memory at the first sample, or after memory was last returned to the system. Only memory
    /// above this amount can be returned.
    base_bytes: Option<u64>,
    /// Free memory that could not be given back to the system last time, because its pages are partly used.
    stays_bytes: u64,
    /// Samples in a row that found at least [`WORTH_BYTES`] more free memory than `stays_bytes`.
    in_a_row: usize,
}

impl IdleMemory {
    /// Takes a sample if one is due. Gives memory back to the system if several samples found it free.
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
        log::info!("returned {returned_bytes} bytes of free memory to the system in {took:?}");
    }
}

impl Seen {
    /// Records a sample of the resident anonymous memory. Returns true if at least [`LOOKS`] samples in a row,
    /// including this one, found enough memory that is resident but not allocated. Queries the allocator only if the
    /// resident memory is at least [`WORTH_BYTES`] above `base_bytes`.
    fn is_idle(&mut self, anonymous_bytes: u64, allocated_bytes: impl FnOnce() -> Option<u64>) -> bool {
        let base_bytes = *self.base_bytes.get_or_insert(anonymous_bytes);
        let free_bytes = match anonymous_bytes >= base_bytes + WORTH_BYTES {
            true => allocated_bytes().map_or(0, |allocated| anonymous_bytes.saturating_sub(allocated)),
            false => 0,
        };
        self.in_a_row = if free_bytes >= self.stays_bytes + WORTH_BYTES { self.in_a_row + 1 } else { 0 };
        self.in_a_row >= LOOKS
    }

    /// Records the state after memory was returned.
    fn returned(&mut self, anonymous_bytes: u64, allocated_bytes: Option<u64>) {
        let stays_bytes = allocated_bytes.map_or(0, |allocated| anonymous_bytes.saturating_sub(allocated));
        *self = Seen { base_bytes: Some(anonymous_bytes), stays_bytes, in_a_row: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Feeds samples to `seen`: anonymous and allocated memory in MiB, and whether idle memory is expected.
    fn check(seen: &mut Seen, looks: &[(u64, u64, bool)]) {
        for (index, &(anonymous, allocated, expected)) in looks.iter().enumerate() {
            let is_idle = seen.is_idle(anonymous * MIB, || Some(allocated * MIB));
            assert_eq!(is_idle, expected, "look {index}: {anonymous} {allocated}");
        }
    }

    #[test]
    fn memory_of_a_flood_is_returned_once() {
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
    fn memory_that_is_used_again_stays() {
        let mut seen = Seen::default();
        check(&mut seen, &[(10, 8, false)]);
        let load = [(170, 20, false), (170, 20, false), (170, 160, false)];
        for _ in 0..5 {
            check(&mut seen, &load);
        }
    }

    #[test]
    fn a_return_without_effect_is_not_repeated() {
        let mut seen = Seen::default();
        check(&mut seen, &[(10, 8, false), (170, 12, false), (170, 12, false), (170, 12, true)]);
        // Partly used pages could not be returned, so 100 MiB stay resident.
        seen.returned(100 * MIB, Some(12 * MIB));
        check(&mut seen, &[(100, 12, false); 5]);
        check(&mut seen, &[(117, 17, false); 5]);
        check(&mut seen, &[(117, 12, false), (117, 12, false), (117, 12, true)]);
    }

    #[test]
    fn nothing_is_returned_without_allocator_statistics() {
        let mut seen = Seen::default();
        assert!(![10, 170, 170, 170, 170].iter().any(|&bytes| seen.is_idle(bytes * MIB, || None)));
    }

    #[test]
    fn the_allocator_is_queried_only_after_growth() {
        let mut seen = Seen::default();
        for _ in 0..5 {
            assert!(!seen.is_idle(20 * MIB, || panic!("nothing has grown")));
        }
    }
}
