//! Periodic stalls: `200ms/1s`.

use std::fmt;
use std::str::FromStr;

use crate::Time;
use crate::delay::DELAY_MAX;
use crate::quantity::{Quantity, QuantityError, as_text};

/// A periodic stall: `200ms/1s` stalls for the first 200 ms of each second. The stall is longer than zero and shorter
/// than the period; the period is at most an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The duration of each stall.
    pub stopped: Time,
    /// The time from the start of one stall to the start of the next.
    pub every: Time,
}

impl Quantity for Stall {
    const KIND: &'static str = "a stall";
    const EXAMPLES: &'static str = "200ms/1s (stopped for the first 200 ms of each second)";
}

impl FromStr for Stall {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (stopped, every) = text.split_once('/').ok_or_else(|| Self::of_no_form(text))?;
        let (stopped, every): (Time, Time) = (stopped.parse()?, every.parse()?);
        if stopped.0.is_zero() {
            return Err(Self::out_of_range(text, "a stall of zero"));
        }
        if stopped >= every {
            return Err(Self::out_of_range(text, "a stall that never ends"));
        }
        if every.0 > DELAY_MAX {
            return Err(Self::out_of_range(text, "longer than an hour"));
        }
        Ok(Self { stopped, every })
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stopped, self.every)
    }
}

as_text!(Stall, r"^[^/]+/[^/]+$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_and_printed_exactly() {
        for (text, printed) in [("200ms/1s", "200ms/1s"), ("1.5s/60m", "1500ms/1h")] {
            let stall: Stall = text.parse().unwrap();
            assert_eq!(stall.to_string(), printed);
            assert_eq!(printed.parse::<Stall>().unwrap(), stall);
        }
    }

    #[test]
    fn invalid_stalls_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Stall>().unwrap_err().to_string();
        assert_eq!(
            said("200ms"),
            "`200ms` is not a stall; write one like 200ms/1s (stopped for the first 200 ms of each second)"
        );
        assert!(said("1s/1s").starts_with("`1s/1s` is a stall that never ends;"));
        assert!(said("0/1s").starts_with("`0/1s` is a stall of zero;"));
        assert!(said("1s/2h").starts_with("`1s/2h` is longer than an hour;"));
        assert!(said("200ms/1").starts_with("`1` has no unit;"));
    }
}
