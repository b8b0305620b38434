//! Durations in the format of Gateway API: `1h30m`, `500ms`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::text::parsed;

/// Maximum number of parts in a duration. A part is a number with a unit.
const PARTS_MAX: usize = 4;

/// Maximum number of digits per number.
const DIGITS_MAX: usize = 5;

/// A duration of Gateway API. As a timeout, zero means no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatewayDuration(Duration);

impl GatewayDuration {
    /// The duration as a timeout; `None` for zero, which means no timeout.
    pub(crate) fn bound(self) -> Option<Duration> {
        Some(self.0).filter(|duration| !duration.is_zero())
    }

    fn parse(text: &str) -> Option<GatewayDuration> {
        let (mut rest, mut sum) = (text, Duration::ZERO);
        for _ in 0..PARTS_MAX {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if !(1..=DIGITS_MAX).contains(&digits) {
                return None;
            }
            let number: u64 = rest[..digits].parse().ok()?;
            rest = &rest[digits..];
            let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
            let (unit, millis) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
            rest = &rest[unit.len()..];
            sum += Duration::from_millis(number * millis);
            if rest.is_empty() {
                return Some(GatewayDuration(sum));
            }
        }
        None
    }
}

impl<'de> Deserialize<'de> for GatewayDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GatewayDuration, D::Error> {
        parsed(deserializer, "a duration like 10s, 500ms or 1h30m", |text| {
            GatewayDuration::parse(text).ok_or_else(|| {
                format!(
                    "`{text}` is not a duration; write it in whole numbers with units, like 10s, 500ms or 1h30m"
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_duration_are_summed() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(GatewayDuration::parse(text).map(|d| d.0.as_millis() as u64), millis, "{text}");
        };
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("1h30m", Some(5_400_000));
        check("1h2m3s4ms", Some(3_723_004));
        check("0s", Some(0));
        for wrong in ["", "10", "s", "1.5s", "-1s", "1d", "100000s", "1s1s1s1s1s", "1s ", "10S"] {
            check(wrong, None);
        }
        assert_eq!(GatewayDuration::parse("0h0m").and_then(GatewayDuration::bound), None);
    }
}
