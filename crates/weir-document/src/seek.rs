//! Walks along a path to one value of a document, without building the other values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What to do with the value at the end of a path.
pub(crate) trait AtEnd {
    /// Takes the value. The rest of the document is not read after that.
    fn take<'de, D: Deserializer<'de>>(&self, value: D) -> Result<(), D::Error>;
}

/// A path from one value to a value within it.
pub(crate) trait Path: Copy {
    /// Whether the path is at its end.
    fn is_end(self) -> bool;

    /// The rest of the path after the entry `name`; `None` if the path does not start with this entry.
    fn behind_name(self, name: &str) -> Option<Self>;

    /// The rest of the path after the list index `position`; `None` if the path does not start with this index.
    fn behind_element(self, position: usize) -> Option<Self>;
}

/// A path as a list of names and list indexes.
impl Path for &[&str] {
    fn is_end(self) -> bool {
        self.is_empty()
    }

    fn behind_name(self, name: &str) -> Option<Self> {
        self.split_first().filter(|(first, _)| **first == name).map(|(_, rest)| rest)
    }

    fn behind_element(self, position: usize) -> Option<Self> {
        let (first, rest) = self.split_first()?;
        (first.parse() == Ok(position)).then_some(rest)
    }
}

/// A path in text form, such as `routes[3].backend`. Names in it may contain dots.
#[derive(Clone, Copy)]
pub(crate) struct Written<'p>(pub(crate) &'p str);

impl Path for Written<'_> {
    fn is_end(self) -> bool {
        self.0.is_empty()
    }

    fn behind_name(self, name: &str) -> Option<Self> {
        let rest = self.0.strip_prefix(name)?;
        let is_whole = rest.is_empty() || rest.starts_with(['.', '[']);
        is_whole.then_some(Written(rest.strip_prefix('.').unwrap_or(rest)))
    }

    fn behind_element(self, position: usize) -> Option<Self> {
        let (place, rest) = self.0.strip_prefix('[')?.split_once(']')?;
        (place.parse() == Ok(position)).then_some(Written(rest.strip_prefix('.').unwrap_or(rest)))
    }
}

/// Walks along `path` and ignores other values. Once the value is found, it ends with an error, so that the reader
/// stops.
pub(crate) struct Seek<'a, P, E> {
    pub(crate) path: P,
    pub(crate) end: &'a E,
}

impl<'de, P: Path, E: AtEnd> DeserializeSeed<'de> for Seek<'_, P, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.path.is_end() {
            return deserializer.deserialize_any(self);
        }
        self.end.take(deserializer)?;
        Err(D::Error::custom("found"))
    }
}

impl<'de, P: Path, E: AtEnd> Visitor<'de> for Seek<'_, P, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.path.behind_name(&key) {
                Some(path) => map.next_value_seed(Seek { path, end: self.end })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for position in 0.. {
            let more = match self.path.behind_element(position) {
                Some(path) => list.next_element_seed(Seek { path, end: self.end })?.is_some(),
                None => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<F>(self, _: bool) -> Result<(), F> {
        Ok(())
    }

    fn visit_i64<F>(self, _: i64) -> Result<(), F> {
        Ok(())
    }

    fn visit_u64<F>(self, _: u64) -> Result<(), F> {
        Ok(())
    }

    fn visit_f64<F>(self, _: f64) -> Result<(), F> {
        Ok(())
    }

    fn visit_str<F>(self, _: &str) -> Result<(), F> {
        Ok(())
    }

    fn visit_unit<F>(self) -> Result<(), F> {
        Ok(())
    }
}
