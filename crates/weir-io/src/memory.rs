//! Memory that the allocator holds and nobody uses.
#![allow(unsafe_code)]

/// Gives memory that was freed back to the system, as far as the allocator can. It takes the allocator's locks for up
/// to some milliseconds, so it is nothing for each request.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it has no requirement; it takes the locks of the allocator, and touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes that are allocated now; `None` where the allocator does not say. It counts the free pieces of each arena under
/// the arena's lock, so it is nothing for each request either.
pub fn allocated_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it has no requirement; it takes the locks of the allocator, and only reads.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn what_other_threads_allocate_counts_until_it_is_freed() {
        const PIECES: usize = 1_000;
        const PIECE_BYTES: usize = 32 << 10;
        let before = allocated_bytes().unwrap();
        // Pieces that are too small for a mapping of their own, in the arena of another thread.
        let pieces: Vec<Vec<u8>> =
            std::thread::spawn(|| (0..PIECES).map(|_| Vec::with_capacity(PIECE_BYTES)).collect())
                .join()
                .unwrap();
        let held = allocated_bytes().unwrap();
        drop(pieces);
        let after = allocated_bytes().unwrap();
        // Other tests of this process allocate meanwhile, and little.
        let most = (PIECES * PIECE_BYTES) as u64;
        assert!(held > before + most / 2 && after < held - most / 2, "{before} {held} {after}");
    }
}
