//! Causes of failed exchanges: a closed list for responses, counters and tests.

use weir_http::{BodyError, HeadError};

macro_rules! causes {
    ($($variant:ident $name:literal $status:literal $text:literal $meaning:literal;)*) => {
        /// Why an exchange failed. Clients get its name in `X-Weir-Error`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $(#[doc = $text] $variant,)*
        }

        impl Cause {
            /// All causes, in the order of the counters.
            pub const ALL: &[Cause] = &[$(Cause::$variant,)*];

            /// The name in `X-Weir-Error` and in counters.
            pub fn name(self) -> &'static str {
                match self { $(Cause::$variant => $name,)* }
            }

            /// The status that the client gets if the response has not begun yet.
            pub fn status(self) -> u16 {
                match self { $(Cause::$variant => $status,)* }
            }

            /// One sentence for the response body.
            pub fn text(self) -> &'static str {
                match self { $(Cause::$variant => $text,)* }
            }

            /// The text in the reference documentation: what happened, and which setting applies. `*cut*` means that
            /// the connection is reset, because the response has begun.
            pub fn meaning(self) -> &'static str {
                match self { $(Cause::$variant => $meaning,)* }
            }
        }
    };
}

causes! {
    EscapedSlashes "escaped_slashes" 307 "path contains encoded slashes; follow the redirect"
        "`paths.escaped_slashes: redirect`: the path contains `%2F`, `%5C` or a backslash. The `Location` header has the path with plain slashes.";
    MalformedRequest "malformed_request" 400 "malformed HTTP/1.1 request"
        "The request headers are malformed or ambiguous, or `Connection` has too many options. The response body \
        names the violated rule.";
    MalformedBody "malformed_body" 400 "malformed request body"
        "The chunked framing of the request body is malformed.";
    BadPath "bad_path" 400 "ambiguous path"
        "Two servers could read the path differently, or `paths.escaped_slashes` or `paths.path_parameters` rejects \
        it. The response body names the reason; [paths.md](../paths.md) lists all reasons.";
    NotTls "not_tls" 400 "plain HTTP request sent to an HTTPS listener"
        "The listener has `tls`, and the client sent plain HTTP.";
    NoToken "no_token" 401 "bearer token missing"
        "`tokens` of the route: the request has no bearer token, or it has two `Authorization` headers.";
    UnknownToken "unknown_token" 401 "unknown bearer token"
        "`tokens` of the route: the token is not in the list.";
    NoHost "no_host" 400 "cannot redirect: the request has no Host header"
        "`redirect` of the route sets no host, and the request has none.";
    NoRoute "no_route" 404 "no route matches this request"
        "No route matches the listener, host, path, method, headers and query. `weir-gateway explain` shows the reason per route.";
    HeadTimeout "head_timeout" 408 "timed out waiting for request headers"
        "`timeouts.head` expired.";
    BodyTimeout "body_timeout" 408 "timed out waiting for the request body"
        "`timeouts.body` expired (the value of the route, or of the gateway if the route sets none).";
    BodyTooLarge "body_too_large" 413 "request body too large"
        "The body is larger than `limits.body`.";
    TargetTooLong "target_too_long" 414 "request target too long"
        "The request line is longer than `limits.head`.";
    Expectation "expectation" 417 "unsupported Expect header; only 100-continue is supported"
        "The value of `Expect` is not `100-continue`.";
    HeadTooLarge "head_too_large" 431 "request headers too large"
        "`limits.head` or `limits.fields` is exceeded, or trailers exceed 8 KiB or 32 fields.";
    NoBackend "no_backend" 500 "all backends of this route have weight 0"
        "`backends` of the route: every weight is 0.";
    UnsupportedCoding "unsupported_coding" 501 "unsupported transfer coding; only chunked is supported"
        "`Transfer-Encoding` lists a coding other than `chunked`.";
    ConnectUnsupported "connect_unsupported" 501 "CONNECT is not supported"
        "The method is CONNECT.";
    ConnectFailed "upstream_connect_failed" 502 "cannot connect to upstream"
        "Every attempt failed. The endpoint refused or reset the connection, or closed it while the gateway sent the \
        PROXY protocol header (`proxy_protocol` of the backend). Or the system reported an error, such as host \
        unreachable, a missing Unix socket, or no permission to open it. After several attempts, the response names \
        the cause of the last attempt.";
    UpstreamClosed "upstream_closed" 502 "upstream closed the connection before sending complete response headers"
        "The upstream closed or reset the connection before its final response headers were complete, perhaps after an interim response.";
    UpstreamMalformed "upstream_malformed" 502 "malformed or ambiguous upstream response"
        "The response is not HTTP/1.1, or is ambiguous (for example, both Content-Length and Transfer-Encoding).";
    UpstreamHeadTooLarge "upstream_head_too_large" 502 "upstream response headers too large"
        "The response headers exceed `limits.head` or `limits.fields`.";
    UpstreamCertificate "upstream_certificate" 502 "cannot verify upstream certificate"
        "`tls` of the backend: the certificate is expired, is not valid for the server name, or has no trusted issuer.";
    UpstreamHandshake "upstream_handshake" 502 "TLS handshake with upstream failed"
        "`tls` of the backend: the gateway and the upstream do not agree on a TLS version, cipher suite or ALPN protocol, or the upstream is not a TLS server. See the log.";
    NoEndpoint "no_endpoint" 503 "backend has no usable endpoint"
        "One of these: the backend has no endpoints; no endpoint name resolves to an address; all endpoints have \
        weight 0, and the client's sticky cookie selects none of them; a reload removed the backend that \
        `passthrough` names. Ejected and unhealthy endpoints are not the cause: if all endpoints are ejected or \
        unhealthy, the gateway uses all of them. See `/clusters` and the log.";
    UpstreamLimit "upstream_limit" 503 "backend connection limit reached"
        "`limits.connections` of the backend or `limits.upstream_connections` is reached, and no queue is configured \
        (`limits.pending` is 0).";
    RequestLimit "upstream_request_limit" 503 "backend request limit reached"
        "`limits.requests` of the backend is reached, and no queue is configured (`limits.pending` is 0).";
    PendingLimit "upstream_pending_limit" 503 "backend queue full"
        "`limits.pending` of the backend is reached: too many requests wait for a connection or a request slot.";
    PendingTimeout "upstream_pending_timeout" 503 "timed out in the backend queue"
        "`timeouts.pending` of the backend expired: no connection or request slot became free within this time.";
    ConnectionLimit "connection_limit" 503 "gateway connection limit reached"
        "`limits.connections` is reached, and the gateway found no idle client connection to close.";
    AddressLimit "address_limit" 503 "too many connections from this client address"
        "`limits.connections_per_address` is reached.";
    OutOfSockets "out_of_sockets" 503 "gateway out of sockets"
        "No file descriptor or local port is free, and there is no idle upstream connection to close. Raise `LimitNOFILE=` or `ulimit -n`.";
    Overloaded "overloaded" 503 "gateway overloaded"
        "`overload`: memory use is above its limit, or a worker lags. The response has `Retry-After: 1`, and the \
        gateway closes the connection after it.";
    Drained "drained" 503 "gateway shutting down"
        "`drain.timeout` expired. Tunnels, and responses that have begun, are *cut*.";
    ConnectTimeout "upstream_connect_timeout" 504 "timed out connecting to upstream"
        "`timeouts.connect` expired.";
    ResponseTimeout "upstream_response_timeout" 504 "timed out waiting for upstream response headers"
        "`timeouts.response` expired.";
    UpstreamWriteTimeout "upstream_write_timeout" 504 "timed out sending the request to upstream"
        "`timeouts.write` expired: the upstream stopped reading the request.";
    RequestTimeout "request_timeout" 504 "request timeout of this route exceeded"
        "`timeouts.request` of the route expired. If the response has begun, the cause is *cut* instead.";
    BackendTimeout "backend_timeout" 504 "backend timeout of this route exceeded"
        "`timeouts.backend` of the route expired. If the response has begun, the cause is *cut* instead.";
    UnsupportedVersion "unsupported_version" 505 "unsupported HTTP version; use HTTP/1.1 or HTTP/1.0"
        "The request line names neither HTTP/1.0 nor HTTP/1.1.";
    UpstreamTruncated "upstream_truncated" 502 "upstream response truncated"
        "*cut*: the upstream closed or reset the connection before the end of its response.";
    UpstreamStalled "upstream_stalled" 504 "timed out waiting for the upstream response body"
        "*cut*: `timeouts.body` expired (the value of the route, or of the gateway if the route sets none).";
    ClientCertificate "client_certificate" 400 "client certificate missing or not trusted"
        "Handshake failed: the client sent no certificate, or one that `client_ca` does not trust.";
    ProxyHeader "proxy_header" 400 "PROXY protocol header missing or malformed"
        "`proxy_protocol` of the listener: the header is missing, malformed, longer than 2 KiB, or incomplete after `timeouts.head`.";
    UnknownName "unknown_name" 400 "unknown or missing TLS server name (SNI)"
        "Handshake failed: the client sent no server name, or one that `strict_sni` or `passthrough` does not allow.";
    HandshakeFailed "handshake_failed" 400 "TLS handshake failed: malformed message, or no common version, cipher suite or ALPN"
        "Handshake failed: malformed message, or no common TLS version, cipher suite or ALPN protocol.";
    HandshakeRefused "handshake_refused" 400 "client aborted the TLS handshake"
        "Handshake failed: the client aborted it. Usual causes: the client does not trust the certificate, or the \
        certificate does not match the server name.";
    HandshakeTimeout "handshake_timeout" 408 "TLS handshake timed out"
        "Handshake failed: `timeouts.head` expired.";
    HandshakeOverload "handshake_overload" 503 "TLS handshake queue full"
        "Handshake failed: 4096 handshakes already wait for an RSA signature. The gateway closes the connection.";
    ClientClosed "client_closed" 400 "client disconnected before the response was complete"
        "*cut*: the client disconnected during the request, the response or the handshake, or closed its side of the \
        connection while `half_close` of the listener is off.";
    ClientStalled "client_stalled" 408 "timed out sending the response to the client"
        "*cut*: `timeouts.write` expired: the client stopped reading.";
}

