//! Why a message was rejected. In every case, the sender is at fault.

/// Why the start line or the headers were rejected. Each cause has its own variant. A retry does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HeadError {
    /// A line ends in LF without CR.
    #[error("bare LF in headers")]
    BareLf,
    /// A CR is not followed by LF.
    #[error("bare CR in headers")]
    BareCr,
    /// The headers contain a NUL byte.
    #[error("NUL byte in headers")]
    Nul,
    /// Too many empty lines before a request, or any empty line before a response.
    #[error("too many empty lines before the start line")]
    EmptyLines,
    /// The method is empty or not a token.
    #[error("invalid method")]
    Method,
    /// The target is empty, has no known form, or is not followed by one space.
    #[error("malformed request target")]
    Target,
    /// The target contains a control character, or a byte that is not ASCII.
    #[error("request target contains a control or non-ASCII character")]
    TargetByte,
    /// The target contains a `#`.
    #[error("request target contains a fragment (#)")]
    TargetFragment,
    /// The method does not allow this form of target.
    #[error("the method does not allow this form of request target")]
    TargetForm,
    /// The target is longer than the limit.
    #[error("request target too long")]
    TargetTooLong,
    /// The version is malformed.
    #[error("malformed HTTP version")]
    Version,
    /// The version is well-formed but neither 1.0 nor 1.1.
    #[error("unsupported HTTP version")]
    VersionUnsupported,
    /// The status code does not consist of three digits, is below 100, or is not followed by a space.
    #[error("malformed status code")]
    Status,
    /// The reason phrase contains a control character.
    #[error("control character in the reason phrase")]
    Reason,
    /// A field name is empty.
    #[error("empty header name")]
    NameEmpty,
    /// A field name contains a byte that is not allowed in a token.
    #[error("invalid character in a header name")]
    NameByte,
    /// There is white space in a field name, or between the name and the colon.
    #[error("whitespace before the colon of a header")]
    SpaceBeforeColon,
    /// There is white space before the first field name.
    #[error("whitespace before the first header")]
    SpaceBeforeField,
    /// A field value continues on the next line (obsolete line folding).
    #[error("header value continues on the next line (obsolete line folding)")]
    Folding,
    /// A field value contains a control character.
    #[error("control character in a header value")]
    ValueByte,
    /// The headers have more bytes than the limit.
    #[error("headers too large")]
    TooLarge,
    /// There are more header fields than the limit.
    #[error("too many headers")]
    TooManyFields,
    /// An HTTP/1.1 request has no Host.
    #[error("Host header missing")]
    HostMissing,
    /// A request has more than one Host.
    #[error("more than one Host header")]
    HostRepeated,
    /// Host, or the target's authority, is not a host with an optional port.
    #[error("invalid host or port")]
    HostInvalid,
    /// Host differs from the target's authority.
    #[error("Host header differs from the request target")]
    HostMismatch,
    /// Content-Length is not a number.
    #[error("Content-Length is not a number")]
    LengthInvalid,
    /// Content-Length is beyond `i64::MAX`.
    #[error("Content-Length too large")]
    LengthOverflow,
    /// There is more than one Content-Length, as several fields or as a list.
    #[error("more than one Content-Length")]
    LengthRepeated,
    /// A message has both Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// Transfer-Encoding is not a list of tokens.
    #[error("malformed Transfer-Encoding")]
    CodingInvalid,
    /// There is more than one Transfer-Encoding field, or `chunked` is listed more than once.
    #[error("repeated transfer coding")]
    CodingRepeated,
    /// A transfer coding other than `chunked` is used.
    #[error("unsupported transfer coding; only chunked is supported")]
    CodingUnknown,
    /// `chunked` is not the last transfer coding.
    #[error("chunked is not the last transfer coding")]
    ChunkedNotLast,
    /// An HTTP/1.0 message has Transfer-Encoding.
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    CodingInHttp10,
    /// Connection is not a list of tokens.
    #[error("malformed Connection header")]
    ConnectionInvalid,
    /// The Connection header lists Host or Content-Length.
    #[error("Connection header lists Host or Content-Length")]
    ConnectionNamesFraming,
    /// Connection names more than [`CONNECTION_NAMES_MAX`](crate::CONNECTION_NAMES_MAX) fields, or has more than
    /// [`CONNECTION_OPTIONS_MAX`](crate::CONNECTION_OPTIONS_MAX) options.
    #[error("Connection header lists more than 16 header fields or more than 128 options")]
    ConnectionTooLong,
    /// Expect has a value other than 100-continue.
    #[error("unsupported Expect header; only 100-continue is supported")]
    Expectation,
}

