//! Words that YAML may read as a number or a boolean: `1.3`, `on`, `200`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};

/// Deserializes a word that YAML may read as a number or a boolean: `1.3`, `on`.
///
/// # Errors
/// If the word is not valid for `T`.
pub fn read_word<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Word(PhantomData))
}

struct Word<T>(PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<T, E> {
        self.visit_str(if on { "true" } else { "false" })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Implements serde and the JSON Schema for a word that is serialized as its `Display` text. The calling crate needs
/// `serde` and `schemars`.
#[macro_export]
macro_rules! as_word {
    ($word:ident, $description:literal) => {
        impl serde::Serialize for $word {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $word {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read_word(deserializer)
            }
        }

        impl schemars::JsonSchema for $word {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($word).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "number", "boolean"], "description": $description })
            }
        }
    };
}
