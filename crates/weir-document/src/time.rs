//! Durations: `20ms`, `1.5s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::quantity::{Quantity, QuantityError, as_text, scaled};

/// A duration. It is written with its unit: `5ns`, `100us`, `20ms`, `1.5s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

/// Units with their number of nanoseconds, the longest first.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Alternative spellings of `us`: with the micro sign, and with the Greek letter that looks like it.
const ALIASES: [(&str, u64); 2] = [("µs", 1_000), ("μs", 1_000)];

impl Time {
    /// The time in nanoseconds; the maximum if it is longer than 584 years.
    pub fn as_ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Quantity for Time {
    const KIND: &'static str = "a time";
    const EXAMPLES: &'static str = "100us, 20ms, 1.5s, 2m";
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, scale) = Self::number_and_scale(text, &[&UNITS, &ALIASES])?;
        let ns = scaled(number, scale)
            .ok_or_else(|| Self::out_of_range(text, "not a whole number of nanoseconds"))?;
        let seconds = u64::try_from(ns / 1_000_000_000).map_err(|_| Self::out_of_range(text, "too long"))?;
        Ok(Self(Duration::new(seconds, (ns % 1_000_000_000) as u32)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        match UNITS.iter().find(|(_, scale)| ns > 0 && ns.is_multiple_of(u128::from(*scale))) {
            Some((unit, scale)) => write!(f, "{}{unit}", ns / u128::from(*scale)),
            None => f.write_str("0s"),
        }
    }
}

// Without a unit, only zero is valid.
as_text!(Time, { "anyOf": [{ "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|h)$|^0$" }, { "const": 0 }] });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed_exactly() {
        for (text, ns, printed) in [
            ("20ms", 20_000_000, "20ms"),
            ("1.5s", 1_500_000_000, "1500ms"),
            ("100us", 100_000, "100us"),
            ("100µs", 100_000, "100us"),
            ("5ns", 5, "5ns"),
            ("2m", 120_000_000_000, "2m"),
            ("90s", 90_000_000_000, "90s"),
            ("60m", 3_600_000_000_000, "1h"),
            ("0.000001ms", 1, "1ns"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!((time.0.as_nanos(), time.to_string().as_str()), (ns, printed), "{text}");
            assert_eq!(printed.parse::<Time>().unwrap(), time);
        }
        for ns in [1, 999, 1_001, 86_400_000_000_000, u64::MAX, u64::MAX / 7] {
            let time = Time(Duration::from_nanos(ns));
            assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
        }
        assert_eq!(Time(Duration::MAX).to_string().parse::<Time>().unwrap(), Time(Duration::MAX));
    }

    #[test]
    fn invalid_times_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Time>().unwrap_err().to_string();
        assert_eq!(said("20"), "`20` has no unit; write a time with its unit, like 100us, 20ms, 1.5s, 2m");
        assert_eq!(
            said("20 parsec"),
            "`20 parsec` is not a time; write a number with its unit, like 100us, 20ms, 1.5s, 2m"
        );
        assert!(said("0.5ns").contains("not a whole number of nanoseconds"));
        for text in ["", "ms", "-1s", "1..5s", ".5s", "5.s", "1e3s", "99999999999999999999999h", "٣s"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }
}
