//! Response compression: negotiation, selection of responses, and encoding of bodies.
//!
//! The gateway never holds back a body: it compresses and flushes the bytes of each read, so that event streams
//! continue. A compressed response needs memory for the encoder and for the bytes of one read: up to 0.6 MiB with gzip
//! and 4 MiB with brotli. An idle connection needs none.

use std::io::{self, Write as _};

use brotli::CompressorWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use weir_config::{CompressPolicy, Filters, HeaderChanges};
use weir_http::{
    CHUNK_END, Field, Framing, RequestHead, ResponseHead, Version, append_chunk_header, append_field,
    append_last_chunk, elements, fields_named, list_contains, list_elements,
};

use crate::body::BodyPump;
use crate::buffer::Buffer;
use crate::trailers::PassedTrailers;

/// Size of the brotli window in bits, chosen for low memory use. With a smaller window, some levels use larger tables.
/// A larger window itself needs more memory.
const BROTLI_WINDOW_BITS: u32 = 18;

/// Size of brotli's output buffer.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// Header fields that describe the exact bytes of a body. Compression would make them wrong.
const FIXING: [&str; 6] =
    ["content-encoding", "content-range", "content-md5", "digest", "content-digest", "repr-digest"];

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
}

/// How the gateway encodes a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoded {
    /// No client gets this response compressed.
    AsItIs,
    /// Not compressed for this client; other clients may get a compressed response.
    Varying,
    /// Compressed.
    By(Coding),
}

impl Coding {
    /// The name in header fields.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// Whether this is a name of the coding. gzip has two (RFC 9110, 8.4.1.3).
    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            || self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
    }
}

/// The codings that `policy` offers, in order of preference.
pub(crate) fn offered(policy: &CompressPolicy) -> impl Iterator<Item = Coding> {
    let brotli = policy.brotli.map(|_| Coding::Brotli);
    brotli.into_iter().chain(policy.gzip.map(|_| Coding::Gzip))
}

/// The offered coding that the client prefers (RFC 9110, 12.5.3). `None` if the client prefers an uncompressed
/// response, for HEAD requests, and for HTTP/1.0.
pub(crate) fn negotiate(policy: &CompressPolicy, head: &RequestHead<'_>) -> Option<Coding> {
    // HTTP/1.0 has no chunked encoding, so only closing the connection could mark the end of a compressed body.
    if head.version == Version::Http10 || head.method == "HEAD" {
        return None;
    }
    let asked = Asked::of(head.fields);
    let mut best = None;
    for coding in offered(policy) {
        let own = asked.weight(coding);
        if own > best.map_or(0, |(_, weight)| weight) {
            best = Some((coding, own));
        }
    }
    let (coding, own) = best?;
    // Without a weight, `identity` has the lowest preference.
    (own >= asked.identity.unwrap_or_default()).then_some(coding)
}

/// The weights in `Accept-Encoding`, in thousandths. If a coding occurs twice, its first weight counts. One pass
/// collects all weights, so that the cost per element does not grow with the list.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    brotli: Option<u32>,
    gzip: Option<u32>,
    identity: Option<u32>,
    any: Option<u32>,
}

impl Asked {
    fn of(fields: &[Field<'_>]) -> Asked {
        let mut asked = Asked::default();
        let values = fields_named(fields, "accept-encoding").map(|field| field.value);
        for (name, weight) in values.flat_map(preferences) {
            let slot = match name {
                b"*" => &mut asked.any,
                _ if Coding::Brotli.is_named(name) => &mut asked.brotli,
                _ if Coding::Gzip.is_named(name) => &mut asked.gzip,
                _ if name.eq_ignore_ascii_case(b"identity") => &mut asked.identity,
                _ => continue,
            };
            slot.get_or_insert(weight);
        }
        asked
    }

    fn weight(&self, coding: Coding) -> u32 {
        let own = match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
        };
        own.or(self.any).unwrap_or_default()
    }
}

