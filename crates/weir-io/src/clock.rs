//! The clock that all measurements use.

use rustix::time::{ClockId, clock_gettime};

/// Returns `CLOCK_MONOTONIC` in nanoseconds. All processes of the host see the same value.
#[inline]
pub fn mono_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The monotonic clock starts at boot, so neither field is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_steps_back() {
        let mut before = mono_ns();
        for _ in 0..1_000 {
            let now = mono_ns();
            assert!(now >= before);
            before = now;
        }
    }
}
