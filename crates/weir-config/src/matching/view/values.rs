//! Lookups of header values and query parameters in one request, for the conditions of all routes.
//!
//! The first lookups scan the request, which is cheapest for a few names. Later ones use an index, so that the work
//! does not grow with the number of routes multiplied by the size of the request.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::cmp::Ordering;

use weir_http::work;

use super::{RequestView, form_decoded, pairs};

/// Number of lookups that scan the request before an index is built.
const SCANS_MAX: u8 = 3;

/// A request with indexes of its values, which are built after [`SCANS_MAX`] lookups.
pub(crate) struct Values<'v, 'r> {
    pub(crate) request: &'v RequestView<'r>,
    fields: Index<'r>,
    parameters: Index<'r>,
}

/// Values sorted by name, built when needed. The index is sorted, not hashed, because clients choose the names and
/// could choose many with the same hash.
#[derive(Default)]
struct Index<'r> {
    scans: Cell<u8>,
    sorted: OnceCell<Vec<Named<'r>>>,
}

struct Named<'r> {
    name: Cow<'r, [u8]>,
    value: Cow<'r, [u8]>,
}

impl<'v, 'r> Values<'v, 'r> {
    pub(crate) fn of(request: &'v RequestView<'r>) -> Values<'v, 'r> {
        Values { request, fields: Index::default(), parameters: Index::default() }
    }

    /// As [`RequestView::field`]; `name` must be in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        if self.fields.may_scan() {
            return self.request.field(name);
        }
        self.fields.get(name, || joined_fields(self.request))
    }

    /// As [`RequestView::parameter`].
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        if self.parameters.may_scan() {
            return self.request.parameter(name);
        }
        self.parameters.get(name, || first_parameters(self.request))
    }
}

impl<'r> Index<'r> {
    fn may_scan(&self) -> bool {
        let scans = self.scans.get();
        self.scans.set(scans.saturating_add(1));
        scans < SCANS_MAX
    }

    fn get(&self, name: &str, make: impl FnOnce() -> Vec<Named<'r>>) -> Option<Cow<'_, [u8]>> {
        let sorted = self.sorted.get_or_init(make);
        let found = sorted.binary_search_by(|named| order(&named.name, name.as_bytes())).ok()?;
        Some(Cow::Borrowed(&*sorted[found].value))
    }
}

/// All headers by name, in lower case. Values of repeated headers are joined.
fn joined_fields<'r>(request: &RequestView<'r>) -> Vec<Named<'r>> {
    let lower = |name: &'r str| match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase().into_bytes()),
        false => Cow::Borrowed(name.as_bytes()),
    };
    let fields = request.fields.iter();
    let mut all: Vec<Named<'r>> =
        fields.map(|field| Named { name: lower(field.name), value: Cow::Borrowed(field.value) }).collect();
    all.sort_by(|a, b| order(&a.name, &b.name));
    all.dedup_by(|later, first| {
        let is_same = later.name == first.name;
        if is_same {
            work::count(later.value.len());
            let list = first.value.to_mut();
            list.extend_from_slice(b", ");
            list.extend_from_slice(&later.value);
        }
        is_same
    });
    all
}

/// The first value of each query parameter, by decoded name. Empty names are skipped, because no condition uses them.
fn first_parameters<'r>(request: &RequestView<'r>) -> Vec<Named<'r>> {
    let named = pairs(request.query).filter(|(name, _)| !name.is_empty());
    let mut all: Vec<Named<'r>> =
        named.map(|(name, value)| Named { name: form_decoded(name), value: form_decoded(value) }).collect();
    all.sort_by(|a, b| order(&a.name, &b.name));
    all.dedup_by(|later, first| later.name == first.name);
    all
}

fn order(a: &[u8], b: &[u8]) -> Ordering {
    work::count(1 + a.len().min(b.len()));
    a.cmp(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_http::Field;

    #[test]
    fn index_finds_the_same_values_as_a_scan() {
        let field = |name, value: &'static str| Field { name, value: value.as_bytes() };
        let fields =
            [field("X-A", "1"), field("b", ""), field("x-a", "3, 4"), field("X-B", "q"), field("X-a", "")];
        for query in
            [None, Some(""), Some("b=1&a=2&a=3"), Some("&&=x&%61=x+%2B%zz%&a=1&A=2&c"), Some("%zz=1")]
        {
            let view = RequestView { query, fields: &fields, ..RequestView::get("h", "/") };
            let values = Values::of(&view);
            let names = ["a", "b", "c", "d", "A", "x-a", "x-b", "%zz"];
            for name in names.iter().cycle().take(3 * names.len()) {
                assert_eq!(values.parameter(name), view.parameter(name), "{query:?} {name}");
                let lower = name.to_ascii_lowercase();
                assert_eq!(values.field(&lower), view.field(&lower), "{name}");
            }
            assert!(values.parameters.sorted.get().is_some() && values.fields.sorted.get().is_some());
        }
    }
}