/// The elements of an `Accept-Encoding`, each with its weight in thousandths: 1000 if the element has no weight, 0 if
/// the weight is malformed.
fn preferences(value: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    list_elements(value).map(|element| {
        let mut parts = elements(element, b';');
        let name = parts.next().unwrap_or_default();
        let weight = match parts.next() {
            None => Some(1000),
            Some(parameter) => parameter
                .split_first_chunk::<2>()
                .filter(|([q, equals], _)| q.eq_ignore_ascii_case(&b'q') && *equals == b'=')
                .and_then(|(_, weight)| thousandths(weight)),
        };
        (name, weight.unwrap_or_default())
    })
}

/// Parses a weight (RFC 9110, 12.4.2): 0 to 1 with at most three decimal places.
fn thousandths(text: &[u8]) -> Option<u32> {
    let (whole, fraction) = match text {
        [whole, b'.', fraction @ ..] => (whole, fraction),
        [whole] => (whole, &[][..]),
        _ => return None,
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(b"000").take(3);
    let thousandths = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// Whether a header field describes the exact bytes of a body. Compression would make it wrong.
pub(crate) fn is_of_bytes(name: &str) -> bool {
    FIXING.iter().any(|fixing| fixing.eq_ignore_ascii_case(name))
}

/// How the gateway encodes the final response with these headers, for a client that prefers `coding`.
pub(crate) fn encoded(
    policy: &CompressPolicy,
    filters: &Filters,
    head: &ResponseHead<'_>,
    coding: Option<Coding>,
) -> Encoded {
    match head.status {
        // A 304 needs the same `Vary` as the 200 response that it replaces, which may be compressed.
        304 => return Encoded::Varying,
        ..200 | 204..=206 => return Encoded::AsItIs,
        _ if head.upgrade || !is_long_enough(policy, head) => return Encoded::AsItIs,
        _ => {}
    }
    let mut is_of_type = false;
    for (name, value) in fields_for_client(filters, head) {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("content-type") {
            is_of_type = policy.matches(value);
        } else if is_of_bytes(name) || is("cache-control") && list_contains(value, "no-transform") {
            return Encoded::AsItIs;
        }
    }
    match coding {
        _ if !is_of_type => Encoded::AsItIs,
        Some(coding) if head.framing != Framing::None => Encoded::By(coding),
        _ => Encoded::Varying,
    }
}

/// Whether the body has at least the minimum length or an unknown length. A response to HEAD is judged by its
/// `Content-Length`, like the response to a GET.
fn is_long_enough(policy: &CompressPolicy, head: &ResponseHead<'_>) -> bool {
    let bytes = match head.framing {
        Framing::Length(bytes) => Some(bytes),
        Framing::Chunked | Framing::UntilClose => None,
        Framing::None => {
            let text = head.field("content-length").and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(|text| text.parse().ok())
        }
    };
    bytes.is_none_or(|bytes| bytes > 0 && bytes >= policy.min_bytes)
}

/// The response headers for the client: upstream headers that the route keeps, and headers that the route adds.
fn fields_for_client<'f>(
    filters: &'f Filters,
    head: &'f ResponseHead<'_>,
) -> impl Iterator<Item = (&'f str, &'f [u8])> {
    let changes = filters.route.response_headers.as_deref();
    let kept = head.end_to_end().filter(move |field| changes.is_none_or(|c| c.keeps(field.name)));
    let added = changes.into_iter().flat_map(HeaderChanges::fields);
    kept.map(|field| (field.name, field.value)).chain(added.map(|(name, value)| (name, value.as_bytes())))
}

impl Encoded {
    /// Whether an upstream header with this name passes unchanged. If the gateway compresses the body, headers that
    /// describe the uncompressed body do not pass.
    pub(crate) fn keeps(self, name: &str) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        !matches!(self, Encoded::By(_)) || !(is("content-length") || is("accept-ranges") || is("etag"))
    }

    /// Appends the headers that describe the encoding.
    pub(crate) fn append_fields(self, filters: &Filters, head: &ResponseHead<'_>, out: &mut Vec<u8>) {
        if self == Encoded::AsItIs {
            return;
        }
        if let Encoded::By(coding) = self {
            append_field(out, "Content-Encoding", coding.name().as_bytes());
            append_weak_tag(filters, head, out);
        }
        let lists_it = |value: &[u8]| {
            list_elements(value).any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
        };
        let mut fields = fields_for_client(filters, head);
        let is_listed = fields.any(|(name, value)| name.eq_ignore_ascii_case("vary") && lists_it(value));
        if !is_listed {
            append_field(out, "Vary", b"Accept-Encoding");
        }
    }
}

