//! Properties of `TrustedElements`, which reads the elements that trusted proxies append to `X-Forwarded-For` or
//! `Forwarded`. The properties hold for any input from the client. Tests and a fuzz target check them.
//!
//! The bytes of the test input select what the client sends, what each trusted proxy appends, and how.

use std::net::IpAddr;

use weir_http::{AddressField, Field, TrustedElements};

/// Fragments that attackers use. Low input bytes select a fragment; high ones stand for themselves.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b",",
    b";",
    b"=",
    b"=\"",
    b"\\\"",
    b"\\\\",
    b" ",
    b"\t",
    b"for=",
    b"6.6.6.6",
    b"host=\"",
    b"\xff",
    b"\xe2\x82",
    b", ",
    b"unknown",
    b"_hidden",
    b"[2001:db8::6]",
    b"[",
    b"]:",
    b":4711",
    b"for=\"6.6.6.6\"",
    b"\"x",
];

/// How trusted proxies identify their clients: the text in `X-Forwarded-For`, the text in `Forwarded`, and the
/// address that must be found.
const NODES: [(&str, &str, Option<&str>); 9] = [
    ("192.0.2.1", "192.0.2.1", Some("192.0.2.1")),
    ("192.0.2.2:80", "\"192.0.2.2:80\"", Some("192.0.2.2")),
    ("2001:db8::3", "\"[2001:db8::3]\"", Some("2001:db8::3")),
    ("[2001:db8::4]:4711", "\"[2001:db8::4]:4711\"", Some("2001:db8::4")),
    ("[2001:db8::5]", "\"[2001:db8::5]\"", Some("2001:db8::5")),
    ("::ffff:192.0.2.6", "\"[::ffff:192.0.2.6]\"", Some("192.0.2.6")),
    ("192.0.2.7:_port", "\"192.0.2.7:\\_port\"", Some("192.0.2.7")),
    ("unknown", "unknown", None),
    ("_hidden", "_hidden", None),
];

/// Parameters that a proxy may add to an element of `Forwarded`: (before `for`, after `for`).
const PARAMETERS: [(&str, &str); 7] = [
    ("", ""),
    ("", ";proto=https"),
    ("host=\"h:80\"; ", ";by=_a"),
    ("host=\"a,b;for=6.6.6.6\";", ""),
    ("", ";host=\"\\\"=\\\\\""),
    ("ext=\"\";", ";host=\"x\\\", for=6.6.6.6\""),
    ("by=\"[2001:db8::9]\";", ";ext=\"\\=\\\"\""),
];

struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// Returns any valid field value.
    fn value(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        for _ in 0..self.byte() % 12 {
            match self.byte() {
                piece if usize::from(piece) < 4 * PIECES.len() => {
                    value.extend_from_slice(PIECES[usize::from(piece) % PIECES.len()]);
                }
                byte @ (b' '..=b'~' | 0x80..) => value.push(byte),
                _ => {}
            }
        }
        value.trim_ascii().to_vec()
    }
}

/// Checks the properties of both header fields with the choices in `data`.
pub(crate) fn check(data: &[u8]) {
    for field in [AddressField::XForwardedFor, AddressField::Forwarded] {
        check_trusted(field, &mut Choices(data));
        check_naive(field, &mut Choices(data));
    }
}

/// Checks that the reader finds exactly the elements that the trusted proxies appended, for any input from the client.
fn check_trusted(field: AddressField, choices: &mut Choices<'_>) {
    let mut lines: Vec<Vec<u8>> = (0..choices.byte() % 4).map(|_| choices.value()).collect();
    let hops = usize::from(choices.byte() % 4) + 1;
    let mut nodes = Vec::new();
    for _ in 0..hops {
        let node @ (plain, quoted, _) = choices.of(&NODES);
        let (before, behind) = choices.of(&PARAMETERS);
        let element = match field {
            AddressField::XForwardedFor => plain.to_owned(),
            AddressField::Forwarded => format!("{before}for={quoted}{behind}"),
        };
        append(&mut lines, element.as_bytes(), choices.byte());
        nodes.push(node);
    }
    let fields = fields_of(field, &lines);
    let trusted = TrustedElements::of(&fields, field, hops);
    let expected = nodes[0].2.map(|address| address.parse::<IpAddr>().expect("an address"));
    assert_eq!(trusted.client(), expected, "{field:?} {hops} {}", shown(&lines));
    let mut reported = String::new();
    trusted.append_x_forwarded_for(&mut reported);
    let expected: String = nodes.iter().map(|(plain, ..)| format!("{}, ", bare(plain))).collect();
    assert_eq!(reported, expected, "{}", shown(&lines));
    // Writing the elements for the upstream and reading them again changes neither the client nor the number of
    // elements.
    let mut reported = String::new();
    trusted.append_forwarded(&mut reported);
    let onward = [Field { name: "forwarded", value: reported.as_bytes() }];
    let again = TrustedElements::of(&onward, AddressField::Forwarded, hops);
    assert_eq!((again.client(), again.oldest_first().count()), (trusted.client(), hops), "{reported}");
}

