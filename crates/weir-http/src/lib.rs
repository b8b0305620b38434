//! HTTP/1.1 message framing over byte slices: parse, serialize, body framing. No I/O, no clock.
//!
//! Both sides are served: a server reads requests with [`parse_request`], a client reads responses with
//! [`parse_response`], and both feed what follows the head to a [`BodyDecoder`]. Parsing allocates nothing:
//! a head borrows the buffer, and its fields lie in [`FieldSlots`] on the caller's stack.
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
//! # How strict
//! What two readers could understand differently is an error with a cause of its own ([`HeadError`],
//! [`BodyError`]), never repaired: both Content-Length and Transfer-Encoding, repeated or malformed lengths
//! (also the list `5, 5`), any transfer coding but one `chunked`, bare CR or LF, obsolete folding, space
//! before a colon, NUL and other controls, a missing, repeated or invalid Host, sloppy chunk sizes.
//! Decisions where RFC 9112 leaves a choice:
//! - up to [`LEADING_EMPTY_LINES_MAX`] empty lines before a request are skipped, none before a response;
//! - an absolute-form target decides the authority, and a Host beside it must agree (ignoring case);
//! - `Connection` must be a list of tokens and may not name Host or Content-Length, so that removing the
//!   fields it names can never change the framing; it may name [`CONNECTION_NAMES_MAX`] fields and have
//!   [`CONNECTION_OPTIONS_MAX`] options, so that removing them costs the same for each field of the head;
//! - lengths beyond `i64::MAX` are refused, so that no signed reader behind us sees another number;
//! - HTTP/1.x other than 1.0 and 1.1 is an unsupported version;
//! - a status line may lack the space before an empty reason, which servers in the field omit.

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

/// How the end of a message's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// As many bytes follow, perhaps 0.
    Length(u64),
    /// Chunks follow, then perhaps trailers.
    Chunked,
    /// Everything until the connection closes (responses only).
    UntilClose,
}

/// What a head may cost at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, with its last empty line.
    pub head_bytes: usize,
    /// Bytes of the request target.
    pub target_bytes: usize,
    /// Number of fields; [`FIELDS_MAX`] is the most that can be asked for.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        HeadLimits { head_bytes: 32 * 1024, target_bytes: 8 * 1024, fields: 100 }
    }
}
