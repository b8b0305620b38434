//! Due times of requests: schedules, closed loops, pauses.

mod pace;
pub(crate) mod pauses;
pub(crate) mod schedule;
pub(crate) mod source;
pub(crate) mod think;

pub(crate) use pace::Pace;