/// Removes brackets if no port follows them.
fn bare(node: &str) -> &str {
    node.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(node)
}

/// Appends an element in one of three ways: in a new line, to the last line, or after joining all lines.
fn append(lines: &mut Vec<Vec<u8>>, element: &[u8], how: u8) {
    let comma = [&b", "[..], b",", b" ,\t"][usize::from(how / 3) % 3];
    match how % 3 {
        0 => lines.push(element.to_vec()),
        1 if !lines.is_empty() => {
            let last = lines.last_mut().expect("a line");
            last.extend_from_slice(comma);
            last.extend_from_slice(element);
        }
        _ => {
            lines.push(element.to_vec());
            *lines = vec![lines.join(comma)];
        }
    }
}

/// Compares the result with the result of a simple reader, which goes byte by byte from the right.
fn check_naive(field: AddressField, choices: &mut Choices<'_>) {
    let hops = usize::from(choices.byte() % 18);
    let lines: Vec<Vec<u8>> = (0..choices.byte() % 4).map(|_| choices.value()).collect();
    let fields = fields_of(field, &lines);
    let trusted = TrustedElements::of(&fields, field, hops);
    let mut expected: Vec<Vec<u8>> =
        lines.iter().rev().flat_map(|line| from_the_right(field, line)).collect();
    expected.retain(|element| !element.is_empty());
    expected.truncate(hops.min(16));
    expected.reverse();
    let found: Vec<Vec<u8>> = trusted.oldest_first().map(<[u8]>::to_vec).collect();
    assert_eq!(found, expected, "{field:?} {hops} {}", shown(&lines));
    let mut reported = String::new();
    trusted.append_x_forwarded_for(&mut reported);
    let is_of_node = |byte: u8| byte.is_ascii_alphanumeric() || b"[]:._-".contains(&byte);
    let elements: Vec<&str> = reported.split_terminator(", ").collect();
    assert_eq!(elements.len(), found.len(), "{reported}");
    assert!(
        elements.iter().all(|reported| !reported.is_empty() && reported.bytes().all(is_of_node)),
        "{reported}"
    );
}

fn from_the_right(field: AddressField, line: &[u8]) -> Vec<Vec<u8>> {
    let (mut elements, mut reversed, mut is_quoted) = (Vec::new(), Vec::new(), false);
    for at in (0..line.len()).rev() {
        let byte = line[at];
        if byte == b',' && !is_quoted {
            elements.push(std::mem::take(&mut reversed));
            continue;
        }
        if byte == b'"' && field == AddressField::Forwarded {
            is_quoted = !is_quoted || at == 0 || line[at - 1] != b'=';
        }
        reversed.push(byte);
    }
    elements.push(reversed);
    let trimmed = |reversed: Vec<u8>| {
        let element: Vec<u8> = reversed.into_iter().rev().collect();
        element.trim_ascii().to_vec()
    };
    elements.into_iter().map(trimmed).collect()
}

fn fields_of(field: AddressField, lines: &[Vec<u8>]) -> Vec<Field<'_>> {
    // Other header fields between these lines must have no effect.
    let between = Field { name: "Accept", value: b"a, \"b" };
    lines.iter().flat_map(|line| [Field { name: field.name(), value: line }, between]).collect()
}

fn shown(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| format!("[{}]", line.escape_ascii())).collect()
}
