//! Checks one part of a document. This finds further errors in a document that could not be read as a whole.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::place::{place, place_of_name};
use crate::problem::{Position, Problem};
use crate::seek::{AtEnd, Seek};

/// A part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'p> {
    /// A field of the document's mapping.
    Field(&'p str),
    /// One element of a field's list.
    Element(&'p str, usize),
    /// One entry of a field's mapping.
    Entry(&'p str, &'p str),
}

impl<'p> Part<'p> {
    fn field(self) -> &'p str {
        match self {
            Part::Field(field) | Part::Element(field, _) | Part::Entry(field, _) => field,
        }
    }
}

/// Returns the error that [`crate::read`] would return if the document contained only this part. `None` if the part is
/// valid or missing. The other required fields (`needs`) count as empty lists, so their absence is no error.
pub fn wrong_part<T: DeserializeOwned>(
    source_name: &str,
    text: &str,
    part: Part<'_>,
    needs: &[&str],
) -> Option<Problem<Position>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let element = match part {
        Part::Element(_, position) => position.to_string(),
        _ => String::new(),
    };
    let path = match part {
        Part::Field(field) => vec![field],
        Part::Element(field, _) => vec![field, &element],
        Part::Entry(field, name) => vec![field, name],
    };
    let alone = Alone { part, needs, is_wrong: Cell::new(false), form: PhantomData::<T> };
    let seek = Seek { path: path.as_slice(), end: &alone };
    let error = match source_name.ends_with(".json") {
        true => crate::json::seek(text, seek)?.at(source_name, text),
        false => crate::yaml::seek(source_name, text, seek)?,
    };
    alone.is_wrong.get().then(|| placed(error, text, &path))
}

/// Corrects the position of `error`. If the field `path[0]` is unknown, the error gets the position of the field's
/// name. Any other error gets the position of the part if it has none.
fn placed(error: Problem<Position>, text: &str, path: &[&str]) -> Problem<Position> {
    let is_unknown = error.message == Problem::unknown_field(path[0], &[]).message;
    let found = match error.place.line {
        _ if is_unknown => place_of_name(text, path[0]),
        0 => place(text, path),
        _ => None,
    };
    match found {
        Some((line, column)) => error.moved_to(line, column),
        None => error,
    }
}

/// Reads a `T` from a [`Document`] that contains only the value of `part`.
struct Alone<'a, T> {
    part: Part<'a>,
    needs: &'a [&'a str],
    is_wrong: Cell<bool>,
    form: PhantomData<T>,
}

impl<T: DeserializeOwned> AtEnd for Alone<'_, T> {
    fn take<'de, D: Deserializer<'de>>(&self, value: D) -> Result<(), D::Error> {
        let needs = self.needs.iter().filter(|need| **need != self.part.field()).copied().collect();
        let document = Document { part: self.part, value: Some(value), needs, is_needed: false };
        let read = T::deserialize(MapAccessDeserializer::new(document));
        self.is_wrong.set(read.is_err());
        read.map(drop)
    }
}

/// The document that [`Alone`] reads. It is a mapping: first the field that contains the part, then the other required
/// fields.
struct Document<'a, D> {
    part: Part<'a>,
    /// The value of the part; `None` once it is read.
    value: Option<D>,
    needs: Vec<&'a str>,
    /// Whether the field that contains the part was already read. The other required fields are read after it.
    is_needed: bool,
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for Document<'_, D> {
    type Error = D::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, D::Error> {
        let name = match self.is_needed {
            false => Some(self.part.field()),
            true => self.needs.pop(),
        };
        name.map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, D::Error> {
        self.is_needed = true;
        match (self.value.take(), self.part) {
            (None, _) => seed.deserialize(SeqDeserializer::new(std::iter::empty::<u8>())),
            (Some(value), Part::Field(_)) => seed.deserialize(value),
            (Some(value), Part::Element(..)) => seed.deserialize(Around { name: None, value }),
            (Some(value), Part::Entry(_, name)) => seed.deserialize(Around { name: Some(name), value }),
        }
    }
}

/// A value wrapped in a list, or in a mapping if it has a name.
struct Around<'a, D> {
    name: Option<&'a str>,
    value: D,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Around<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        match self.name {
            None => visitor.visit_seq(One { name: None, value: Some(self.value) }),
            name => visitor.visit_map(One { name, value: Some(self.value) }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Access to the only element of a list, or the only entry of a mapping. Each field becomes `None` when it is taken.
struct One<'a, D> {
    name: Option<&'a str>,
    value: Option<D>,
}

impl<'de, D: Deserializer<'de>> SeqAccess<'de> for One<'_, D> {
    type Error = D::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, D::Error> {
        self.value.take().map(|value| seed.deserialize(value)).transpose()
    }
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for One<'_, D> {
    type Error = D::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, D::Error> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, D::Error> {
        // Serde requests each value once, after its key.
        let value = self
            .value
            .take()
            .ok_or_else(|| serde::de::Error::custom("the value of the only entry was requested twice"))?;
        seed.deserialize(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::Time;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Doc {
        names: Vec<String>,
        #[serde(default)]
        times: BTreeMap<String, Time>,
        #[serde(default)]
        count: u32,
        #[serde(default)]
        more: Option<Vec<Time>>,
    }

    const TEXT: &str =
        "names: [a]\ncount: many\ntimes:\n  x: 10\n  y: 20ms\n  z: 30\nmore: [1s, 2]\ntime: 1s\n";

    #[track_caller]
    fn check(source_name: &str, text: &str, part: Part<'_>, expected: Option<&str>) {
        let reported = wrong_part::<Doc>(source_name, text, part, &["names"]).map(|error| error.to_string());
        assert_eq!(reported.as_deref(), expected, "{part:?}");
    }

    #[test]
    fn errors_of_each_part_have_positions() {
        check("a.yaml", TEXT, Part::Element("names", 0), None);
        check(
            "a.yaml",
            TEXT,
            Part::Field("count"),
            Some("a.yaml:2:8: `many` is not a whole number (0 or more)"),
        );
        check("a.yaml", TEXT, Part::Entry("times", "x"), Some("a.yaml:4:6: `10` has no unit"));
        check("a.yaml", TEXT, Part::Entry("times", "y"), None);
        check("a.yaml", TEXT, Part::Entry("times", "z"), Some("a.yaml:6:6: `30` has no unit"));
        check("a.yaml", TEXT, Part::Element("more", 0), None);
        check("a.yaml", TEXT, Part::Element("more", 1), Some("a.yaml:7:12: `2` has no unit"));
        check("a.yaml", TEXT, Part::Field("time"), Some("a.yaml:8:1: unknown field `time`"));
        check("a.yaml", TEXT, Part::Field("nothing"), None);
    }

    #[test]
    fn errors_of_json_parts_have_positions() {
        let text = "{\"names\": [],\n \"times\": {\"x\": 10, \"y\": 5},\n \"tiems\": 1}";
        check("a.json", text, Part::Entry("times", "y"), Some("a.json:2:26: `5` has no unit"));
        check("a.json", text, Part::Field("tiems"), Some("a.json:3:2: unknown field `tiems`"));
        check("a.json", text, Part::Field("names"), None);
    }
}
