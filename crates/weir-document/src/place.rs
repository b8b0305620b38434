//! Finds the positions of values in a document, for errors that are found after parsing.

use std::cell::Cell;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed as _, Deserializer, IgnoredAny};
use serde_saphyr::Spanned;

use crate::error::offset_of;
use crate::seek::{AtEnd, Path, Seek, Written};

/// Returns line and column of the value at `path`, which consists of names and list indexes. Lines and columns count
/// from 1. Columns count characters.
///
/// If there is no such value, returns the position of its nearest existing parent. `None` if even the first name does
/// not exist.
pub fn place<S: AsRef<str>>(text: &str, path: &[S]) -> Option<(u64, u64)> {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    // Each attempt parses the text again, which is acceptable because errors are rare and paths are short.
    (1..=path.len()).rev().find_map(|depth| exact_place(text, &path[..depth]))
}

/// As [`place`], for a path in text form like `routes[3].backend`, in which names may contain dots.
pub fn place_of_field(text: &str, path: &str) -> Option<(u64, u64)> {
    let mut shorter =
        std::iter::successors(Some(path), |path| path.rfind(['.', '[']).map(|end| &path[..end]));
    shorter.find_map(|path| if path.is_empty() { None } else { exact_place(text, Written(path)) })
}

/// Returns line and column of a key in the top-level mapping.
pub(crate) fn place_of_name(text: &str, name: &str) -> Option<(u64, u64)> {
    place_of_key(text, &[name])
}

/// Returns line and column of the last key of `path`. [`place`] returns the position of its value.
pub fn place_of_key<S: AsRef<str>>(text: &str, path: &[S]) -> Option<(u64, u64)> {
    let name = path.last()?.as_ref();
    let (line, column) = place(text, path)?;
    // Between a key and its value there are only a colon and white space.
    let before = &text[..offset_of(text, line, column)?];
    let word = before.rfind(name)?;
    let start = word - usize::from(before[..word].ends_with(['"', '\'']));
    let line_start = before[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let (lines, characters) =
        (before[..start].matches('\n').count(), before[line_start..start].chars().count());
    Some((lines as u64 + 1, characters as u64 + 1))
}

fn exact_place(text: &str, path: impl Path) -> Option<(u64, u64)> {
    let found = Found(Cell::new(None));
    let seek = Seek { path, end: &found };
    // Ignore the result. When the walk has found the value, it stops with an error. Errors of the document do not
    // matter here.
    let read = |document: serde_saphyr::Deserializer<'_, '_>| seek.deserialize(document);
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, crate::yaml::options(), read);
    found.0.get()
}

/// The position of the value, once it is found.
struct Found(Cell<Option<(u64, u64)>>);

impl AtEnd for Found {
    fn take<'de, D: Deserializer<'de>>(&self, value: D) -> Result<(), D::Error> {
        let value = <Spanned<IgnoredAny>>::deserialize(value)?;
        if value.referenced.line() > 0 {
            self.0.set(Some((value.referenced.line(), value.referenced.column())));
        }
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
    fn missing_values_have_the_position_of_their_parent() {
        check("loads.full.rate", Some((3, 9)));
        check("name.x.y", Some((1, 7)));
        check("nothing", None);
    }

    #[test]
    fn names_with_dots_are_found_by_text_paths() {
        let text = "backends:\n  api: { tls: {} }\n  api.v1: { endpoints: [x, y], tls: { a.b: 1 } }\n";
        let check = |path: &str, expected: Option<(u64, u64)>| {
            assert_eq!(place_of_field(text, path), expected, "{path}")
        };
        check("backends.api.tls", Some((2, 15)));
        check("backends.api.v1.endpoints[1]", Some((3, 28)));
        check("backends.api.v1.tls.a.b", Some((3, 44)));
        check("backends.api.v1.tls.ca", Some((3, 37)));
        check("backends.api.v1.endpoints[2].x", Some((3, 24)));
        check("backends.api.v2", Some((2, 8)));
        check("routes[0]", None);
        check("", None);
    }

    #[test]
    fn positions_of_keys_are_found() {
        assert_eq!(place_of_name(TEXT, "name"), Some((1, 1)));
        assert_eq!(place_of_name(TEXT, "loads"), Some((2, 1)));
        assert_eq!(place_of_name("{ a: 1, \"b\": 2 }", "b"), Some((1, 9)));
        assert_eq!(place_of_name(TEXT, "nothing"), None);
    }

    #[test]
    fn json_has_positions_and_malformed_text_has_none() {
        assert_eq!(place("{\"a\": {\n \"b\": 1}}", &["a", "b"]), Some((2, 7)));
        assert_eq!(place("{ a: [", &["b"]), None);
    }
}
