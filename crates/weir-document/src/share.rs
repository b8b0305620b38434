//! Shares: `0.1%`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Quantity, QuantityError, as_text, split_unit};

/// A share from 0 to 1, written as `0.1%` or as `0.001`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Quantity for Share {
    const KIND: &'static str = "a share";
    const EXAMPLES: &'static str = "0.1%, 50%";
}

impl FromStr for Share {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split_unit(text).ok_or_else(|| Self::malformed(text))?;
        // With the exponent in the text, the parser rounds only once. Dividing by 100 afterwards would round again.
        let share: f64 = match unit {
            "%" => format!("{number}e-2").parse(),
            "" => number.parse(),
            _ => return Err(Self::malformed(text)),
        }
        .map_err(|_| Self::malformed(text))?;
        match share <= 1.0 {
            true => Ok(Self(share)),
            false => Err(Self::out_of_range(text, "more than 100%")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Moving the decimal point of the shortest decimal keeps every digit. Multiplying by 100 could round.
        let decimal = self.0.to_string();
        let (whole, fraction) = decimal.split_once('.').unwrap_or((&decimal, ""));
        let fraction = format!("{fraction:0<2}");
        let percent = format!("{whole}{}", &fraction[..2]);
        let percent = match percent.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        match &fraction[2..] {
            "" => write!(f, "{percent}%"),
            rest => write!(f, "{percent}.{rest}%"),
        }
    }
}

as_text!(Share, r"^[0-9]+(\.[0-9]+)? *%?$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_printed_exactly() {
        for (text, share, printed) in [
            ("0.1%", 0.001, "0.1%"),
            ("0.001", 0.001, "0.1%"),
            ("50 %", 0.5, "50%"),
            ("100%", 1.0, "100%"),
            ("1", 1.0, "100%"),
            ("0", 0.0, "0%"),
            ("12.5%", 0.125, "12.5%"),
            ("7%", 0.07, "7%"),
        ] {
            let read: Share = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (share, printed), "{text}");
        }
        for share in [1.0 / 3.0, 0.07, 1e-9, 0.1 + 0.2, f64::MIN_POSITIVE, 1.0 - f64::EPSILON] {
            assert_eq!(Share(share).to_string().parse::<Share>().unwrap(), Share(share));
        }
    }

    #[test]
    fn invalid_shares_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Share>().unwrap_err().to_string();
        assert_eq!(said("200%"), "`200%` is more than 100%; write a share like 0.1%, 50%");
        assert_eq!(
            said("5 percent"),
            "`5 percent` is not a share; write a number with its unit, like 0.1%, 50%"
        );
        for text in ["", "%", "-1%", "1.5", "nan"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
