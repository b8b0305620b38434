//! Sizes: `64KiB`, `10MB`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Quantity, QuantityError, as_text, scaled};

/// A number of bytes. It is written with its unit: `64B`, `64KiB` (65,536), `10MB` (10,000,000), `1GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

/// Units with their number of bytes, the largest first, binary before decimal.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Alternative spellings of units.
const ALIASES: [(&str, u64); 1] = [("kB", 1_000)];

impl Quantity for Size {
    const KIND: &'static str = "a size";
    const EXAMPLES: &'static str = "64B, 64KiB, 10MB, 1GiB";
}

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, scale) = Self::number_and_scale(text, &[&UNITS, &ALIASES])?;
        let bytes =
            scaled(number, scale).ok_or_else(|| Self::out_of_range(text, "not a whole number of bytes"))?;
        u64::try_from(bytes).map(Self).map_err(|_| Self::out_of_range(text, "too large"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => f.write_str("0B"),
        }
    }
}

// Without a unit, only zero is valid.
as_text!(Size, { "anyOf": [{ "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? *(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$|^0$" }, { "const": 0 }] });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed_exactly() {
        for (text, bytes, printed) in [
            ("64B", 64, "64B"),
            ("64KiB", 65_536, "64KiB"),
            ("10MB", 10_000_000, "10MB"),
            ("1GiB", 1 << 30, "1GiB"),
            ("1.5KiB", 1536, "1536B"),
            ("2 kB", 2000, "2KB"),
            ("0", 0, "0B"),
            ("0B", 0, "0B"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, printed), "{text}");
            assert_eq!(printed.parse::<Size>().unwrap(), size);
        }
        for bytes in [1, 1000, 1024, 1_024_000, u64::MAX, u64::MAX - 1023, 1 << 63] {
            assert_eq!(Size(bytes).to_string().parse::<Size>().unwrap(), Size(bytes));
        }
    }

    #[test]
    fn invalid_sizes_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Size>().unwrap_err().to_string();
        assert_eq!(said("64"), "`64` has no unit; write a size with its unit, like 64B, 64KiB, 10MB, 1GiB");
        assert_eq!(
            said("64kb"),
            "`64kb` is not a size; write a number with its unit, like 64B, 64KiB, 10MB, 1GiB"
        );
        assert!(said("0.5B").contains("not a whole number of bytes"));
        assert!(said("99999999TiB").contains("too large"));
        for text in ["", "B", "-1B", "1.2.3B", "1e3B"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
