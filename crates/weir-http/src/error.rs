//! Why a message was rejected. The sender is at fault in every case.

/// Why the start line or the headers were rejected. Each cause has its own variant. A retry does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HeadError {
    /// A line ends in LF without CR.
    #[error("bare LF in headers")]
    BareLf,
    /// A CR is not followed by LF.
    #[error("bare CR in headers")]
    BareCr,
    /// A NUL byte.
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
    /// A control or non-ASCII byte in the target.
    #[error("request target contains a control or non-ASCII character")]
    TargetByte,
    /// A `#` in the target.
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
    /// The status code is not three digits from 100 up, or no space follows it.
    #[error("malformed status code")]
    Status,
    /// A control byte in the reason phrase.
    #[error("control character in the reason phrase")]
    Reason,
    /// A field name is empty.
    #[error("empty header name")]
    NameEmpty,
    /// A field name contains a byte that is not allowed in a token.
    #[error("invalid character in a header name")]
    NameByte,
    /// Whitespace in a field name, or between the name and the colon.
    #[error("whitespace before the colon of a header")]
    SpaceBeforeColon,
    /// Whitespace before the first field name.
    #[error("whitespace before the first header")]
    SpaceBeforeField,
    /// Obsolete line folding.
    #[error("header value continues on the next line (obsolete line folding)")]
    Folding,
    /// A control byte in a field value.
    #[error("control character in a header value")]
    ValueByte,
    /// The headers have more bytes than the limit.
    #[error("headers too large")]
    TooLarge,
    /// More header fields than the limit.
    #[error("too many headers")]
    TooManyFields,
    /// HTTP/1.1 without Host.
    #[error("Host header missing")]
    HostMissing,
    /// More than one Host.
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
    /// More than one Content-Length, as fields or as a list.
    #[error("more than one Content-Length")]
    LengthRepeated,
    /// Both Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// Transfer-Encoding is not a list of tokens.
    #[error("malformed Transfer-Encoding")]
    CodingInvalid,
    /// More than one Transfer-Encoding field, or chunked more than once.
    #[error("repeated transfer coding")]
    CodingRepeated,
    /// A transfer coding other than chunked.
    #[error("unsupported transfer coding; only chunked is supported")]
    CodingUnknown,
    /// Chunked is not the last coding.
    #[error("chunked is not the last transfer coding")]
    ChunkedNotLast,
    /// Transfer-Encoding in HTTP/1.0.
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    CodingInHttp10,
    /// Connection is not a list of tokens.
    #[error("malformed Connection header")]
    ConnectionInvalid,
    /// Connection names Host or Content-Length.
    #[error("Connection header lists Host or Content-Length")]
    ConnectionNamesFraming,
    /// Connection names more than [`CONNECTION_NAMES_MAX`](crate::CONNECTION_NAMES_MAX) fields, or has more than
    /// [`CONNECTION_OPTIONS_MAX`](crate::CONNECTION_OPTIONS_MAX) options.
    #[error("Connection names more than 16 header fields or has more than 128 options")]
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

    /// The response status for such a request. The server then closes the connection.
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

/// Why a body was rejected. The connection has lost its framing and cannot be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BodyError {
    /// The connection closed before the body's end.
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
    /// CR LF does not follow a chunk's data.
    #[error("chunk data not followed by CRLF")]
    ChunkEnd,
    /// A line of the chunked framing ends in LF without CR.
    #[error("bare LF in the chunked framing")]
    BareLf,
    /// A CR in the chunked framing is not followed by LF.
    #[error("bare CR in the chunked framing")]
    BareCr,
    /// A trailer is malformed. The cause is the same as for a header field.
    #[error("malformed trailer: {0}")]
    Trailer(HeadError),
    /// A trailer that could change framing, routing or the connection.
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

    /// The response status for such a request. The server then closes the connection.
    pub fn status(self) -> u16 {
        match self {
            BodyError::TrailersTooLarge => 431,
            _ => 400,
        }
    }
}
