//! Requests for HTTP/2: header fields and pseudo-header fields instead of an HTTP/1.1 head (RFC 9113, 8.2 and
//! 8.3.1).

use std::ops::Range;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method};
use weir_http::{is_hop_by_hop, list_contains};

/// Start of each request's bytes: the names of the pseudo-header fields, then `https` (its first four bytes are
/// `http`). So all names and values are ranges of the same bytes.
const PREFIX: &[u8] = b":method:scheme:authority:pathhttps";
const METHOD: Range<u32> = 0..7;
const SCHEME: Range<u32> = 7..14;
const AUTHORITY: Range<u32> = 14..24;
const PATH: Range<u32> = 24..29;
const HTTPS: Range<u32> = 29..34;
const HTTP: Range<u32> = 29..33;

/// A request for HTTP/2. The same object is filled again for each request, and allocates nothing once it is large
/// enough.
#[derive(Debug, Default)]
pub(crate) struct Http2Request {
    /// [`PREFIX`], then the request as in HTTP/1.1, but with the names of header fields in lower case.
    bytes: Vec<u8>,
    fields: Vec<(Range<u32>, Range<u32>)>,
    body_start: usize,
    key: Option<u32>,
}

impl Http2Request {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Names and values of the header fields. Pseudo-header fields come first, and names are in lower case.
    #[inline]
    pub(crate) fn fields(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.iter().map(|(name, value)| (self.at(name), self.at(value)))
    }

    /// The body; empty if there is none.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..]
    }

    /// The index of a static request. Callers use it as the key of a cache of converted requests. `None` if the request
    /// differs per arrival.
    pub(crate) fn key(&self) -> Option<u32> {
        self.key
    }

    /// Converts the request to the types of the `http` crate, and returns it with its body.
    ///
    /// # Errors
    /// If HTTP/2 cannot carry the request: its URI grammar is stricter than the request line of HTTP/1.1.
    pub(crate) fn to_http(&self) -> Result<(http::Request<()>, Bytes), String> {
        let mut request = http::Request::new(());
        let mut uri = http::uri::Parts::default();
        let wrong = |what: &str, value: &[u8]| {
            format!("`{}` is not a valid {what} in HTTP/2", String::from_utf8_lossy(value).escape_debug())
        };
        for (name, value) in self.fields() {
            match name {
                b":method" => {
                    *request.method_mut() = Method::from_bytes(value).map_err(|_| wrong("method", value))?;
                }
                b":scheme" => uri.scheme = Scheme::try_from(value).ok(),
                b":authority" => {
                    uri.authority = Some(Authority::try_from(value).map_err(|_| wrong("host", value))?);
                }
                b":path" => {
                    let path = PathAndQuery::try_from(value).map_err(|_| wrong("path", value))?;
                    uri.path_and_query = Some(path);
                }
                name => {
                    let known = HeaderName::from_bytes(name).map_err(|_| wrong("header name", name))?;
                    let value = HeaderValue::from_bytes(value).map_err(|_| wrong("header value", value))?;
                    request.headers_mut().append(known, value);
                }
            }
        }
        *request.version_mut() = http::Version::HTTP_2;
        if uri.authority.is_none() {
            return Err("HTTP/2 requires a Host header in the request".into());
        }
        *request.uri_mut() =
            http::Uri::from_parts(uri).map_err(|error| format!("invalid URI in HTTP/2: {error}"))?;
        Ok((request, Bytes::copy_from_slice(self.body())))
    }

    fn at(&self, place: &Range<u32>) -> &[u8] {
        &self.bytes[place.start as usize..place.end as usize]
    }

    /// Replaces the request with the bytes that `append` writes, which must be a well-formed HTTP/1.1 request.
    pub(super) fn fill(&mut self, is_https: bool, key: Option<u32>, append: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.bytes.extend_from_slice(PREFIX);
        append(&mut self.bytes);
        self.key = key;
        self.fields.clear();
        let start = PREFIX.len();
        let method_end = start + find(b' ', &self.bytes[start..]);
        let path_start = method_end + 1;
        let path_end = path_start + find(b' ', &self.bytes[path_start..]);
        self.fields.push((METHOD, range(start, method_end)));
        self.fields.push((SCHEME, if is_https { HTTPS } else { HTTP }));
        // The value of Host replaces this range. Without Host, the pseudo-header field is removed.
        self.fields.push((AUTHORITY, 0..0));
        self.fields.push((PATH, range(path_start, path_end)));
        let fields_start = path_end + b" HTTP/1.1\r\n".len();
        self.split_fields(fields_start);
        if self.fields[2].1.is_empty() {
            self.fields.remove(2);
        }
    }

    /// Parses the header fields of the HTTP/1.1 request from position `at`.
    fn split_fields(&mut self, mut at: usize) {
        let mut connection = None;
        while self.bytes[at] != b'\r' {
            let name_end = at + find(b':', &self.bytes[at..]);
            let line_end = name_end + find(b'\r', &self.bytes[name_end..]);
            self.bytes[at..name_end].make_ascii_lowercase();
            let value = trim(&self.bytes, name_end + 1, line_end);
            match &self.bytes[at..name_end] {
                b"host" => self.fields[2].1 = value,
                b"connection" => connection = Some(value),
                name if is_of_the_connection(name, self.at(&value)) => {}
                _ => self.fields.push((range(at, name_end), value)),
            }
            at = line_end + 2;
        }
        self.body_start = at + 2;
        if let Some(list) = connection {
            let bytes = &self.bytes;
            let at = |place: &Range<u32>| &bytes[place.start as usize..place.end as usize];
            self.fields.retain(|(name, _)| {
                !str::from_utf8(at(name)).is_ok_and(|name| list_contains(at(&list), name))
            });
        }
    }
}

/// Whether HTTP/2 forbids the header field because it applies to one connection. `TE` is allowed if its value is
/// `trailers`.
fn is_of_the_connection(name: &[u8], value: &[u8]) -> bool {
    if name == b"te" {
        return !value.eq_ignore_ascii_case(b"trailers");
    }
    name == b"http2-settings" || str::from_utf8(name).is_ok_and(is_hop_by_hop)
}

/// The range from `start` to `end` without surrounding white space, which HTTP/2 forbids in values.
fn trim(bytes: &[u8], mut start: usize, mut end: usize) -> Range<u32> {
    while start < end && matches!(bytes[start], b' ' | b'\t') {
        start += 1;
    }
    while start < end && matches!(bytes[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    range(start, end)
}

fn range(start: usize, end: usize) -> Range<u32> {
    start as u32..end as u32
}

fn find(byte: u8, bytes: &[u8]) -> usize {
    memchr::memchr(byte, bytes).expect("the rendered request contains this byte")
}
