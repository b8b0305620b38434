//! Fields of a head: storage for them, lists in values, and which of them stay on one connection.

use std::mem::MaybeUninit;

/// One field: `name` is a token, `value` has no line ends or controls but tabs, and no white space around.
pub type Field<'a> = httparse::Header<'a>;

/// The most fields a head can have.
pub const FIELDS_MAX: usize = 128;

/// Room for a head's fields, made on the stack for each parse; nothing is initialized before it is used.
pub struct FieldSlots<'a>(pub(crate) [MaybeUninit<Field<'a>>; FIELDS_MAX]);

impl FieldSlots<'_> {
    /// Room for [`FIELDS_MAX`] fields.
    #[inline]
    pub fn new() -> Self {
        FieldSlots([const { MaybeUninit::uninit() }; FIELDS_MAX])
    }
}

impl Default for FieldSlots<'_> {
    fn default() -> Self {
        FieldSlots::new()
    }
}

impl std::fmt::Debug for FieldSlots<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FieldSlots")
    }
}

/// The fields that a proxy passes on: without hop-by-hop fields and those that `Connection` names.
#[derive(Debug, Clone)]
pub struct EndToEnd<'a> {
    fields: &'a [Field<'a>],
    all: &'a [Field<'a>],
    connection_names_fields: bool,
}

impl<'a> EndToEnd<'a> {
    pub(crate) fn new(fields: &'a [Field<'a>], connection_names_fields: bool) -> Self {
        EndToEnd { fields, all: fields, connection_names_fields }
    }
}

impl<'a> Iterator for EndToEnd<'a> {
    type Item = &'a Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<&'a Field<'a>> {
        while let Some((field, rest)) = self.fields.split_first() {
            self.fields = rest;
            let named = self.connection_names_fields && is_named_by_connection(self.all, field.name);
            if !named && !is_hop_by_hop(field.name) {
                return Some(field);
            }
        }
        None
    }
}

/// Whether a field belongs to one connection and is never passed on (RFC 9110, 7.6.1).
#[inline]
pub fn is_hop_by_hop(name: &str) -> bool {
    match name.len() {
        2 => name.eq_ignore_ascii_case("te"),
        7 => name.eq_ignore_ascii_case("upgrade"),
        10 => name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("keep-alive"),
        16 => name.eq_ignore_ascii_case("proxy-connection"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        _ => false,
    }
}

/// The value of the first field with this name, ignoring case.
pub fn find_field<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// Whether a comma-separated list has this element, ignoring case.
pub fn list_contains(value: &[u8], element: &str) -> bool {
    list_elements(value).any(|e| e.eq_ignore_ascii_case(element.as_bytes()))
}

/// The elements of a comma-separated list without white space around them; empty ones stay.
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim)
}

/// Whether a byte may stand in a token (RFC 9110, 5.6.2).
#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z')
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

fn is_named_by_connection(fields: &[Field<'_>], name: &str) -> bool {
    fields.iter().any(|f| f.name.eq_ignore_ascii_case("connection") && list_contains(f.value, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_connection_are_left_out() {
        let field = |name, value: &'static str| Field { name, value: value.as_bytes() };
        let fields = [
            field("Host", "a"),
            field("connection", "close, X-Own"),
            field("Keep-Alive", "timeout=5"),
            field("x-own", "1"),
            field("X-Other", "2"),
            field("TE", "trailers"),
            field("Proxy-Connection", "keep-alive"),
            field("Upgrade", "websocket"),
            field("Transfer-Encoding", "chunked"),
        ];
        let names: Vec<_> = EndToEnd::new(&fields, true).map(|f| f.name).collect();
        assert_eq!(names, ["Host", "X-Other"]);
        let names: Vec<_> = EndToEnd::new(&fields, false).map(|f| f.name).collect();
        assert_eq!(names, ["Host", "x-own", "X-Other"]);
    }

    #[test]
    fn lists_ignore_case_and_white_space() {
        assert!(list_contains(b"a,\tClose ,b", "close"));
        assert!(!list_contains(b"a, closed", "close"));
        assert!(!list_contains(b"", "close"));
    }
}