impl HeadError {
    /// A short name of the cause, for metrics.
    pub fn kind(self) -> &'static str {
        use HeadError::*;
        match self {
            BareLf => "bare_lf",
            BareCr => "bare_cr",
            Nul => "nul",
            EmptyLines => "empty_lines",
            Method => "method",
            Target => "target",
            TargetByte => "target_byte",
            TargetFragment => "target_fragment",
            TargetForm => "target_form",
            TargetTooLong => "target_too_long",
            Version => "version",
            VersionUnsupported => "version_unsupported",
            Status => "status",
            Reason => "reason",
            NameEmpty => "name_empty",
            NameByte => "name_byte",
            SpaceBeforeColon => "space_before_colon",
            SpaceBeforeField => "space_before_field",
            Folding => "folding",
            ValueByte => "value_byte",
            TooLarge => "too_large",
            TooManyFields => "too_many_fields",
            HostMissing => "host_missing",
            HostRepeated => "host_repeated",
            HostInvalid => "host_invalid",
            HostMismatch => "host_mismatch",
            LengthInvalid => "length_invalid",
            LengthOverflow => "length_overflow",
            LengthRepeated => "length_repeated",
            LengthAndCoding => "length_and_coding",
            CodingInvalid => "coding_invalid",
            CodingRepeated => "coding_repeated",
            CodingUnknown => "coding_unknown",
            ChunkedNotLast => "chunked_not_last",
            CodingInHttp10 => "coding_in_http10",
            ConnectionInvalid => "connection_invalid",
            ConnectionNamesFraming => "connection_names_framing",
            ConnectionTooLong => "connection_too_long",
            Expectation => "expectation",
        }
    }

    /// The status of the response to a request with this error. After the response, the server closes the
    /// connection.
    pub fn status(self) -> u16 {
        match self {
            HeadError::TargetTooLong => 414,
            HeadError::Expectation => 417,
            HeadError::TooLarge | HeadError::TooManyFields => 431,
            HeadError::CodingUnknown => 501,
            HeadError::VersionUnsupported => 505,
            _ => 400,
        }
    }
}

/// Why a body was rejected. It is unknown where the next message begins, so the connection cannot be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BodyError {
    /// The connection closed before the end of the body.
    #[error("body truncated")]
    Truncated,
    /// A chunk size is missing or contains a byte that is not a hexadecimal digit.
    #[error("malformed chunk size")]
    ChunkSize,
    /// A chunk size has too many digits or is beyond `i64::MAX`.
    #[error("chunk size too large")]
    ChunkSizeOverflow,
    /// A chunk extension is malformed.
    #[error("malformed chunk extension")]
    ChunkExtension,
    /// Chunk extensions are too long.
    #[error("chunk extensions are too long")]
    ChunkExtensionTooLong,
    /// The data of a chunk is not followed by CR LF.
    #[error("chunk data not followed by CRLF")]
    ChunkEnd,
    /// A line of the chunked framing ends in LF without CR.
    #[error("bare LF in the chunked framing")]
    BareLf,
    /// A CR in the chunked framing is not followed by LF.
    #[error("bare CR in the chunked framing")]
    BareCr,
    /// A trailer is malformed, for a reason that also applies to header fields.
    #[error("malformed trailer: {0}")]
    Trailer(HeadError),
    /// A trailer has a name that is allowed only in headers, because it could change framing, routing or the
    /// connection.
    #[error("trailer field that is allowed only in headers")]
    TrailerForbidden,
    /// Trailers are too long.
    #[error("trailers too large")]
    TrailersTooLarge,
}

impl BodyError {
    /// A short name of the cause, for metrics.
    pub fn kind(self) -> &'static str {
        match self {
            BodyError::Truncated => "truncated",
            BodyError::ChunkSize => "chunk_size",
            BodyError::ChunkSizeOverflow => "chunk_size_overflow",
            BodyError::ChunkExtension => "chunk_extension",
            BodyError::ChunkExtensionTooLong => "chunk_extension_too_long",
            BodyError::ChunkEnd => "chunk_end",
            BodyError::BareLf => "chunk_bare_lf",
            BodyError::BareCr => "chunk_bare_cr",
            BodyError::Trailer(_) => "trailer",
            BodyError::TrailerForbidden => "trailer_forbidden",
            BodyError::TrailersTooLarge => "trailers_too_large",
        }
    }

    /// The status of the response to a request with this error. After the response, the server closes the
    /// connection.
    pub fn status(self) -> u16 {
        match self {
            BodyError::TrailersTooLarge => 431,
            _ => 400,
        }
    }
}
