//! Memory that was freed by the program, but that the allocator still holds.
#![allow(unsafe_code)]

/// Returns freed memory to the operating system, if the allocator supports this. The call holds the locks of the
/// allocator for up to a few milliseconds, so do not call it per request.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` has no preconditions. It takes the allocator's locks and changes no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns how many bytes are allocated now; `None` if the allocator does not report this. The call locks each arena
/// while it counts the free pieces in it, so do not call it per request.
pub fn allocated_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: `mallinfo2` has no preconditions. It takes the allocator's locks and only reads.
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
    fn memory_of_other_threads_counts_until_it_is_freed() {
        const PIECES: usize = 1_000;
        const PIECE_BYTES: usize = 32 << 10;
        let before = allocated_bytes().unwrap();
        // The pieces are too small for glibc to map them separately, so they are in the arena of the spawned thread.
        let pieces: Vec<Vec<u8>> =
            std::thread::spawn(|| (0..PIECES).map(|_| Vec::with_capacity(PIECE_BYTES)).collect())
                .join()
                .unwrap();
        let held = allocated_bytes().unwrap();
        drop(pieces);
        let after = allocated_bytes().unwrap();
        // Other tests of this process allocate little in the meantime.
        let most = (PIECES * PIECE_BYTES) as u64;
        assert!(held > before + most / 2 && after < held - most / 2, "{before} {held} {after}");
    }
}
