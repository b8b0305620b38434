//! Headers that the gateway adds to upstream requests: client address, request ID, trace context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Share};

/// The maximum number of trusted proxies.
const TRUSTED_HOPS_MAX: u32 = 16;

/// Headers that the gateway adds to upstream requests. By default it adds none. The `request_headers` of a route are
/// applied after them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Forwarding {
    /// Send `X-Forwarded-For` (the client of this gateway is the last address), `X-Forwarded-Proto` (`http` or `https`)
    /// and `X-Forwarded-Host` (the requested host).
    pub x_forwarded: bool,
    /// Send `Forwarded` (RFC 7239) with `for`, `host` and `proto`.
    pub forwarded: bool,
    /// Number of trusted proxies in front of this gateway, 0 to 16. Each proxy appends one element to `trusted_header`.
    /// The gateway drops all earlier elements, because they come from the client. With 0, `X-Forwarded-*`, `Forwarded`
    /// and `X-Real-IP` of clients are dropped if `x_forwarded` or `forwarded` is on. If neither is on, these headers
    /// stay as they are, and the client address is read only for the access log and `hash: client_address`.
    pub trusted_hops: u32,
    /// Header that all trusted proxies append to. The gateway reads the client address from this header. If
    /// `x_forwarded` or `forwarded` is on, the gateway also copies the addresses to the headers that it sends. Elements
    /// are IPv4 or IPv6 addresses, with or without port; IPv6 with a port needs brackets. Do not use `forwarded` if one
    /// of the proxies is nginx older than 1.23 and is itself behind another proxy: its `$http_forwarded` contains only
    /// the first `Forwarded` line, and clients can forge this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"forwarded")]
    #[schemars(extend("x-default" = "`forwarded` if only `forwarded` is on, else `x_forwarded_for`"))]
    pub trusted_header: Option<TrustedHeader>,
    /// Value of the `X-Request-Id` header.
    pub request_id: RequestId,
    /// Trace context headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = serde_json::json!({ "w3c": true }))]
    pub trace: Option<Trace>,
}

/// The header to which proxies append the address of their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustedHeader {
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// Value of the `X-Request-Id` header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestId {
    /// Forward the header of the client, if any.
    #[default]
    Off,
    /// Forward the ID of the client if it is one header of 1 to 128 printable characters; otherwise create a random
    /// UUID.
    Pass,
    /// Create a random UUID for each request.
    Make,
}

/// Trace context headers: forwarded if the client sent one, otherwise created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trace {
    /// Send `traceparent` (W3C Trace Context). A valid one from the client is forwarded, with its `tracestate`;
    /// otherwise the gateway creates one and drops `tracestate`.
    pub w3c: bool,
    /// Send Zipkin B3 headers. Valid ones from the client are forwarded in the form in which they arrive; otherwise the
    /// gateway creates them. If the client sent only `traceparent`, the B3 headers continue its trace, and vice versa.
    pub b3: B3,
    /// Share of the traces started by this gateway that are marked as sampled, 0 to 100 %.
    pub sampled: Share,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { w3c: true, b3: B3::Off, sampled: Share(1.0) }
    }
}

/// Form of the Zipkin B3 headers that the gateway creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum B3 {
    /// No B3 headers.
    #[default]
    Off,
    /// The single header `b3`.
    Single,
    /// The headers `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`.
    Multi,
}

impl Forwarding {
    /// Whether the gateway adds headers to requests or reads the client address from them.
    pub(crate) fn is_any(&self) -> bool {
        self.adds_client_address()
            || self.trusted_hops > 0
            || self.request_id != RequestId::Off
            || self.trace.is_some()
    }

    /// Whether the gateway sends the client address to upstreams.
    pub fn adds_client_address(&self) -> bool {
        self.x_forwarded || self.forwarded
    }

    /// The header to which the trusted proxies append: the configured one, else its default.
    pub fn trusted_header(&self) -> TrustedHeader {
        let default = match self.forwarded && !self.x_forwarded {
            true => TrustedHeader::Forwarded,
            false => TrustedHeader::XForwardedFor,
        };
        self.trusted_header.unwrap_or(default)
    }
}

/// Validates `forwarding`.
pub(crate) fn check(forwarding: &Forwarding) -> Result<(), Problem> {
    let Forwarding { trusted_hops, trusted_header, trace, .. } = forwarding;
    if *trusted_hops > TRUSTED_HOPS_MAX {
        let message = format!("{trusted_hops} is larger than {TRUSTED_HOPS_MAX}");
        return Err(Problem::of("forwarding.trusted_hops", message)
            .help("write the number of proxies between the clients and this gateway"));
    }
    if trusted_header.is_some() && *trusted_hops == 0 {
        return Err(Problem::of("forwarding.trusted_header", "`trusted_hops` is 0, so no proxy is trusted")
            .help("set `trusted_hops` to the number of proxies in front of this gateway, or remove `trusted_header`"));
    }
    if trace.as_ref().is_some_and(|trace| !trace.w3c && trace.b3 == B3::Off) {
        return Err(Problem::of("forwarding.trace", "no effect: `w3c` and `b3` are both off")
            .help("turn one of them on, or remove `trace`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_contradicting_settings() {
        let check = |forwarding: Forwarding, expected: Option<&str>| {
            assert_eq!(super::check(&forwarding).err().map(|problem| problem.place).as_deref(), expected);
        };
        let trusting = Forwarding { trusted_hops: 1, ..Forwarding::default() };
        check(trusting.clone(), None);
        check(Forwarding { forwarded: true, ..trusting.clone() }, None);
        check(
            Forwarding { x_forwarded: true, trusted_hops: 17, ..trusting.clone() },
            Some("forwarding.trusted_hops"),
        );
        let header = Some(TrustedHeader::Forwarded);
        check(Forwarding { trusted_header: header, ..trusting.clone() }, None);
        check(
            Forwarding { trusted_header: header, trusted_hops: 0, ..trusting.clone() },
            Some("forwarding.trusted_header"),
        );
        let silent = Trace { w3c: false, ..Trace::default() };
        check(
            Forwarding { trusted_hops: 0, trace: Some(silent), ..trusting.clone() },
            Some("forwarding.trace"),
        );
        let trace = Trace { w3c: false, b3: B3::Multi, ..Trace::default() };
        check(Forwarding { trusted_hops: 0, trace: Some(trace), ..trusting }, None);
    }

    #[test]
    fn selects_the_trusted_header() {
        use TrustedHeader::{Forwarded as Standard, XForwardedFor};
        for (x_forwarded, forwarded, expected) in [
            (false, false, XForwardedFor),
            (true, false, XForwardedFor),
            (false, true, Standard),
            (true, true, XForwardedFor),
        ] {
            let forwarding = Forwarding { x_forwarded, forwarded, ..Forwarding::default() };
            assert_eq!(forwarding.trusted_header(), expected);
            let chosen = Forwarding { trusted_header: Some(Standard), ..forwarding };
            assert_eq!(chosen.trusted_header(), Standard);
        }
    }

    #[test]
    fn adds_no_headers_by_default() {
        assert!(!Forwarding::default().is_any());
        assert!(Forwarding { trusted_hops: 1, ..Forwarding::default() }.is_any());
        assert!(Forwarding { request_id: RequestId::Pass, ..Forwarding::default() }.is_any());
        assert!(Forwarding { trace: Some(Trace::default()), ..Forwarding::default() }.is_any());
    }
}
