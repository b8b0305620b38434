//! Why an exchange did not end well: a closed list, the same in answers, counters and tests.

use weir_http::{BodyError, HeadError};

macro_rules! causes {
    ($($variant:ident $name:literal $status:literal $text:literal;)*) => {
        /// What went wrong. Clients read its name in `X-Weir-Error`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $(#[doc = $text] $variant,)*
        }

        impl Cause {
            /// Every cause, in the order of the counters.
            pub const ALL: &[Cause] = &[$(Cause::$variant,)*];

            /// The name in `X-Weir-Error` and in counters.
            pub fn name(self) -> &'static str {
                match self { $(Cause::$variant => $name,)* }
            }

            /// The status that answers it, where it is still possible to answer.
            pub fn status(self) -> u16 {
                match self { $(Cause::$variant => $status,)* }
            }

            /// One sentence for the answer's body.
            pub fn text(self) -> &'static str {
                match self { $(Cause::$variant => $text,)* }
            }
        }
    };
}

causes! {
    EscapedSlashes "escaped_slashes" 307 "path contains encoded slashes; follow the redirect";
    MalformedRequest "malformed_request" 400 "malformed HTTP/1.1 request";
    MalformedBody "malformed_body" 400 "malformed request body";
    BadPath "bad_path" 400 "ambiguous path";
    NotTls "not_tls" 400 "plain HTTP request sent to an HTTPS listener";
    NoToken "no_token" 401 "bearer token missing";
    UnknownToken "unknown_token" 401 "unknown bearer token";
    NoHost "no_host" 400 "cannot redirect: the request has no Host header";
    NoRoute "no_route" 404 "no route matches this request";
    HeadTimeout "head_timeout" 408 "timed out waiting for request headers";
    BodyTimeout "body_timeout" 408 "timed out waiting for the request body";
    BodyTooLarge "body_too_large" 413 "request body too large";
    TargetTooLong "target_too_long" 414 "request target too long";
    Expectation "expectation" 417 "unsupported Expect header; only 100-continue is supported";
    HeadTooLarge "head_too_large" 431 "request headers too large";
    NoBackend "no_backend" 500 "all backends of this route have weight 0";
    UnsupportedCoding "unsupported_coding" 501 "unsupported transfer coding; only chunked is supported";
    ConnectUnsupported "connect_unsupported" 501 "CONNECT is not supported";
    ConnectFailed "upstream_connect_failed" 502 "cannot connect to upstream";
    UpstreamClosed "upstream_closed" 502 "upstream closed the connection before sending complete response headers";
    UpstreamMalformed "upstream_malformed" 502 "malformed or ambiguous upstream response";
    UpstreamHeadTooLarge "upstream_head_too_large" 502 "upstream response headers too large";
    UpstreamCertificate "upstream_certificate" 502 "cannot verify upstream certificate";
    UpstreamHandshake "upstream_handshake" 502 "TLS handshake with upstream failed";
    NoEndpoint "no_endpoint" 503 "backend has no usable endpoint";
    UpstreamLimit "upstream_limit" 503 "backend connection limit reached";
    RequestLimit "upstream_request_limit" 503 "backend request limit reached";
    PendingLimit "upstream_pending_limit" 503 "backend queue full";
    PendingTimeout "upstream_pending_timeout" 503 "timed out in the backend queue";
    ConnectionLimit "connection_limit" 503 "gateway connection limit reached";
    AddressLimit "address_limit" 503 "too many connections from this client address";
    OutOfSockets "out_of_sockets" 503 "gateway out of sockets";
    Overloaded "overloaded" 503 "gateway overloaded";
    Drained "drained" 503 "gateway shutting down";
    ConnectTimeout "upstream_connect_timeout" 504 "timed out connecting to upstream";
    ResponseTimeout "upstream_response_timeout" 504 "timed out waiting for upstream response headers";
    UpstreamWriteTimeout "upstream_write_timeout" 504 "timed out sending the request to upstream";
    RequestTimeout "request_timeout" 504 "request timeout of this route exceeded";
    BackendTimeout "backend_timeout" 504 "backend timeout of this route exceeded";
    UnsupportedVersion "unsupported_version" 505 "unsupported HTTP version; use HTTP/1.1 or HTTP/1.0";
    UpstreamTruncated "upstream_truncated" 502 "upstream response truncated";
    UpstreamStalled "upstream_stalled" 504 "timed out waiting for the upstream response body";
    ClientCertificate "client_certificate" 400 "client certificate missing or not trusted";
    ProxyHeader "proxy_header" 400 "PROXY protocol header missing or malformed";
    UnknownName "unknown_name" 400 "unknown or missing TLS server name (SNI)";
    HandshakeFailed "handshake_failed" 400 "TLS handshake failed: malformed message, or no common version, cipher suite or ALPN";
    HandshakeRefused "handshake_refused" 400 "client aborted the TLS handshake";
    HandshakeTimeout "handshake_timeout" 408 "TLS handshake timed out";
    HandshakeOverload "handshake_overload" 503 "TLS handshake queue full";
    ClientClosed "client_closed" 400 "client disconnected before the response was complete";
    ClientStalled "client_stalled" 408 "timed out sending the response to the client";
}

impl Cause {
    /// The position among [`Cause::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The cause of a request's head that was refused.
    pub(crate) fn of_head(error: HeadError) -> Cause {
        match error.status() {
            414 => Cause::TargetTooLong,
            417 => Cause::Expectation,
            431 => Cause::HeadTooLarge,
            501 => Cause::UnsupportedCoding,
            505 => Cause::UnsupportedVersion,
            _ => Cause::MalformedRequest,
        }
    }

    /// The cause of a response's head that was refused.
    pub(crate) fn of_response_head(error: HeadError) -> Cause {
        match error.status() {
            431 => Cause::UpstreamHeadTooLarge,
            _ => Cause::UpstreamMalformed,
        }
    }

    /// The cause of a request's body that was refused.
    pub(crate) fn of_body(error: BodyError) -> Cause {
        match error {
            BodyError::Truncated => Cause::ClientClosed,
            BodyError::TrailersTooLarge => Cause::HeadTooLarge,
            _ => Cause::MalformedBody,
        }
    }

    /// Whether an upstream that had a connection brought it about.
    pub(crate) fn is_upstreams(self) -> bool {
        matches!(
            self,
            Cause::UpstreamClosed
                | Cause::UpstreamMalformed
                | Cause::UpstreamHeadTooLarge
                | Cause::UpstreamTruncated
                | Cause::UpstreamStalled
                | Cause::UpstreamWriteTimeout
                | Cause::ResponseTimeout
        )
    }

    /// Whether a time limit ended it.
    pub fn is_timeout(self) -> bool {
        matches!(
            self,
            Cause::HeadTimeout
                | Cause::BodyTimeout
                | Cause::HandshakeTimeout
                | Cause::PendingTimeout
                | Cause::ConnectTimeout
                | Cause::ResponseTimeout
                | Cause::UpstreamWriteTimeout
                | Cause::UpstreamStalled
                | Cause::RequestTimeout
                | Cause::BackendTimeout
                | Cause::ClientStalled
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_positions_right() {
        for (index, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert!((300..=505).contains(&cause.status()));
            assert_eq!(Cause::ALL.iter().filter(|c| c.name() == cause.name()).count(), 1);
        }
    }
}
