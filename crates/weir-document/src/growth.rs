//! Growth per year: `30%/y`.

use std::fmt;
use std::str::FromStr;

use crate::Share;
use crate::quantity::{Quantity, QuantityError, split_unit};

/// Growth per year, as a share: `30%/y` is 0.3. It may be above 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Growth(pub f64);

impl Quantity for Growth {
    const KIND: &'static str = "a growth";
    const EXAMPLES: &'static str = "30%/y, 150%/y";
}

impl FromStr for Growth {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split_unit(text).ok_or_else(|| Self::malformed(text))?;
        let unit: String = unit.split_whitespace().collect();
        match unit.as_str() {
            "%/y" => {}
            "" => return Err(Self::no_unit(text)),
            "%" => return Err(Self::no_part_of_unit(text, "time unit")),
            _ => return Err(Self::malformed(text)),
        }
        // With the exponent in the text, the parser rounds only once. Dividing by 100 afterwards would round again.
        let growth: f64 = format!("{number}e-2").parse().map_err(|_| Self::malformed(text))?;
        match growth.is_finite() {
            true => Ok(Self(growth)),
            false => Err(Self::out_of_range(text, "too large")),
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/y", Share(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_read_and_printed_exactly() {
        for (text, growth, printed) in [
            ("30%/y", 0.3, "30%/y"),
            ("150 % / y", 1.5, "150%/y"),
            ("0%/y", 0.0, "0%/y"),
            ("2.5%/y", 0.025, "2.5%/y"),
        ] {
            let read: Growth = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (growth, printed), "{text}");
        }
    }

    #[test]
    fn invalid_growth_is_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Growth>().unwrap_err().to_string();
        assert_eq!(said("30%"), "`30%` has no time unit; write a growth with its unit, like 30%/y, 150%/y");
        for text in ["", "30", "%/y", "-3%/y", "30/y", "30%/m"] {
            assert!(text.parse::<Growth>().is_err(), "{text}");
        }
    }
}