/// Appends the upstream's `ETag` as a weak tag, if the route keeps the `ETag`. A weak tag is right, because compression
/// changes the bytes but not the content (RFC 9110, 8.8.1 and 8.8.3.3).
fn append_weak_tag(filters: &Filters, head: &ResponseHead<'_>, out: &mut Vec<u8>) {
    let changes = filters.route.response_headers.as_deref();
    if changes.is_some_and(|changes| !changes.keeps("etag")) {
        return;
    }
    for field in fields_named(head.fields, "etag") {
        let tag = field.value;
        match tag.starts_with(b"W/") {
            true => append_field(out, "ETag", tag),
            false => append_field(out, "ETag", &[&b"W/"[..], tag].concat()),
        }
    }
}

/// A response body, plain or compressed.
pub(crate) enum ResponseBody {
    Plain(BodyPump),
    /// Boxed to keep exchanges small.
    Coded(Box<CodedBody>),
}

/// Error: the framing of the body is malformed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken;

/// A compressed body in chunks.
pub(crate) struct CodedBody {
    pump: BodyPump,
    /// `None` after the end of the body.
    encoder: Option<Encoder>,
    /// Decoded body bytes that are not yet compressed.
    payload: Vec<u8>,
}

enum Encoder {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
}

impl ResponseBody {
    /// Relays a body with this framing, as chunks if `to_chunks`.
    #[inline]
    pub(crate) fn plain(
        framing: Framing,
        to_chunks: bool,
        trailers: Option<Box<PassedTrailers>>,
    ) -> ResponseBody {
        ResponseBody::Plain(BodyPump::new(framing, to_chunks, u64::MAX).with_trailers(trailers))
    }

    /// Compresses a body with this framing at the level of `policy`.
    pub(crate) fn coded(
        framing: Framing,
        (coding, policy): (Coding, &CompressPolicy),
        trailers: Option<Box<PassedTrailers>>,
    ) -> ResponseBody {
        let pump = BodyPump::new(framing, false, u64::MAX).with_trailers(trailers);
        let encoder = Some(Encoder::new(coding, policy));
        ResponseBody::Coded(Box::new(CodedBody { pump, encoder, payload: Vec::new() }))
    }

    /// Whether the end of the body has passed.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        match self {
            ResponseBody::Plain(pump) => pump.is_done(),
            ResponseBody::Coded(body) => body.encoder.is_none(),
        }
    }

    /// Consumes the part of the body in `inbound` and appends it to `out`.
    #[inline]
    pub(crate) fn pass(&mut self, inbound: &mut Buffer, out: &mut Vec<u8>) -> Result<(), Broken> {
        match self {
            ResponseBody::Plain(pump) => pump.pass(inbound, out).map_err(|_| Broken),
            ResponseBody::Coded(body) => body.pass(inbound, out),
        }
    }

    /// Consumes `inbound` if its bytes pass unchanged and do not include the end of the body. Returns whether it
    /// consumed them.
    #[inline]
    pub(crate) fn pass_in_place(&mut self, inbound: &mut Buffer) -> Result<bool, Broken> {
        match self {
            ResponseBody::Plain(pump) => pump.pass_in_place(inbound).map_err(|_| Broken),
            ResponseBody::Coded(_) => Ok(false),
        }
    }

    /// Ends the body because the upstream has closed the connection. Fails unless the framing lets the body end there.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        match self {
            ResponseBody::Plain(pump) => pump.close(out).map_err(|_| Broken),
            ResponseBody::Coded(body) => {
                body.pump.close(&mut body.payload).map_err(|_| Broken)?;
                body.encode_payload(out)
            }
        }
    }
}

