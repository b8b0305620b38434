//! Reads the elements that trusted proxies appended to `X-Forwarded-For` or `Forwarded` (RFC 7239).
//!
//! Each trusted proxy appends one element, to the last line or in a new line. The elements of N trusted proxies are
//! therefore the last N. Everything a client sends is to the left of them.
//!
//! The reader goes left from the end of the last line. After N elements, it stops at the comma or the line start to the
//! left of them. It never reads a byte from the client, so a client cannot change the result.
//!
//! In this direction, the reader meets the closing quote of a string first. The opening quote is the nearest `="` to
//! the left. The string itself cannot contain `="`, because a well-formed string has a backslash before each quote
//! inside it.
//!
//! A trusted proxy must write well-formed elements. Some proxies copy a client's `Host` into `Forwarded` without
//! escaping. A client can then add elements, and no reader can distinguish them from elements of the proxy.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use crate::{Field, is_token_byte};

/// Maximum number of elements that are read.
pub const TRUSTED_ELEMENTS_MAX: usize = 16;

/// Text that replaces an element which cannot be read (RFC 7239, 6.2).
const UNKNOWN: &str = "unknown";

/// A header field to which proxies append the address of their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressField {
    /// `X-Forwarded-For`: addresses separated by commas, without quotes.
    XForwardedFor,
    /// `Forwarded` of RFC 7239.
    Forwarded,
}

/// The elements that trusted proxies appended to a header field.
#[derive(Debug)]
pub struct TrustedElements<'a> {
    field: AddressField,
    /// The elements without surrounding white space, in reverse order.
    elements: [&'a [u8]; TRUSTED_ELEMENTS_MAX],
    len: usize,
}

/// The client identifier in one element of `X-Forwarded-For` or `Forwarded`.
#[derive(Debug, PartialEq, Eq)]
enum Node<'a> {
    Address {
        ip: IpAddr,
        /// The address with its optional port, as it was sent.
        text: Cow<'a, str>,
    },
    /// The word `unknown`, or a name that hides the address, with an optional port.
    Hidden(Cow<'a, str>),
}

impl AddressField {
    /// The name of the header field.
    pub fn name(self) -> &'static str {
        match self {
            AddressField::XForwardedFor => "X-Forwarded-For",
            AddressField::Forwarded => "Forwarded",
        }
    }
}

impl<'a> TrustedElements<'a> {
    /// Returns the last `count` elements in all header fields of this name, but at most [`TRUSTED_ELEMENTS_MAX`].
    /// Empty elements are skipped (RFC 9110, 5.6.1). If fewer elements were sent, returns fewer.
    pub fn of(fields: &[Field<'a>], field: AddressField, count: usize) -> Self {
        let mut trusted = TrustedElements { field, elements: [&[]; TRUSTED_ELEMENTS_MAX], len: 0 };
        let count = count.min(TRUSTED_ELEMENTS_MAX);
        if count == 0 {
            return trusted;
        }
        let lines = fields.iter().rev().filter(|line| line.name.eq_ignore_ascii_case(field.name()));
        for line in lines {
            let mut rest = Some(line.value);
            while let Some(value) = rest {
                let (before, element) = split_last(field, value);
                rest = before;
                if !element.is_empty() {
                    trusted.elements[trusted.len] = element;
                    trusted.len += 1;
                    if trusted.len == count {
                        return trusted;
                    }
                }
            }
        }
        trusted
    }

    /// Returns the client address in the oldest element, which the outermost trusted proxy appended. Returns `None` if
    /// there is no element, or if the oldest element contains no address.
    pub fn client(&self) -> Option<IpAddr> {
        let (first, _) = self.elements[..self.len].split_last()?;
        match node_of(self.field, first)? {
            Node::Address { ip, .. } => Some(ip.to_canonical()),
            Node::Hidden(_) => None,
        }
    }

    /// Appends the elements in the form of `X-Forwarded-For`, each followed by a comma and a space. Elements that are
    /// neither an address nor an obfuscated name become `unknown`. IPv6 addresses keep their brackets only before a
    /// port.
    pub fn append_x_forwarded_for(&self, out: &mut String) {
        for element in self.oldest_first() {
            match node_of(self.field, element) {
                Some(Node::Address { text, .. } | Node::Hidden(text)) => {
                    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
                    out.push_str(bare.unwrap_or(&text));
                }
                None => out.push_str(UNKNOWN),
            }
            out.push_str(", ");
        }
    }

    /// Appends the elements in the form of `Forwarded`. Well-formed `Forwarded` elements keep all their parameters.
    pub fn append_forwarded(&self, out: &mut String) {
        for element in self.oldest_first() {
            match std::str::from_utf8(element) {
                Ok(text) if self.field == AddressField::Forwarded && pairs(element).is_some() => {
                    out.push_str(text);
                }
                _ => append_for(node_of(self.field, element), out),
            }
            out.push_str(", ");
        }
    }

    /// Returns the elements as sent, oldest first, without surrounding whitespace.
    pub fn oldest_first(&self) -> impl Iterator<Item = &'a [u8]> {
        self.elements[..self.len].iter().rev().copied()
    }
}

