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
    EscapedSlashes "escaped_slashes" 307 "the path has escaped slashes, and is to be asked for without";
    MalformedRequest "malformed_request" 400 "the request's head is not HTTP/1.1";
    MalformedBody "malformed_body" 400 "the request's body breaks its framing";
    BadPath "bad_path" 400 "the path is one that readers understand differently";
    NotTls "not_tls" 400 "this listener speaks TLS (https), and the client plain text";
    NoToken "no_token" 401 "the request carries no bearer token";
    UnknownToken "unknown_token" 401 "the request's bearer token is not known here";
    NoHost "no_host" 400 "the request names no host, and the route leads to the same one elsewhere";
    NoRoute "no_route" 404 "no route takes this request";
    HeadTimeout "head_timeout" 408 "the request's head did not come in time";
    BodyTimeout "body_timeout" 408 "the request's body stopped coming";
    BodyTooLarge "body_too_large" 413 "the request's body is larger than the limit";
    TargetTooLong "target_too_long" 414 "the request's target is longer than the limit";
    Expectation "expectation" 417 "the only expectation known is 100-continue";
    HeadTooLarge "head_too_large" 431 "the request's head is larger than the limit";
    NoBackend "no_backend" 500 "every backend of the route has the weight 0";
    UnsupportedCoding "unsupported_coding" 501 "the only transfer coding known is chunked";
    ConnectUnsupported "connect_unsupported" 501 "CONNECT is not served here";
    ConnectFailed "upstream_connect_failed" 502 "the upstream takes no connections";
    UpstreamClosed "upstream_closed" 502 "the upstream closed before the head of its answer was whole";
    UpstreamMalformed "upstream_malformed" 502 "the upstream's answer is not HTTP/1.1, or ambiguous";
    UpstreamHeadTooLarge "upstream_head_too_large" 502 "the head of the upstream's answer is larger than the limit";
    UpstreamCertificate "upstream_certificate" 502 "the upstream's certificate is not for it, or not trusted";
    UpstreamHandshake "upstream_handshake" 502 "the TLS handshake with the upstream broke off";
    NoEndpoint "no_endpoint" 503 "the backend has no endpoint";
    UpstreamLimit "upstream_limit" 503 "the backend's connections are at their limit";
    RequestLimit "upstream_request_limit" 503 "the backend's requests are at their limit";
    PendingLimit "upstream_pending_limit" 503 "too many requests wait for the backend";
    PendingTimeout "upstream_pending_timeout" 503 "no place at the backend became free in time";
    ConnectionLimit "connection_limit" 503 "the gateway's connections are at their limit";
    AddressLimit "address_limit" 503 "the client's address has as many connections as it may have";
    OutOfSockets "out_of_sockets" 503 "the gateway has no sockets left";
    Overloaded "overloaded" 503 "the gateway has more to do than it can";
    Drained "drained" 503 "the gateway ends, and its time to drain is over";
    ConnectTimeout "upstream_connect_timeout" 504 "the upstream did not take the connection in time";
    ResponseTimeout "upstream_response_timeout" 504 "the upstream did not answer in time";
    UpstreamWriteTimeout "upstream_write_timeout" 504 "the upstream stopped reading the request";
    RequestTimeout "request_timeout" 504 "the request took longer than its route allows";
    BackendTimeout "backend_timeout" 504 "the backend took longer than the route allows";
    UnsupportedVersion "unsupported_version" 505 "the versions known are HTTP/1.0 and HTTP/1.1";
    UpstreamTruncated "upstream_truncated" 502 "the upstream's answer broke off";
    UpstreamStalled "upstream_stalled" 504 "the upstream stopped in the middle of its answer";
    ClientCertificate "client_certificate" 400 "the client showed no certificate, or one that is not trusted";
    ProxyHeader "proxy_header" 400 "the connection does not begin with a header of the PROXY protocol";
    UnknownName "unknown_name" 400 "the client asks for a name in its TLS handshake that is not known here, or for none";
    HandshakeFailed "handshake_failed" 400 "the TLS handshake broke off: malformed, or nothing in common";
    HandshakeRefused "handshake_refused" 400 "the client broke the TLS handshake off";
    HandshakeTimeout "handshake_timeout" 408 "the TLS handshake did not end in time";
    HandshakeOverload "handshake_overload" 503 "too many TLS handshakes wait for their signature";
    ClientClosed "client_closed" 400 "the client closed in the middle of the exchange";
    ClientStalled "client_stalled" 408 "the client stopped reading the answer";
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
