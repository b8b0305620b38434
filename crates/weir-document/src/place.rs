//! Where a value stands in a document, for errors that only a look at the whole can find.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Line and column (both from 1, columns in characters) of the value at `path`, of names and list places.
///
/// Where the document does not go as deep, the place of the last value that is there; `None` where not even
/// the path's first name is.
pub fn place<S: AsRef<str>>(text: &str, path: &[S]) -> Option<(u64, u64)> {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    // Every try reads the text once more: errors are rare, and paths are a few names long.
    (1..=path.len()).rev().find_map(|depth| exact_place(text, &path[..depth]))
}

fn exact_place(text: &str, path: &[&str]) -> Option<(u64, u64)> {
    let found = Cell::new(None);
    let seek = Seek { path, found: &found };
    // Errors of the document itself do not matter here, and the seek ends by one when it has found its value.
    let read = |document: serde_saphyr::Deserializer<'_, '_>| seek.deserialize(document);
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, crate::yaml::options(), read);
    found.get()
}

/// Walks along `path` and notes the place of the value at its end.
#[derive(Clone, Copy)]
struct Seek<'a> {
    path: &'a [&'a str],
    found: &'a Cell<Option<(u64, u64)>>,
}

impl<'a> Seek<'a> {
    fn inward(self) -> Self {
        Self { path: &self.path[1..], found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.path.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let value = <Spanned<IgnoredAny> as serde::Deserialize>::deserialize(deserializer)?;
        if value.referenced.line() > 0 {
            self.found.set(Some((value.referenced.line(), value.referenced.column())));
        }
        Err(D::Error::custom("found"))
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.path.first() {
                Some(name) if *name == key => map.next_value_seed(self.inward())?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let wanted: Option<usize> = self.path.first().and_then(|place| place.parse().ok());
        for position in 0.. {
            let more = match wanted == Some(position) {
                true => list.next_element_seed(self.inward())?.is_some(),
                false => list.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "name: side\nloads:\n  full: { model: closed, connections: 10 }\nlist:\n  - a\n  - { b: 1 }\n";

    #[track_caller]
    fn check(path: &str, expected: Option<(u64, u64)>) {
        let path: Vec<&str> = path.split('.').collect();
        assert_eq!(place(TEXT, &path), expected);
    }

    #[test]
    fn values_are_found_in_maps_and_lists() {
        check("name", Some((1, 7)));
        check("loads.full.connections", Some((3, 39)));
        check("list.0", Some((5, 5)));
        check("list.1.b", Some((6, 10)));
    }

    #[test]
    fn what_is_not_there_is_placed_at_what_is() {
        check("loads.full.rate", Some((3, 9)));
        check("name.x.y", Some((1, 7)));
        check("nothing", None);
    }

    #[test]
    fn json_is_read_too_and_broken_text_has_no_places() {
        assert_eq!(place("{\"a\": {\n \"b\": 1}}", &["a", "b"]), Some((2, 7)));
        assert_eq!(place("{ a: [", &["b"]), None);
    }
}
