//! Common code of quantities with a unit: exact decimal numbers, errors and deserialization.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use thiserror::Error;

use crate::problem::Problem;

/// The text of a quantity is invalid. The error text is `cause; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text does not begin with a number, or an unknown unit follows the number.
    #[error("`{given}` is not {kind}; write a number with its unit, like {examples}")]
    Malformed {
        /// The given text.
        given: String,
        /// The kind of quantity, such as `a time`.
        kind: &'static str,
        /// Examples of valid texts.
        examples: &'static str,
    },
    /// The text is a number without a unit, or its unit is incomplete, such as `30%` instead of `30%/y`.
    #[error("`{given}` has no {missing}; write {kind} with its unit, like {examples}")]
    NoUnit {
        /// The given text.
        given: String,
        /// The missing part: `unit` or `time unit`.
        missing: &'static str,
        /// The kind of quantity, such as `a time`.
        kind: &'static str,
        /// Examples of valid texts.
        examples: &'static str,
    },
    /// The text has none of the valid forms. Used for kinds, such as delays, that allow more than a number with its
    /// unit.
    #[error("`{given}` is not {kind}; write one like {examples}")]
    Form {
        /// The given text.
        given: String,
        /// The kind of quantity, such as `a delay`.
        kind: &'static str,
        /// Examples of valid texts.
        examples: &'static str,
    },
    /// The text has a valid form, but its value is outside the valid range, or cannot be represented exactly.
    #[error("`{given}` is {why}; write {kind} like {examples}")]
    OutOfRange {
        /// The given text.
        given: String,
        /// Why the value is rejected, such as `too large`.
        why: &'static str,
        /// The kind of quantity, such as `a time`.
        kind: &'static str,
        /// Examples of valid texts.
        examples: &'static str,
    },
}

impl From<QuantityError> for Problem<()> {
    fn from(error: QuantityError) -> Self {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, ""));
        Self::new(cause, remedy)
    }
}

/// A kind of quantity, with its name and examples for errors.
pub(crate) trait Quantity: FromStr<Err = QuantityError> {
    /// The name of the kind with its article, such as `a time`.
    const KIND: &'static str;
    /// Examples of valid texts, separated by commas.
    const EXAMPLES: &'static str;

    /// Splits a text into its number and the scale of its unit in `units`. The scale of `0` without a unit is 1.
    fn number_and_scale<'t>(
        text: &'t str,
        units: &[&[(&str, u64)]],
    ) -> Result<(&'t str, u64), QuantityError> {
        let (number, unit) = split_unit(text).ok_or_else(|| Self::malformed(text))?;
        if unit.is_empty() {
            let is_zero = number.bytes().all(|byte| byte == b'0');
            return if is_zero { Ok((number, 1)) } else { Err(Self::no_unit(text)) };
        }
        let known = units.iter().copied().flatten().find(|(name, _)| *name == unit);
        known.map(|(_, scale)| (number, *scale)).ok_or_else(|| Self::malformed(text))
    }

    fn malformed(given: &str) -> QuantityError {
        QuantityError::Malformed { given: given.to_owned(), kind: Self::KIND, examples: Self::EXAMPLES }
    }

    fn of_no_form(given: &str) -> QuantityError {
        QuantityError::Form { given: given.to_owned(), kind: Self::KIND, examples: Self::EXAMPLES }
    }

    fn no_unit(given: &str) -> QuantityError {
        Self::no_part_of_unit(given, "unit")
    }

    fn no_part_of_unit(given: &str, missing: &'static str) -> QuantityError {
        QuantityError::NoUnit { given: given.to_owned(), missing, kind: Self::KIND, examples: Self::EXAMPLES }
    }

    fn out_of_range(given: &str, why: &'static str) -> QuantityError {
        QuantityError::OutOfRange { given: given.to_owned(), why, kind: Self::KIND, examples: Self::EXAMPLES }
    }
}

/// Splits a text into its number, which has the form `digits[.digits]`, and the unit after it. `None` without a
/// well-formed number.
pub(crate) fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let well_formed = number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|byte| *byte == b'.').count() <= 1
        && !number.starts_with('.')
        && !number.ends_with('.');
    well_formed.then(|| (number, unit.trim_start()))
}

/// Multiplies `number` by `scale` exactly. `None` if the product is not a whole number or is out of range.
pub(crate) fn scaled(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let decimals = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(scale))?;
    (product % decimals == 0).then_some(product / decimals)
}

/// Deserializes a quantity from a string or a number. Most kinds reject a number, and their error shows a valid form.
pub(crate) fn deserialize<'de, Q: Quantity, D: Deserializer<'de>>(deserializer: D) -> Result<Q, D::Error> {
    struct FromText<Q>(PhantomData<Q>);

    impl<Q: Quantity> Visitor<'_> for FromText<Q> {
        type Value = Q;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} with its unit, like {}", Q::KIND, Q::EXAMPLES)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Q, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Q, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Q, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Q, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(FromText(PhantomData))
}

/// Implements serde and the JSON Schema for a quantity that is serialized as its `Display` text. The second argument is
/// either a schema or a pattern. A pattern allows all numbers, and the strings that match it.
macro_rules! as_text {
    ($quantity:ident, $pattern:literal) => {
        crate::quantity::as_text!($quantity, { "type": ["string", "number"], "pattern": $pattern });
    };
    ($quantity:ident, { $($form:tt)* }) => {
        impl serde::Serialize for $quantity {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $quantity {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::quantity::deserialize(deserializer)
            }
        }

        impl schemars::JsonSchema for $quantity {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($quantity).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "description": format!("{} with its unit, like {}",
                        <$quantity as crate::quantity::Quantity>::KIND,
                        <$quantity as crate::quantity::Quantity>::EXAMPLES),
                    $($form)*
                })
            }
        }
    };
}
pub(crate) use as_text;