/// Splits a line at its last comma. Returns the part before the comma, if there is one, and the last element.
fn split_last(field: AddressField, line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let comma = match field {
        AddressField::XForwardedFor => memchr::memrchr(b',', line),
        AddressField::Forwarded => last_comma_outside_quotes(line),
    };
    match comma {
        Some(at) => (Some(&line[..at]), line[at + 1..].trim_ascii()),
        None => (None, line.trim_ascii()),
    }
}

fn last_comma_outside_quotes(line: &[u8]) -> Option<usize> {
    let mut end = line.len();
    loop {
        let at = memchr::memrchr2(b',', b'"', &line[..end])?;
        if line[at] == b',' {
            return Some(at);
        }
        end = opening_quote(&line[..at])?;
    }
}

/// Returns the position of the last `"` that follows a `=`.
fn opening_quote(line: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'"', line).find(|&at| at > 0 && line[at - 1] == b'=')
}

/// Parses the client identifier in an element; `None` if it cannot be read.
fn node_of(field: AddressField, element: &[u8]) -> Option<Node<'_>> {
    match field {
        AddressField::XForwardedFor => node(Cow::Borrowed(std::str::from_utf8(element).ok()?)),
        AddressField::Forwarded => node(pairs(element)??),
    }
}

/// Parses a `Forwarded` element and returns the value of `for`, if it has this parameter. Returns `None` if the
/// element is malformed or has two `for` parameters.
fn pairs(element: &[u8]) -> Option<Option<Cow<'_, str>>> {
    let mut node = None;
    let mut rest = element;
    loop {
        rest = rest.trim_ascii_start();
        if !matches!(rest, [] | [b';', ..]) {
            let name_len = rest.iter().take_while(|&&byte| is_token_byte(byte)).count();
            let (name, after) = rest.split_at(name_len);
            let (value, after) = value(after.strip_prefix(b"=").filter(|_| name_len > 0)?)?;
            if name.eq_ignore_ascii_case(b"for") && node.replace(text(value)).is_some() {
                return None;
            }
            rest = after.trim_ascii_start();
        }
        match rest {
            [] => return Some(node.flatten()),
            [b';', after @ ..] => rest = after,
            _ => return None,
        }
    }
}

/// Parses the value at the start of `bytes`, and returns it with the bytes after it. Addresses without quotes are
/// accepted, although RFC 7239 requires quotes around a colon.
fn value(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let [b'"', quoted @ ..] = bytes else {
        let is_bare = |byte: &&u8| is_token_byte(**byte) || matches!(**byte, b':' | b'[' | b']');
        let (value, rest) = bytes.split_at(bytes.iter().take_while(is_bare).count());
        return (!value.is_empty()).then_some((Cow::Borrowed(value), rest));
    };
    let end = memchr::memchr2(b'"', b'\\', quoted)?;
    if quoted[end] == b'"' {
        return Some((Cow::Borrowed(&quoted[..end]), &quoted[end + 1..]));
    }
    let (mut value, mut bytes) = (Vec::new(), quoted.iter());
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return Some((Cow::Owned(value), bytes.as_slice())),
            b'\\' => value.push(*bytes.next()?),
            _ => value.push(byte),
        }
    }
    None
}

fn text(value: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match value {
        Cow::Borrowed(value) => std::str::from_utf8(value).ok().map(Cow::Borrowed),
        Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
    }
}

/// Parses a client identifier (RFC 7239, 6). IPv6 addresses without brackets are accepted too, because
/// `X-Forwarded-For` contains them.
fn node(text: Cow<'_, str>) -> Option<Node<'_>> {
    let ip = match text.parse() {
        Ok(ip) => Some(ip),
        Err(_) => {
            let (name, port) = match text.strip_prefix('[') {
                Some(inner) => inner.split_once(']')?,
                None => text.split_at(text.find(':').unwrap_or(text.len())),
            };
            if !is_port(port) {
                return None;
            }
            let is_bracketed = text.starts_with('[');
            let is_hidden = name.eq_ignore_ascii_case(UNKNOWN) || name.strip_prefix('_').is_some_and(is_name);
            match name.parse::<IpAddr>() {
                Ok(ip) if ip.is_ipv6() == is_bracketed => Some(ip),
                Err(_) if !is_bracketed && is_hidden => None,
                _ => return None,
            }
        }
    };
    Some(match ip {
        Some(ip) => Node::Address { ip, text },
        None => Node::Hidden(text),
    })
}

/// Whether the text is empty, or a colon followed by a port number or an obfuscated port such as `_a` (RFC 7239, 6).
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else { return text.is_empty() };
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    is_number || port.strip_prefix('_').is_some_and(is_name)
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !text.is_empty() && text.bytes().all(is_of_name)
}

/// Appends a `for` parameter with this client identifier.
fn append_for(node: Option<Node<'_>>, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match node {
        Some(Node::Address { ip: IpAddr::V6(ip), text }) if !text.starts_with('[') => {
            write!(out, "for=\"[{ip}]\"")
        }
        Some(Node::Address { text, .. } | Node::Hidden(text)) if text.contains([':', '[']) => {
            write!(out, "for=\"{text}\"")
        }
        Some(Node::Address { text, .. } | Node::Hidden(text)) => write!(out, "for={text}"),
        None => write!(out, "for={UNKNOWN}"),
    };
}
