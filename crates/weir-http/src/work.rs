//! Counts the work that reading a head takes, so that tests can compare it with the bytes of the head.
//!
//! The counter exists in builds with debug assertions only; release builds count nothing. One unit is a field that a
//! search looks at, or an element of a list or a byte of it.

#[cfg(debug_assertions)]
thread_local! {
    static DONE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds `units` to the counter of this thread.
#[inline]
pub fn count(units: usize) {
    #[cfg(debug_assertions)]
    DONE.with(|done| done.set(done.get() + units as u64));
    #[cfg(not(debug_assertions))]
    let _ = units;
}

/// The units that `run` takes on this thread; 0 in builds without debug assertions.
pub fn of<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let before = done();
    let result = run();
    (result, done() - before)
}

fn done() -> u64 {
    #[cfg(debug_assertions)]
    return DONE.with(std::cell::Cell::get);
    #[cfg(not(debug_assertions))]
    0
}
