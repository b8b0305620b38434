//! A share of requests or clients that is slow: `1%:2s`.

use std::fmt;
use std::str::FromStr;

use crate::delay::DELAY_MAX;
use crate::quantity::{Quantity, QuantityError, as_text};
use crate::{Share, Time};

/// A share of requests or clients that is slow, and for how long: in `1%:2s`, one of a hundred takes two seconds. The
/// time is at most an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// The share of requests or clients that are slow.
    pub share: Share,
    /// The time that each slow request or client takes.
    pub time: Time,
}

impl Quantity for Slow {
    const KIND: &'static str = "a share followed by a time";
    const EXAMPLES: &'static str = "1%:2s (1 of 100 takes 2 s)";
}

impl FromStr for Slow {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (share, time) = text.split_once(':').ok_or_else(|| Self::of_no_form(text))?;
        let slow = Self { share: share.parse()?, time: time.parse()? };
        match slow.time.0 <= DELAY_MAX {
            true => Ok(slow),
            false => Err(Self::out_of_range(text, "longer than an hour")),
        }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.share, self.time)
    }
}

as_text!(Slow, r"^[^:]+:[^:]+$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_shares_are_read_and_printed_exactly() {
        for (text, printed) in [("1%:2s", "1%:2s"), ("0.5:1500ms", "50%:1500ms"), ("0%:0s", "0%:0s")] {
            let slow: Slow = text.parse().unwrap();
            assert_eq!(slow.to_string(), printed);
            assert_eq!(printed.parse::<Slow>().unwrap(), slow);
        }
    }

    #[test]
    fn invalid_slow_shares_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Slow>().unwrap_err().to_string();
        assert_eq!(
            said("1%"),
            "`1%` is not a share followed by a time; write one like 1%:2s (1 of 100 takes 2 s)"
        );
        assert!(said("200%:1s").starts_with("`200%` is more than 100%;"));
        assert!(said("1%:1").starts_with("`1` has no unit;"));
        assert!(said("1%:2h").starts_with("`1%:2h` is longer than an hour;"));
    }
}
