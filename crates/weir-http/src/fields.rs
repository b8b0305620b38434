//! Header fields: their storage, lists in their values, and hop-by-hop fields.

use std::mem::MaybeUninit;

use crate::work;

/// A header field. `name` is a token. `value` has no white space around it, no line end, and no control characters
/// except tabs.
pub type Field<'a> = httparse::Header<'a>;

/// Maximum number of header fields in a message.
pub const FIELDS_MAX: usize = 128;

/// Storage for header fields, created on the stack for each parse. Unused slots stay uninitialized.
pub struct FieldSlots<'a>(pub(crate) [MaybeUninit<Field<'a>>; FIELDS_MAX]);

impl FieldSlots<'_> {
    /// Creates storage for [`FIELDS_MAX`] fields.
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

/// Maximum number of header fields that `Connection` may name, besides hop-by-hop fields. Real clients name fewer.
/// Each of these names must be compared with each header field.
pub const CONNECTION_NAMES_MAX: usize = 16;

/// Maximum number of options in `Connection`, including empty ones.
pub const CONNECTION_OPTIONS_MAX: usize = 128;

/// The header fields that a proxy forwards: all except hop-by-hop fields and fields that `Connection` names.
#[derive(Debug, Clone)]
pub struct EndToEnd<'a> {
    fields: &'a [Field<'a>],
    /// Which fields `Connection` names: bit n stands for the field with index n.
    named: u128,
    is_any_named: bool,
}

const _: () = assert!(FIELDS_MAX <= u128::BITS as usize);

impl<'a> EndToEnd<'a> {
    #[inline]
    pub(crate) fn new(fields: &'a [Field<'a>], connection_names_fields: bool) -> Self {
        let named = if connection_names_fields { named_by_connection(fields) } else { 0 };
        EndToEnd { fields, named, is_any_named: connection_names_fields }
    }
}

impl<'a> Iterator for EndToEnd<'a> {
    type Item = &'a Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<&'a Field<'a>> {
        while let Some((field, rest)) = self.fields.split_first() {
            work::count(1);
            self.fields = rest;
            if self.is_any_named {
                let is_named = self.named & 1 == 1;
                self.named >>= 1;
                if is_named {
                    continue;
                }
            }
            if !is_hop_by_hop(field.name) {
                return Some(field);
            }
        }
        None
    }
}

/// Returns which of `fields` are named by `Connection`: bit n stands for the field with index n.
///
/// The options are collected once. After that, each field takes at most [`CONNECTION_NAMES_MAX`] comparisons,
/// however long the list is.
#[cold]
fn named_by_connection(fields: &[Field<'_>]) -> u128 {
    let mut names: [&[u8]; CONNECTION_NAMES_MAX] = [&[]; CONNECTION_NAMES_MAX];
    let options = fields_named(fields, "connection").flat_map(|field| list_elements(field.value));
    let mut count = 0;
    // The parser has already rejected lists with more names than fit into this array.
    for (slot, option) in names.iter_mut().zip(options.filter(|option| names_a_field(option))) {
        *slot = option;
        count += 1;
    }
    let mut named = 0;
    for (index, field) in fields.iter().enumerate() {
        let is_named = names[..count].iter().any(|name| {
            work::count(1 + if name.len() == field.name.len() { name.len() } else { 0 });
            name.eq_ignore_ascii_case(field.name.as_bytes())
        });
        named |= u128::from(is_named) << index;
    }
    named
}

/// Whether this `Connection` option makes a proxy drop a header field that it would otherwise forward.
#[inline]
fn names_a_field(option: &[u8]) -> bool {
    match option.len() {
        0 => false,
        2 => !option.eq_ignore_ascii_case(b"te"),
        5 => !option.eq_ignore_ascii_case(b"close"),
        7 => !option.eq_ignore_ascii_case(b"upgrade"),
        10 => !option.eq_ignore_ascii_case(b"keep-alive"),
        _ => !is_forwarding_field(option),
    }
}

/// Whether this header field informs the next hop about the client: `Forwarded`, `X-Forwarded-*` or `X-Real-IP`.
///
/// Such fields are forwarded even if `Connection` names them. Some proxies forward the `Connection` options of
/// their clients, so a client could otherwise remove a field that the proxy has added.
pub fn is_forwarding_field(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded-";
    let is_prefixed = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    is_prefixed || name.eq_ignore_ascii_case(b"forwarded") || name.eq_ignore_ascii_case(b"x-real-ip")
}

/// Whether a header field is hop-by-hop, so that it is never forwarded (RFC 9110, 7.6.1).
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

/// Returns the value of the first field with this name, ignoring case.
pub fn find_field<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields_named(fields, name).next().map(|field| field.value)
}

/// Returns all fields with this name, ignoring case.
#[inline]
pub fn fields_named<'f, 'a>(fields: &'f [Field<'a>], name: &str) -> impl Iterator<Item = &'f Field<'a>> {
    fields.iter().filter(move |field| {
        work::count(1);
        field.name.eq_ignore_ascii_case(name)
    })
}

/// Whether a comma-separated list contains this element, ignoring case.
pub fn list_contains(value: &[u8], element: &str) -> bool {
    list_elements(value).any(|e| e.eq_ignore_ascii_case(element.as_bytes()))
}

/// Returns the elements of a comma-separated list without surrounding whitespace. Keeps empty elements.
#[inline]
pub fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    elements(value, b',')
}

/// Returns the parts of a value between `separator`s without surrounding whitespace. Keeps empty parts.
#[inline]
pub fn elements(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    value.split(move |&byte| byte == separator).map(|element| {
        work::count(1 + element.len());
        trim(element)
    })
}

/// Whether a token may contain this byte (RFC 9110, 5.6.2).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
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
    fn connection_cannot_remove_forwarding_fields() {
        let forwarding = ["X-Forwarded-For", "x-forwarded-proto", "Forwarded", "X-Real-IP"];
        let mut fields = vec![Field {
            name: "Connection",
            value: b"close, x-forwarded-FOR, X-Forwarded-Proto, forwarded, x-real-ip, x-own, x-forwarded",
        }];
        fields.extend(forwarding.map(|name| Field { name, value: b"1" }));
        fields.extend(["X-Own", "X-Forwarded"].map(|name| Field { name, value: b"1" }));
        let names: Vec<_> = EndToEnd::new(&fields, true).map(|f| f.name).collect();
        assert_eq!(names, forwarding);
    }

    #[test]
    fn connection_can_name_the_last_of_the_maximum_number_of_fields() {
        let mut fields = vec![Field { name: "a", value: b"" }; FIELDS_MAX - 1];
        fields[0] = Field { name: "Connection", value: b"x, y,,B" };
        fields.push(Field { name: "b", value: b"" });
        let names: Vec<_> = EndToEnd::new(&fields, true).map(|f| f.name).collect();
        assert_eq!(names, vec!["a"; FIELDS_MAX - 2]);
    }

    #[test]
    fn lists_ignore_case_and_whitespace() {
        assert!(list_contains(b"a,\tClose ,b", "close"));
        assert!(!list_contains(b"a, closed", "close"));
        assert!(!list_contains(b"", "close"));
    }
}
