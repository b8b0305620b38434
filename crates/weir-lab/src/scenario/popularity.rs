//! Request frequencies of the domains and paths of a topology.

use std::fmt;
use std::str::FromStr;

use weir_document::as_word;

/// Maximum exponent: with more, almost all requests are for the first item.
const EXPONENT_MAX: f64 = 10.0;

/// How requests are distributed over domains and paths: `uniform`, `zipf`, or `zipf:0.9`. With `zipf`, the first
/// domains and paths get more requests than the last.
///
/// By Zipf's law, rank r has the weight 1/r^s; the exponent s defaults to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Popularity(f64);

impl Popularity {
    /// The weight of the item with rank `rank`. Here the first rank is 0.
    pub(crate) fn weight(self, rank: usize) -> f64 {
        (rank as f64 + 1.0).powf(-self.0)
    }
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "use uniform, zipf, or zipf with an exponent, like zipf:0.9";
        let exponent = match text.split_once(':') {
            None if text == "uniform" => 0.0,
            None if text == "zipf" => 1.0,
            Some(("zipf", exponent)) => {
                exponent.parse().map_err(|_| format!("`{exponent}` is not an exponent; {FORMS}"))?
            }
            _ => return Err(format!("`{text}` is not a popularity; {FORMS}")),
        };
        match (0.0..=EXPONENT_MAX).contains(&exponent) {
            true => Ok(Self(exponent)),
            false => Err(format!("exponent `{exponent}` is out of range; use 0 to {EXPONENT_MAX}")),
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0.0 => f.write_str("uniform"),
            1.0 => f.write_str("zipf"),
            exponent => write!(f, "zipf:{exponent}"),
        }
    }
}

as_word!(Popularity, "`uniform`, `zipf`, or `zipf:EXPONENT`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularities_are_parsed_and_printed() {
        for (text, third) in [("uniform", 1.0), ("zipf", 1.0 / 3.0), ("zipf:2", 1.0 / 9.0)] {
            let popularity: Popularity = text.parse().unwrap();
            assert_eq!(popularity.to_string(), text);
            assert!((popularity.weight(2) - third).abs() < 1e-12, "{text}");
            assert_eq!(popularity.weight(0), 1.0);
        }
        assert_eq!("zipf:1.0".parse::<Popularity>().unwrap().to_string(), "zipf");
    }

    #[test]
    fn invalid_popularities_list_the_valid_forms() {
        let said = |text: &str| text.parse::<Popularity>().unwrap_err();
        assert!(said("even").contains("use uniform, zipf"));
        assert!(said("zipf:much").contains("`much` is not an exponent"));
        for wrong in ["zipf:-1", "zipf:11", "zipf:NaN"] {
            assert!(said(wrong).contains("use 0 to 10"), "{wrong}");
        }
    }
}
