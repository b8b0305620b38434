//! Why a message was refused: the sender's fault in every case.

/// Why a head was refused. Each cause is its own variant; none of them is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HeadError {
    /// A line ends in LF without CR.
    #[error("a line of the head ends in LF without CR")]
    BareLf,
    /// A CR is not followed by LF.
    #[error("a CR in the head is not followed by LF")]
    BareCr,
    /// A NUL byte.
    #[error("NUL in the head")]
    Nul,
    /// Too many empty lines before a request, or one before a response.
    #[error("too many empty lines before the head")]
    EmptyLines,
    /// The method is empty or not a token.
    #[error("the method is not a token")]
    Method,
    /// The target is empty, in no known form, or not followed by one space.
    #[error("the request target is malformed")]
    Target,
    /// A control or non-ASCII byte in the target.
    #[error("the request target has a byte that may not stand in a URI")]
    TargetByte,
    /// A `#` in the target.
    #[error("the request target has a fragment")]
    TargetFragment,
    /// The target's form does not go with the method.
    #[error("the form of the request target does not go with the method")]
    TargetForm,
    /// The target is longer than the limit.
    #[error("the request target is too long")]
    TargetTooLong,
    /// The version is malformed.
    #[error("the HTTP version is malformed")]
    Version,
    /// The version is well-formed but neither 1.0 nor 1.1.
    #[error("the HTTP version is not supported")]
    VersionUnsupported,
    /// The status code is not three digits from 100 on, or not followed by a space.
    #[error("the status code is malformed")]
    Status,
    /// A control byte in the reason phrase.
    #[error("the reason phrase has a control byte")]
    Reason,
    /// A field name is empty.
    #[error("a field name is empty")]
    NameEmpty,
    /// A byte in a field name that may not stand in a token.
    #[error("a field name is not a token")]
    NameByte,
    /// White space in a field name or between it and the colon.
    #[error("white space before the colon of a field")]
    SpaceBeforeColon,
    /// White space before the first field's name.
    #[error("white space before the first field")]
    SpaceBeforeField,
    /// Obsolete line folding.
    #[error("a field value is folded over several lines")]
    Folding,
    /// A control byte in a field value.
    #[error("a field value has a control byte")]
    ValueByte,
    /// More bytes than the limit.
    #[error("the head is too large")]
    TooLarge,
    /// More fields than the limit.
    #[error("the head has too many fields")]
    TooManyFields,
    /// HTTP/1.1 without Host.
    #[error("Host is missing")]
    HostMissing,
    /// More than one Host.
    #[error("Host is repeated")]
    HostRepeated,
    /// Host, or the target's authority, is not a host with an optional port.
    #[error("Host is not a valid authority")]
    HostInvalid,
    /// Host disagrees with the target's authority.
    #[error("Host disagrees with the request target")]
    HostMismatch,
    /// Content-Length is not a number.
    #[error("Content-Length is not a number")]
    LengthInvalid,
    /// Content-Length is beyond `i64::MAX`.
    #[error("Content-Length is too large a number")]
    LengthOverflow,
    /// More than one Content-Length, as fields or as a list.
    #[error("Content-Length is repeated")]
    LengthRepeated,
    /// Both Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// Transfer-Encoding is not a list of tokens.
    #[error("Transfer-Encoding is malformed")]
    CodingInvalid,
    /// More than one Transfer-Encoding field, or chunked more than once.
    #[error("a transfer coding is repeated")]
    CodingRepeated,
    /// A transfer coding other than chunked.
    #[error("a transfer coding other than chunked")]
    CodingUnknown,
    /// Chunked is not the last coding.
    #[error("chunked is not the last transfer coding")]
    ChunkedNotLast,
    /// Transfer-Encoding in HTTP/1.0.
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    CodingInHttp10,
    /// Connection is not a list of tokens.
    #[error("Connection is not a list of tokens")]
    ConnectionInvalid,
    /// Connection names Host or Content-Length.
    #[error("Connection names a field that the message depends on")]
    ConnectionNamesFraming,
    /// Expect asks for something other than 100-continue.
    #[error("Expect asks for something other than 100-continue")]
    Expectation,
}

impl HeadError {
    /// A short name of the cause, for counting.
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
            Expectation => "expectation",
        }
    }

    /// The status that a server answers to such a request, before it closes the connection.
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

/// Why a body was refused. The connection has lost its framing and can't be used further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BodyError {
    /// The connection closed before the body's end.
    #[error("the body ended too early")]
    Truncated,
    /// A chunk size is missing, or has a byte that is no hexadecimal digit.
    #[error("a chunk size is malformed")]
    ChunkSize,
    /// A chunk size has too many digits or is beyond `i64::MAX`.
    #[error("a chunk size is too large a number")]
    ChunkSizeOverflow,
    /// A chunk extension is malformed.
    #[error("a chunk extension is malformed")]
    ChunkExtension,
    /// Chunk extensions are too long.
    #[error("chunk extensions are too long")]
    ChunkExtensionTooLong,
    /// A chunk's data is not followed by CR LF.
    #[error("a chunk is not followed by CR LF")]
    ChunkEnd,
    /// A line of the chunked framing ends in LF without CR.
    #[error("a line of the chunked framing ends in LF without CR")]
    BareLf,
    /// A CR in the chunked framing is not followed by LF.
    #[error("a CR in the chunked framing is not followed by LF")]
    BareCr,
    /// A trailer is malformed; the cause is that of a field in a head.
    #[error("a trailer is malformed: {0}")]
    Trailer(HeadError),
    /// A trailer that would change framing, routing or the connection.
    #[error("a trailer has a name that may only stand in a head")]
    TrailerForbidden,
    /// Trailers are too long.
    #[error("trailers are too long")]
    TrailersTooLarge,
}

impl BodyError {
    /// A short name of the cause, for counting.
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

    /// The status that a server answers to such a request, before it closes the connection.
    pub fn status(self) -> u16 {
        match self {
            BodyError::TrailersTooLarge => 431,
            _ => 400,
        }
    }
}
