//! A request in the form that routes match.

use std::borrow::Cow;

use weir_http::{Field, fields_named, work};

use crate::matching::Scope;
use crate::path::unescaped;

mod values;

pub(crate) use values::Values;

/// The parts of a request that routes match. Everything is borrowed, and read only as far as routes need it.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'r> {
    /// The method; case-sensitive.
    pub method: &'r str,
    /// The authority: a host with an optional port. Empty if an HTTP/1.0 client sent none.
    pub host: &'r str,
    /// The path in normal form, as [`crate::NormalTarget`] returns it, or `*`.
    pub path: &'r str,
    /// The query without its question mark.
    pub query: Option<&'r str>,
    /// All header fields, in order.
    pub fields: &'r [Field<'r>],
    /// The scope of the listener that accepted the request.
    pub scope: Scope,
}

impl<'r> RequestView<'r> {
    /// A GET without query and headers. It can match only routes for every listener.
    pub fn get(host: &'r str, path: &'r str) -> RequestView<'r> {
        RequestView { method: "GET", host, path, query: None, fields: &[], scope: Scope::default() }
    }

    /// The value of the header `name`, ignoring case. Values of repeated headers are joined with `, ` (RFC 9110, 5.3).
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        let mut values = fields_named(self.fields, name).map(|field| field.value);
        let first = values.next()?;
        let Some(second) = values.next() else { return Some(Cow::Borrowed(first)) };
        let mut list = first.to_vec();
        for value in std::iter::once(second).chain(values) {
            work::count(value.len());
            list.extend_from_slice(b", ");
            list.extend_from_slice(value);
        }
        Some(Cow::Owned(list))
    }

    /// The value of the first query parameter `name`. Both are form-decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        let mut named = pairs(self.query).filter(|(key, _)| *form_decoded(key) == *name.as_bytes());
        named.next().map(|(_, value)| form_decoded(value))
    }
}

/// The names and values of a query, not decoded.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Decodes escapes, and plus signs as spaces. Invalid escapes stay as they are.
fn form_decoded(text: &str) -> Cow<'_, [u8]> {
    let mut rest = text.as_bytes();
    work::count(1 + rest.len());
    if !rest.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(rest);
    }
    let mut out = Vec::with_capacity(rest.len());
    while let [first, more @ ..] = rest {
        match unescaped(rest) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[3..];
            }
            None => {
                out.push(if *first == b'+' { b' ' } else { *first });
                rest = more;
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_header_fields_of_one_name() {
        let field = |name, value: &'static str| Field { name, value: value.as_bytes() };
        let fields = [field("X-A", "1"), field("b", "2"), field("x-a", "3, 4"), field("X-a", "")];
        let view = RequestView { fields: &fields, ..RequestView::get("h", "/") };
        assert_eq!(view.field("x-A").as_deref(), Some(&b"1, 3, 4, "[..]));
        assert_eq!(view.field("B").as_deref(), Some(&b"2"[..]));
        assert_eq!(view.field("c"), None);
    }

    #[test]
    fn decodes_query_parameters_and_uses_the_first() {
        let check = |query: Option<&str>, name: &str, expected: Option<&str>| {
            let view = RequestView { query, ..RequestView::get("h", "/") };
            assert_eq!(view.parameter(name).as_deref(), expected.map(str::as_bytes), "{query:?} {name}");
        };
        check(None, "a", None);
        check(Some(""), "a", None);
        check(Some("a"), "a", Some(""));
        check(Some("b=1&a=2&a=3"), "a", Some("2"));
        check(Some("&&a=b=c"), "a", Some("b=c"));
        check(Some("%61=x+%2B%zz%"), "a", Some("x +%zz%"));
        check(Some("A=1"), "a", None);
        check(Some("a=%C3%A4"), "a", Some("ä"));
    }
}