impl CodedBody {
    fn pass(&mut self, inbound: &mut Buffer, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.pump.pass(inbound, &mut self.payload).map_err(|_| Broken)?;
        self.encode_payload(out)
    }

    /// Compresses and flushes the received bytes, and appends the result as chunks.
    fn encode_payload(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(()) };
        // Writes to memory cannot fail.
        encoder.write(&self.payload).map_err(|_| Broken)?;
        let has_payload = !self.payload.is_empty();
        self.payload.clear();
        if self.pump.is_done() {
            append_chunk(&encoder.finish().map_err(|_| Broken)?, out);
            append_last_chunk(out, &self.pump.trailers());
            return Ok(());
        }
        if has_payload {
            let coded = encoder.flushed().map_err(|_| Broken)?;
            append_chunk(coded, out);
            coded.clear();
        }
        self.encoder = Some(encoder);
        Ok(())
    }
}

fn append_chunk(data: &[u8], out: &mut Vec<u8>) {
    if !data.is_empty() {
        append_chunk_header(out, data.len());
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
}

impl Encoder {
    fn new(coding: Coding, policy: &CompressPolicy) -> Encoder {
        // Negotiation selects only codings with a level, so the fallback is never used.
        let level = |level: Option<u32>| level.unwrap_or(1);
        match coding {
            Coding::Gzip => {
                let level = Compression::new(level(policy.gzip));
                Encoder::Gzip(Box::new(GzEncoder::new(Vec::new(), level)))
            }
            Coding::Brotli => {
                let (level, window) = (level(policy.brotli), BROTLI_WINDOW_BITS);
                let writer = CompressorWriter::new(Vec::new(), BROTLI_BUFFER_BYTES, level, window);
                Encoder::Brotli(Box::new(writer))
            }
        }
    }

    fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.write_all(payload),
            Encoder::Brotli(encoder) => encoder.write_all(payload),
        }
    }

    /// Flushes the encoder and returns its output. The client can then decode all bytes written so far.
    fn flushed(&mut self) -> io::Result<&mut Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => {
                encoder.flush()?;
                Ok(encoder.get_mut())
            }
            Encoder::Brotli(encoder) => {
                encoder.flush()?;
                Ok(encoder.get_mut())
            }
        }
    }

    /// Ends the encoding and returns the rest of the output.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Brotli(encoder) => Ok(encoder.into_inner()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_http::{FieldSlots, HeadLimits, ResponseTo, parse_request, parse_response};

    use super::*;

    fn filters(fields: &str) -> std::sync::Arc<Filters> {
        let text = format!(
            "listeners: [{{ address: 127.0.0.1:1 }}]\nroutes: [{{ path: /, backend: b, compress: {{ {fields} }} }}]\n\
             backends: {{ b: {{ endpoints: [] }} }}\n"
        );
        let configuration: weir_config::Configuration = weir_document::read("test.yaml", &text).unwrap();
        let changes = configuration.into_resources().into_iter().map(|(k, r)| weir_config::Change::Put(k, r));
        let batch = weir_config::Batch {
            version: 1,
            policy: weir_config::Policy::AllOrNothing,
            changes: changes.collect(),
        };
        let table = weir_config::State::default().apply(batch).table.unwrap();
        table.filters()[0].clone()
    }

    /// The coding selected for a request with this start line and these header fields. `policy_fields` is the content
    /// of the route's `compress`.
    fn chosen(policy_fields: &str, start: &str, fields: &str) -> Option<&'static str> {
        let text = format!("{start}\r\nHost: h\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        let head = parse_request(text.as_bytes(), &HeadLimits::default(), &mut slots).unwrap().unwrap();
        negotiate(filters(policy_fields).compress.as_ref().unwrap(), &head).map(Coding::name)
    }

    #[test]
    fn client_selects_among_offered_codings() {
        let check = |accepted: &str, expected: Option<&str>| {
            let fields = format!("Accept-Encoding: {accepted}\r\n");
            assert_eq!(chosen("", "GET / HTTP/1.1", &fields), expected, "{accepted}");
        };
        check("gzip, deflate, br", Some("br"));
        check("gzip", Some("gzip"));
        check("X-GZIP", Some("gzip"));
        check("deflate", None);
        check("", None);
        check("br;q=0.5, gzip;q=0.6", Some("gzip"));
        check("br;q=0.5,gzip;q=0.5", Some("br"));
        check("br; q=0, *", Some("gzip"));
        check("*", Some("br"));
        check("*;q=0", None);
        check("gzip;q=0, br;q=0.000", None);
        check("identity, gzip;q=0.9", None);
        check("identity;q=0.5, gzip;q=0.5", Some("gzip"));
        check("identity;q=0, gzip", Some("gzip"));
        check("identity;q=0", None);
        check("*;q=0.1, identity;q=0.5", None);
        check("gzip;q=1.001", None);
        check("gzip;q=0.1234, br;q=x", None);
        check("gzip;level=1", None);
        check("gzip;Q=0.001", Some("gzip"));
        check("gzip;q=1.", Some("gzip"));
    }

    #[test]
    fn does_not_compress_without_accept_encoding_or_support() {
        let accepts = "Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n";
        assert_eq!(chosen("", "GET / HTTP/1.1", accepts), Some("br"), "two fields are one list");
        assert_eq!(chosen("gzip: 1", "GET / HTTP/1.1", accepts), Some("gzip"));
        assert_eq!(chosen("brotli: 1", "GET / HTTP/1.1", "Accept-Encoding: gzip\r\n"), None);
        assert_eq!(chosen("", "GET / HTTP/1.1", ""), None);
        assert_eq!(chosen("", "GET / HTTP/1.0", accepts), None);
        assert_eq!(chosen("", "HEAD / HTTP/1.1", accepts), None);
    }

    /// Units of work (`weir_http::work`) to decide on the encoding, per byte of response headers.
    fn work_per_byte(fields: &str) -> f64 {
        let text = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}{}Content-Length: 9999\r\n\r\n",
            "a:\r\n".repeat(97)
        );
        let limits = HeadLimits { head_bytes: 1 << 20, ..HeadLimits::default() };
        let filters = filters("");
        let policy = filters.compress.as_ref().unwrap();
        let mut slots = FieldSlots::new();
        let (_, units) = weir_http::work::of(|| {
            let Ok(head) = parse_response(text.as_bytes(), ResponseTo::Other, &limits, &mut slots) else {
                return;
            };
            let head = head.unwrap();
            let encoded = encoded(policy, &filters, &head, Some(Coding::Gzip));
            encoded.append_fields(&filters, &head, &mut Vec::new());
        });
        units as f64 / text.len() as f64
    }

    #[test]
    fn long_header_lists_cost_no_more_per_byte_than_short_ones() {
        let mut most = 0.0f64;
        for name in ["Vary", "Connection", "Cache-Control", "Transfer-Encoding", "ETag", "Content-Type"] {
            for bytes in [31_200, 500_000] {
                let distinct: Vec<String> = (0..bytes / 7).map(|number| format!("t{number}")).collect();
                for value in [",".repeat(bytes), format!("x-own{}", ",".repeat(bytes)), distinct.join(",")] {
                    let per_byte = work_per_byte(&format!("{name}: {value}\r\n"));
                    assert!(per_byte <= 16.0, "{name}: {per_byte} units per byte, {bytes} bytes");
                    most = most.max(per_byte);
                }
            }
        }
        assert!(most > 1.0, "no work was counted");
    }
}