impl Cause {
    /// The position in [`Cause::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The cause for rejected request headers.
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

    /// The cause for rejected response headers.
    pub(crate) fn of_response_head(error: HeadError) -> Cause {
        match error.status() {
            431 => Cause::UpstreamHeadTooLarge,
            _ => Cause::UpstreamMalformed,
        }
    }

    /// The cause for a rejected request body.
    pub(crate) fn of_body(error: BodyError) -> Cause {
        match error {
            BodyError::Truncated => Cause::ClientClosed,
            BodyError::TrailersTooLarge => Cause::HeadTooLarge,
            _ => Cause::MalformedBody,
        }
    }

    /// Whether a response can carry this cause. Other causes appear only in the access log, the program log and
    /// metrics.
    pub fn has_response(self) -> bool {
        !matches!(
            self,
            Cause::ClientCertificate
                | Cause::ProxyHeader
                | Cause::UnknownName
                | Cause::HandshakeFailed
                | Cause::HandshakeRefused
                | Cause::HandshakeTimeout
                | Cause::HandshakeOverload
                | Cause::ClientClosed
                | Cause::ClientStalled
        )
    }

    /// Whether an upstream caused the failure after the gateway had connected to it.
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

    /// Whether the failure is a timeout.
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
    fn names_are_unique_and_positions_match() {
        for (index, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert!((300..=505).contains(&cause.status()));
            assert_eq!(Cause::ALL.iter().filter(|c| c.name() == cause.name()).count(), 1);
        }
    }
}
