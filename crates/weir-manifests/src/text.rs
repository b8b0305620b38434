//! Reads text values and parses them immediately, so that errors have the position of the value.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};

/// Reads a string and applies `parse`, whose errors have the form `cause; remedy`.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Text { expected, parse })
}

struct Text<P> {
    expected: &'static str,
    parse: P,
}

impl<T, P: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Text<P> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}
