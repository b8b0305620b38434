//! Rates: `5000/s`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Quantity, QuantityError, as_text, split_unit};

/// A rate per second, above zero. It is written with its unit: `5000/s`, `300/m`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl Quantity for Rate {
    const KIND: &'static str = "a rate";
    const EXAMPLES: &'static str = "5000/s, 300/m";
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split_unit(text).ok_or_else(|| Self::malformed(text))?;
        let number: f64 = number.parse().map_err(|_| Self::malformed(text))?;
        let per_s = match unit.strip_prefix('/').map(str::trim_start) {
            Some("s") => number,
            Some("m" | "min") => number / 60.0,
            Some("h") => number / 3600.0,
            Some(_) => return Err(Self::malformed(text)),
            None if unit.is_empty() => return Err(Self::no_unit(text)),
            None => return Err(Self::malformed(text)),
        };
        match per_s > 0.0 && per_s.is_finite() {
            true => Ok(Self(per_s)),
            false => Err(Self::out_of_range(text, "not above zero")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rust prints the shortest decimal that parses to the same number.
        write!(f, "{}/s", self.0)
    }
}

as_text!(Rate, r"^[0-9]+(\.[0-9]+)? */ *(s|m|min|h)$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_printed_exactly() {
        for (text, per_s, printed) in [
            ("5000/s", 5000.0, "5000/s"),
            ("300/m", 5.0, "5/s"),
            ("300/min", 5.0, "5/s"),
            ("0.5 / s", 0.5, "0.5/s"),
            ("36000/h", 10.0, "10/s"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.0, rate.to_string().as_str()), (per_s, printed), "{text}");
        }
        for per_s in [1.0 / 3.0, 1e-9, 123_456.789, 1e15, 0.1 + 0.2] {
            assert_eq!(Rate(per_s).to_string().parse::<Rate>().unwrap(), Rate(per_s));
        }
    }

    #[test]
    fn invalid_rates_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(said("5000"), "`5000` has no unit; write a rate with its unit, like 5000/s, 300/m");
        assert_eq!(said("5/d"), "`5/d` is not a rate; write a number with its unit, like 5000/s, 300/m");
        assert!(said("0/s").contains("not above zero"));
        for text in ["", "/s", "-5/s", "5s", "5/", "nan/s", "inf/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
