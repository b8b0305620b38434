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
