//! Wall time, the time axis of a load, run IDs, and times as whole nanoseconds.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_results::LoadRecord;

/// Letters of run ids: no vowels, so that they form no words, and no characters that look alike.
const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz23456789";

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time axis of one load. Series of a load begin at the start of its warm-up.
#[derive(Clone, Debug)]
pub(crate) struct LoadClock {
    /// Start of the warm-up by the monotonic clock, nanoseconds.
    pub(crate) start_ns: u64,
    sustained_ns: Range<u64>,
}

impl LoadClock {
    pub(crate) fn of(record: &LoadRecord) -> Self {
        let warmup_s = record.seconds.iter().find(|second| second.sustained).map_or(0.0, |second| second.t_s);
        let start_ns = record.phase_start_mono_ns.saturating_sub((warmup_s * 1e9) as u64);
        Self { start_ns, sustained_ns: record.phase_start_mono_ns..record.phase_end_mono_ns }
    }

    /// Seconds from the start of the warm-up to `at_ns` by the monotonic clock, and whether `at_ns` is in the
    /// sustained phase.
    pub(crate) fn moment(&self, at_ns: u64) -> (f64, bool) {
        ((at_ns as f64 - self.start_ns as f64) / 1e9, self.sustained_ns.contains(&at_ns))
    }
}

/// An ID for a run that starts at `unix_ms`: the time in UTC, so that IDs sort by time, and four random characters.
pub(crate) fn run_id(unix_ms: u64) -> String {
    let mut random = random();
    let letters: String = (0..4)
        .map(|_| {
            let letter = LETTERS[(random % LETTERS.len() as u64) as usize];
            random /= LETTERS.len() as u64;
            char::from(letter)
        })
        .collect();
    format!("{}-{letters}", stamp(unix_ms))
}

/// An id for a run that starts now.
pub fn new_run_id() -> String {
    run_id(unix_ms())
}

/// A new seed: small enough to type, and exact in every JSON reader.
pub(crate) fn new_seed() -> u64 {
    random() % 1_000_000_000
}

/// Formats a time as `20261121-0210`, in UTC.
fn stamp(unix_ms: u64) -> String {
    let at = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.unwrap_or(jiff::Timestamp::UNIX_EPOCH).strftime("%Y%m%d-%H%M").to_string()
}

/// Random bits. They come from the random keys that the standard library gets from the system for its hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let id = run_id(1_795_227_000_000);
        assert_eq!(&id[..14], "20261121-0210-");
        assert_eq!(id.len(), 18);
        assert_ne!(id, run_id(1_795_227_000_000));
    }
}
