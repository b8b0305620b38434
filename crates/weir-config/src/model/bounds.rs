//! Limits that apply to several sections of a configuration.

use std::time::Duration;

use weir_document::{Problem, Time};

/// The largest weight, as in Gateway API.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;
/// The longest timeout, 30 days.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Rejects a timeout of zero or more than [`TIMEOUT_MAX`]. `place` is the path of its field, and `remedy` is the advice
/// in the error.
pub(crate) fn check_time(place: &str, time: Time, remedy: &str) -> Result<(), Problem> {
    if time.0.is_zero() || time.0 > TIMEOUT_MAX {
        let message = format!("{time} is out of range; allowed: 1ns to 30 days");
        return Err(Problem::of(place, message).help(remedy));
    }
    Ok(())
}
