//! Drifts, which are delays that grow with time: `1ms/10s`.

use std::fmt;
use std::str::FromStr;

use crate::Time;
use crate::delay::DELAY_MAX;
use crate::quantity::{Quantity, QuantityError, as_text};

/// A delay that grows linearly: `1ms/10s` adds a millisecond every ten seconds. Both times are above zero and at most
/// an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// How much the delay grows.
    pub by: Time,
    /// The time in which the delay grows by `by`.
    pub every: Time,
}

impl Quantity for Drift {
    const KIND: &'static str = "a drift";
    const EXAMPLES: &'static str = "1ms/10s (adds 1 ms every 10 s)";
}

impl FromStr for Drift {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (by, every) = text.split_once('/').ok_or_else(|| Self::of_no_form(text))?;
        let (by, every): (Time, Time) = (by.parse()?, every.parse()?);
        if by.0.is_zero() {
            return Err(Self::out_of_range(text, "a drift of zero"));
        }
        if every.0.is_zero() {
            return Err(Self::out_of_range(text, "a drift with a zero interval"));
        }
        if by.0.max(every.0) > DELAY_MAX {
            return Err(Self::out_of_range(text, "longer than an hour"));
        }
        Ok(Self { by, every })
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.by, self.every)
    }
}

as_text!(Drift, r"^[^/]+/[^/]+$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drifts_are_read_and_printed_exactly() {
        for (text, printed) in [("1ms/10s", "1ms/10s"), ("1.5s/60m", "1500ms/1h"), ("2s/1s", "2s/1s")] {
            let drift: Drift = text.parse().unwrap();
            assert_eq!(drift.to_string(), printed);
            assert_eq!(printed.parse::<Drift>().unwrap(), drift);
        }
    }

    #[test]
    fn invalid_drifts_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Drift>().unwrap_err().to_string();
        assert_eq!(said("1ms"), "`1ms` is not a drift; write one like 1ms/10s (adds 1 ms every 10 s)");
        assert!(said("0/1s").starts_with("`0/1s` is a drift of zero;"));
        assert!(said("1ms/0").starts_with("`1ms/0` is a drift with a zero interval;"));
        assert!(said("1ms/2h").starts_with("`1ms/2h` is longer than an hour;"));
        assert!(said("1ms/10").starts_with("`10` has no unit;"));
    }
}
