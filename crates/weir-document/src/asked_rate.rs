//! A rate, or a share of a measured rate: `5000/s`, `30%`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::levels::{Level, Levels};
use crate::quantity::{Quantity, QuantityError, as_text, split_unit};
use crate::{Rate, Share};

/// The maximum share: ten times the measured rate.
const SHARE_MAX: f64 = 10.0;

/// In steps such as `5%..15%..5%`, each share is rounded to a multiple of 1 / `STRIDE_DIGITS`, to remove rounding
/// errors.
const STRIDE_DIGITS: f64 = 1e9;

/// A rate: absolute, or a share of a rate that weir measures before the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AskedRate {
    /// Requests per second.
    Rate(Rate),
    /// A share of a rate that is measured later; above zero. 1 is the whole rate, 1.2 is 20 % more.
    Share(f64),
}

/// Rates during a load, like [`crate::Rates`]. Each is absolute or a share: `30%`, a ramp `10%..50%`, steps `10%,30%`.
pub type AskedRates = Levels<AskedRate>;

impl AskedRate {
    /// Requests per second; `None` for a share.
    pub fn per_s(self) -> Option<f64> {
        match self {
            Self::Rate(Rate(per_s)) => Some(per_s),
            Self::Share(_) => None,
        }
    }

    /// Whether this is a share.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Share(_))
    }
}

impl From<Rate> for AskedRate {
    fn from(rate: Rate) -> Self {
        Self::Rate(rate)
    }
}

impl Quantity for AskedRate {
    const KIND: &'static str = "a rate";
    const EXAMPLES: &'static str = "5000/s, 300/m, 30%";
}

impl FromStr for AskedRate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Some((number, "%")) = split_unit(text) else { return text.parse().map(Self::Rate) };
        // With the exponent in the text, the parser rounds only once. Dividing by 100 afterwards would round again.
        let share: f64 = format!("{number}e-2").parse().map_err(|_| Self::malformed(text))?;
        match share {
            _ if share <= 0.0 => Err(Self::out_of_range(text, "not above zero")),
            _ if share > SHARE_MAX => Err(Self::out_of_range(text, "more than 1000%")),
            _ => Ok(Self::Share(share)),
        }
    }
}

impl fmt::Display for AskedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Share(share) => Share(*share).fmt(f),
        }
    }
}

impl PartialOrd for AskedRate {
    /// Returns `None` for a rate and a share, because they cannot be compared.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Rate(one), Self::Rate(other)) => one.partial_cmp(other),
            (Self::Share(one), Self::Share(other)) => one.partial_cmp(other),
            _ => None,
        }
    }
}

as_text!(AskedRate, r"^[0-9]+(\.[0-9]+)? *(/ *(s|m|min|h)|%)$");

impl Level for AskedRate {
    const NAME: &'static str = "AskedRates";
    const FORMS: &'static str =
        "`5000/s`, `1000/s..5000/s` (ramp), `1000/s..5000/s..1000/s` or `100/s,1000/s` (steps), `30%`";

    fn read(text: &str) -> Result<Self, QuantityError> {
        text.parse()
    }

    fn read_end(text: &str) -> Result<Self, QuantityError> {
        match text {
            "0%" => Ok(Self::Share(0.0)),
            _ if text.ends_with('%') => text.parse(),
            _ => Rate::read_end(text).map(Self::Rate),
        }
    }

    fn stride(self, to: Self, by: Self, n: usize) -> Option<Self> {
        match (self, to, by) {
            (Self::Rate(from), Self::Rate(to), Self::Rate(by)) => from.stride(to, by, n).map(Self::Rate),
            (Self::Share(from), Self::Share(to), Self::Share(by)) => {
                let Rate(at) = Rate(from).stride(Rate(to), Rate(by), n)?;
                Some(Self::Share((at * STRIDE_DIGITS).round() / STRIDE_DIGITS))
            }
            _ => None,
        }
    }

    fn from_number(_: f64) -> Option<Self> {
        None
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: AskedRates, printed: &str) {
        let read: AskedRates = text.parse().unwrap();
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.to_string(), printed, "{text}");
        let json = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<AskedRates>(&json).unwrap(), read, "{json}");
    }

    #[test]
    fn rates_and_shares_are_read_and_printed() {
        let (rate, share) = (|per_s| AskedRate::Rate(Rate(per_s)), AskedRate::Share);
        check("5000/s", Levels::Constant(rate(5000.0)), "5000/s");
        check("30%", Levels::Constant(share(0.3)), "30%");
        check("0.5 %", Levels::Constant(share(0.005)), "0.5%");
        check("120%", Levels::Constant(share(1.2)), "120%");
        check("0%..50%", Levels::Ramp(share(0.0), share(0.5)), "0%..50%");
        check("0/s..10/s", Levels::Ramp(rate(0.0), rate(10.0)), "0/s..10/s");
        check("10%,100/s", Levels::Steps(vec![share(0.1), rate(100.0)]), "10%,100/s");
        check("5%..15%..5%", Levels::Steps(vec![share(0.05), share(0.1), share(0.15)]), "5%,10%,15%");
    }

    #[test]
    fn invalid_rates_are_rejected_with_valid_forms() {
        let said = |text: &str| text.parse::<AskedRates>().unwrap_err().to_string();
        assert_eq!(said("0%"), "`0%` is not above zero; write a rate like 5000/s, 300/m, 30%");
        assert_eq!(said("2000%"), "`2000%` is more than 1000%; write a rate like 5000/s, 300/m, 30%");
        assert_eq!(said("5000"), "`5000` has no unit; write a rate with its unit, like 5000/s, 300/m");
        assert!(said("10%..5000/s..1%").contains("an invalid step"));
        for text in ["%", "-5%", "5 percent", "nan%"] {
            assert!(text.parse::<AskedRates>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<AskedRates>("0.3").is_err());
    }

    #[test]
    fn a_share_has_no_rate_yet() {
        let share: AskedRate = "30%".parse().unwrap();
        assert_eq!((share.per_s(), share.is_share()), (None, true));
        assert_eq!(AskedRate::from(Rate(2.0)).per_s(), Some(2.0));
        assert_eq!(share.partial_cmp(&AskedRate::Rate(Rate(2.0))), None);
    }
}
