//! Reads JSON with `serde_json`. Reports errors at the start of the token, and rejects duplicate keys.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use crate::problem::{Position, Problem};
use crate::seek::{AtEnd, Path, Seek};

pub(crate) struct JsonError(serde_json::Error);

pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let value = serde_json::from_str(text).map_err(JsonError)?;
    // Serde maps silently keep the last of two equal keys. The second pass finds them, and is cheap compared with
    // building the value.
    let mut tokens = serde_json::Deserializer::from_str(text);
    UniqueKeys.deserialize(&mut tokens).map_err(JsonError)?;
    Ok(value)
}

/// Reads the value at the path of `seek`, and returns the error that stopped the reader. A valid value also stops it
/// with an error (see [`Seek`]). `None` if the value is missing.
pub(crate) fn seek<P: Path, E: AtEnd>(text: &str, seek: Seek<'_, P, E>) -> Option<JsonError> {
    seek.deserialize(&mut serde_json::Deserializer::from_str(text)).err().map(JsonError)
}

impl JsonError {
    /// Whether the text is not JSON at all, so that its content was not checked.
    pub(crate) fn is_syntax(&self) -> bool {
        matches!(self.0.classify(), Category::Syntax | Category::Eof)
    }

    pub(crate) fn at(&self, source_name: &str, text: &str) -> Problem<Position> {
        let (line, column_bytes) = (self.0.line(), self.0.column());
        let full = self.0.to_string();
        let cause = full.strip_suffix(&format!(" at line {line} column {column_bytes}")).unwrap_or(&full);
        let line_text = text.split('\n').nth(line.saturating_sub(1)).unwrap_or("");
        let before = line_text.get(..column_bytes).unwrap_or(line_text);
        let before = if self.is_syntax() { before } else { token_start(before, cause) };
        let column = match self.is_syntax() {
            true => before.chars().count().max(1),
            false => before.chars().count() + 1,
        };
        let problem = if self.is_syntax() { syntax(cause) } else { Problem::from_text(cause) };
        problem.located(source_name, text, line as u64, column as u64)
    }
}

/// Returns the text before the last token, because `serde_json` reports the position after the token.
fn token_start<'a>(before: &'a str, cause: &str) -> &'a str {
    let trimmed = before.trim_end();
    if cause.starts_with("missing field") || trimmed.ends_with(['}', ']', '{', '[']) {
        return trimmed.get(..trimmed.len().saturating_sub(1)).unwrap_or(trimmed);
    }
    let trimmed = trimmed.trim_end_matches([':', ',']).trim_end();
    if let Some(inside) = trimmed.strip_suffix('"') {
        let mut end = inside.len();
        while let Some(quote) = inside[..end].rfind('"') {
            let escapes = inside[..quote].len() - inside[..quote].trim_end_matches('\\').len();
            if escapes % 2 == 0 {
                return &inside[..quote];
            }
            end = quote;
        }
        return inside;
    }
    trimmed.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
}

fn syntax(cause: &str) -> Problem<()> {
    let remedy = match cause {
        "trailing comma" => "remove the comma before the closing bracket",
        "trailing characters" => "keep one document and remove what follows it",
        "recursion limit exceeded" => "nest less deeply: at most 127 levels",
        "key must be a string" => "put the key into double quotes",
        "expected value" => {
            "write a JSON value: an object, a list, a string in double quotes, a number, \
                             true, false or null"
        }
        text if text.starts_with("EOF") => "add the missing bracket or quote at the end",
        _ => "fix the JSON syntax here",
    };
    Problem::new(cause, remedy)
}

/// Walks a document without building a value, and rejects objects with duplicate keys.
#[derive(Clone, Copy)]
struct UniqueKeys;

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Most objects are small, and comparing a key with a few others is faster than hashing it.
        let mut few: Vec<Cow<'de, str>> = Vec::new();
        let mut many: HashSet<Cow<'de, str>> = HashSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if few.contains(&key) || many.contains(&key) {
                return Err(serde::de::Error::custom(format_args!("duplicate field `{key}`")));
            }
            if few.len() < 16 {
                few.push(key);
            } else {
                many.insert(key);
            }
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The key of an object. It is borrowed unless it contains escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
