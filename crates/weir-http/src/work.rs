//! Counts how much work the parsing of headers takes, so that tests can compare it with the size of the headers.
//!
//! Work is counted only in builds with debug assertions. One unit is a field that a search compares, an element of a
//! list, or a byte of such an element.

#[cfg(debug_assertions)]
thread_local! {
    static DONE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds `units` to this thread's counter.
#[inline]
pub fn count(units: usize) {
    #[cfg(debug_assertions)]
    DONE.with(|done| done.set(done.get() + units as u64));
    #[cfg(not(debug_assertions))]
    let _ = units;
}

/// Runs `run`, and returns its result and the units of work that it did on this thread. In builds without debug
/// assertions, the number is 0.
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
