//! Prices per hour: `0.17/h`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Quantity, QuantityError, split_unit};

/// A price per hour in any currency, above zero: `0.17/h`, or `0.05/core/h` for each core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// The price per hour.
    pub per_hour: f64,
    /// Whether the price is for one core instead of the whole machine.
    pub is_per_core: bool,
}

impl Quantity for Price {
    const KIND: &'static str = "a price";
    const EXAMPLES: &'static str = "0.17/h, 0.05/core/h";
}

impl FromStr for Price {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split_unit(text).ok_or_else(|| Self::malformed(text))?;
        let per_hour: f64 = number.parse().map_err(|_| Self::malformed(text))?;
        let unit: String = unit.split_whitespace().collect();
        let is_per_core = match unit.as_str() {
            "/h" => false,
            "/core/h" => true,
            "" => return Err(Self::no_unit(text)),
            _ => return Err(Self::malformed(text)),
        };
        match per_hour > 0.0 && per_hour.is_finite() {
            true => Ok(Self { per_hour, is_per_core }),
            false => Err(Self::out_of_range(text, "not above zero")),
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/h", self.per_hour, if self.is_per_core { "/core" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_printed_exactly() {
        for (text, per_hour, is_per_core, printed) in [
            ("0.17/h", 0.17, false, "0.17/h"),
            ("0.05/core/h", 0.05, true, "0.05/core/h"),
            ("3 / core / h", 3.0, true, "3/core/h"),
        ] {
            let price: Price = text.parse().unwrap();
            assert_eq!(price, Price { per_hour, is_per_core }, "{text}");
            assert_eq!(price.to_string(), printed);
        }
    }

    #[test]
    fn invalid_prices_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Price>().unwrap_err().to_string();
        assert_eq!(said("0.17"), "`0.17` has no unit; write a price with its unit, like 0.17/h, 0.05/core/h");
        assert!(said("0/h").contains("not above zero"));
        for text in ["", "/h", "-1/h", "1/d", "1/h/core", "$1/h", "1e3/h"] {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
    }
}
