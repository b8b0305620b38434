//! HTTP/1.1 message framing over byte slices: parsing, serialization and body framing. No I/O, no clock.
//!
//! A server reads requests with [`parse_request`]. A client reads responses with [`parse_response`]. Both pass the
//! bytes after the headers to a [`BodyDecoder`]. Parsing does not allocate: the parsed headers borrow the buffer, and
//! [`FieldSlots`] on the caller's stack hold the header fields.
//!
//! ```
//! use weir_http::{BodyDecoder, FieldSlots, HeadLimits, parse_request};
//!
//! let input = b"POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\n\r\nhi";
//! let mut slots = FieldSlots::new();
//! let head = parse_request(input, &HeadLimits::default(), &mut slots)?.expect("the head is whole");
//! assert_eq!((head.method, head.path_and_query, head.host), ("POST", "/a", "example.com"));
//!
//! let mut body = BodyDecoder::new(head.framing);
//! let rest = &input[head.head_len..];
//! let step = body.step(rest)?;
//! assert_eq!((&rest[step.data], step.done), (&b"hi"[..], true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Strictness
//! The parser rejects ambiguous messages and never repairs them. Each cause is a variant of [`HeadError`] or
//! [`BodyError`]:
//! - both Content-Length and Transfer-Encoding;
//! - repeated or malformed lengths, including the list `5, 5`;
//! - any transfer coding except a single `chunked`;
//! - bare CR or LF, obsolete line folding, and a space before a colon;
//! - NUL and other control bytes;
//! - a missing, repeated or invalid Host;
//! - malformed chunk sizes.
//!
//! RFC 9112 leaves these choices to the implementation:
//! - The parser skips up to [`LEADING_EMPTY_LINES_MAX`] empty lines before a request, and none before a response.
//! - An absolute-form target sets the authority. A Host field must match it, ignoring case.
//! - `Connection` must be a list of tokens and must not name Host or Content-Length. Removing the named fields
//!   therefore never changes the framing.
//! - `Connection` may name [`CONNECTION_NAMES_MAX`] fields and have [`CONNECTION_OPTIONS_MAX`] options. This limits the
//!   cost of removing the named fields.
//! - Lengths beyond `i64::MAX` are rejected, because an upstream with signed lengths would read another number.
//! - HTTP/1.x other than 1.0 and 1.1 is an unsupported version.
//! - A status line may omit the space before an empty reason phrase, because some servers omit it.

mod body;
mod chunked;
mod error;
mod fields;
mod framing;
mod plain_names;
mod refused;
mod request;
mod response;
mod strict;
mod target;
mod trusted;
pub mod work;
mod write;

pub use body::{BodyDecoder, BodyStep};
pub use error::{BodyError, HeadError};
pub use fields::{
    CONNECTION_NAMES_MAX, CONNECTION_OPTIONS_MAX, EndToEnd, FIELDS_MAX, Field, FieldSlots, elements,
    fields_named, find_field, is_forwarding_field, is_hop_by_hop, is_token_byte, list_contains,
    list_elements,
};
pub use plain_names::is_plain_name;
pub use refused::{RefusedHead, read_refused};
pub use request::{LEADING_EMPTY_LINES_MAX, RequestHead, parse_request};
pub use response::{ResponseHead, ResponseTo, parse_response};
pub use trusted::{AddressField, TRUSTED_ELEMENTS_MAX, TrustedElements};
pub use write::{
    CHUNK_END, CONTINUE, LAST_CHUNK, append_chunk_header, append_content_length, append_field,
    append_framing, append_last_chunk, append_request_line, append_status_line,
    append_status_line_with_reason, reason_phrase,
};

/// The protocol version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How the receiver finds the end of a message's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// The body has this many bytes, possibly 0.
    Length(u64),
    /// The body is chunked, optionally with trailers.
    Chunked,
    /// The body lasts until the connection closes (responses only).
    UntilClose,
}

/// Size limits for the start line and headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Maximum bytes of the start line and headers, including the final empty line.
    pub head_bytes: usize,
    /// Maximum bytes of the request target.
    pub target_bytes: usize,
    /// Maximum number of header fields. Values above [`FIELDS_MAX`] are lowered to it.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes: 32 * 1024, target_bytes: 8 * 1024, fields: 100 }
    }
}
