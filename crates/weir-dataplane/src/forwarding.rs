//! Request headers that the gateway adds for upstreams: the client's address, and request and trace IDs.
//!
//! The client's address is the one that the outermost trusted proxy reports. With N trusted proxies, it is in the N-th
//! element from the right of the header field that the proxies append to (`weir_http::TrustedElements`). Everything to
//! the left of this element is an unverified claim of the client and is dropped. The access log, `hash: client_address`
//! and both forwarding header fields use the same address.

use std::cell::RefCell;
use std::fmt::{Display, Write as _};
use std::net::{IpAddr, SocketAddr};

use weir_config::{Forwarding, RequestId, Scope, TrustedHeader};
use weir_http::{AddressField, Field, RequestHead, TrustedElements, append_field, is_forwarding_field};

use crate::counters::ListenerCounters;
use crate::entropy::Entropy;
use crate::observed::Observed;
use crate::trace::Traced;
use crate::weights::DueShare;

const FOR: &str = "X-Forwarded-For";
const PROTO: &str = "X-Forwarded-Proto";
const HOST: &str = "X-Forwarded-Host";
const FORWARDED: &str = "Forwarded";
const REQUEST_ID: &str = "X-Request-Id";
/// A header field in which some proxies send the client's address. Without a trusted proxy, its value is an unverified
/// claim of the client.
const REAL_IP: &str = "X-Real-IP";
const X_FORWARDED_PREFIX: &str = "x-forwarded-";

/// Longest request ID in bytes that is accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What is known about a request apart from its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// The routes that clients of the listener can match.
    pub(crate) scope: Scope,
    pub(crate) peer: SocketAddr,
    /// The listener's counters, for dropped header fields.
    pub(crate) listener: Option<&'a ListenerCounters>,
    /// Whether the client uses TLS.
    pub(crate) is_secure: bool,
    pub(crate) ids: &'a IdSource,
    /// Receives data about the request for the log.
    pub(crate) observed: &'a Observed,
    /// Whether the gateway is overloaded and rejects the request.
    pub(crate) is_shed: bool,
}

/// Generates request and trace IDs for one worker.
#[derive(Debug, Default)]
pub(crate) struct IdSource {
    entropy: Entropy,
    sampled: RefCell<DueShare>,
}

/// Header fields and IDs that the gateway adds to one request.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The added fields.
    fields: Vec<(&'static str, String)>,
    /// Selects the client's header fields to drop because their values are unverified claims.
    drops_claim: fn(&str) -> bool,
    traced: Option<Traced>,
    /// The client's address as a trusted proxy reports it. Without such a report, the address of the peer.
    pub(crate) client: IpAddr,
    /// Whether a trusted proxy reported `client`.
    pub(crate) is_forwarded: bool,
    pub(crate) request_id: Option<String>,
}

impl Marks {
    pub(crate) fn of(forwarding: &Forwarding, head: &RequestHead<'_>, arrival: &Arrival<'_>) -> Marks {
        let mut fields = Vec::new();
        let forwarded = append_client_fields(forwarding, head, arrival, &mut fields);
        let client = forwarded.unwrap_or(arrival.peer.ip().to_canonical());
        let request_id = match forwarding.request_id {
            RequestId::Off => None,
            RequestId::Make => Some(arrival.ids.entropy.uuid()),
            RequestId::Pass => Some(passed_id(head).unwrap_or_else(|| arrival.ids.entropy.uuid())),
        };
        if let Some(id) = &request_id {
            fields.push((REQUEST_ID, id.clone()));
        }
        let traced = forwarding.trace.as_ref().map(|trace| {
            let is_sampled = || arrival.ids.sampled.borrow_mut().take(trace.sampled.0);
            Traced::of(trace, head, &arrival.ids.entropy, is_sampled, &mut fields)
        });
        Marks {
            fields,
            drops_claim: dropped_claims(forwarding),
            traced,
            client,
            is_forwarded: forwarded.is_some(),
            request_id,
        }
    }

    /// The ID of the trace that the request belongs to.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        let context = self.traced.as_ref()?.context.as_ref()?;
        Some(&context.trace_id)
    }

    /// Whether the client's header field `name` is dropped or replaced.
    pub(crate) fn replaces(&self, name: &str) -> bool {
        self.fields.iter().any(|(made, _)| made.eq_ignore_ascii_case(name))
            || (self.drops_claim)(name)
            || self.traced.as_ref().is_some_and(|traced| traced.replaces(name))
    }

    /// Appends the added fields whose names `keeps` accepts.
    pub(crate) fn append(&self, keeps: impl Fn(&str) -> bool, out: &mut Vec<u8>) {
        for (name, value) in self.fields.iter().filter(|(name, _)| keeps(name)) {
            append_field(out, name, value.as_bytes());
        }
    }
}

/// Returns a function that selects the client's header fields to drop. Their values are unverified. It selects:
/// - none if the gateway does not report client addresses;
/// - all forwarding fields if it trusts no proxy;
/// - otherwise the fields of a format that the gateway does not write, if any.
fn dropped_claims(forwarding: &Forwarding) -> fn(&str) -> bool {
    match (forwarding.x_forwarded, forwarding.forwarded) {
        (false, false) => |_| false,
        _ if forwarding.trusted_hops == 0 => |name| is_forwarding_field(name.as_bytes()),
        (true, false) => is_forwarded,
        (false, true) => is_x_forwarded,
        (true, true) => |_| false,
    }
}

fn is_x_forwarded(name: &str) -> bool {
    name.get(..X_FORWARDED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(X_FORWARDED_PREFIX))
}

fn is_forwarded(name: &str) -> bool {
    name.eq_ignore_ascii_case(FORWARDED)
}

/// Selects the elements that the trusted proxies appended to the configured address field.
fn trusted_elements<'a>(forwarding: &Forwarding, fields: &[Field<'a>]) -> TrustedElements<'a> {
    let field = match forwarding.trusted_header() {
        TrustedHeader::XForwardedFor => AddressField::XForwardedFor,
        TrustedHeader::Forwarded => AddressField::Forwarded,
    };
    TrustedElements::of(fields, field, forwarding.trusted_hops as usize)
}

/// The client's address, as the outermost trusted proxy reports it. `None` if no trusted proxy reports an address.
pub(crate) fn forwarded_client(forwarding: &Forwarding, fields: &[Field<'_>]) -> Option<IpAddr> {
    trusted_elements(forwarding, fields).client()
}

/// Adds the header fields from which upstreams read the client's address. Returns the address that a trusted proxy
/// reports. `None` if no trusted proxy reports an address; then the peer counts as the client.
fn append_client_fields(
    forwarding: &Forwarding,
    head: &RequestHead<'_>,
    arrival: &Arrival<'_>,
    fields: &mut Vec<(&'static str, String)>,
) -> Option<IpAddr> {
    let peer = arrival.peer.ip().to_canonical();
    let has_proxies = forwarding.trusted_hops > 0;
    let trusted = trusted_elements(forwarding, head.fields);
    let forwarded = trusted.client();
    if forwarding.forwarded {
        let mut elements = String::new();
        trusted.append_forwarded(&mut elements);
        append_own_element(head, peer, arrival.is_secure, &mut elements);
        fields.push((FORWARDED, elements));
    }
    if forwarding.x_forwarded {
        let mut addresses = String::new();
        trusted.append_x_forwarded_for(&mut addresses);
        append_display(peer, &mut addresses);
        fields.push((FOR, addresses));
        let reported = |name: &str| {
            let value = only_value(head, name).filter(|_| has_proxies)?;
            std::str::from_utf8(value).ok().filter(|value| !value.is_empty())
        };
        let scheme = reported(PROTO).filter(|scheme| matches!(*scheme, "http" | "https"));
        fields.push((PROTO, scheme.unwrap_or(scheme_name(arrival.is_secure)).to_owned()));
        let host = reported(HOST).unwrap_or(head.host);
        if !host.is_empty() {
            fields.push((HOST, host.to_owned()));
        }
    }
    // A trusted proxy that does not set this field passes the client's value, so the gateway replaces it.
    if has_proxies && forwarding.adds_client_address() && head.field(REAL_IP).is_some() {
        fields.push((REAL_IP, forwarded.unwrap_or(peer).to_string()));
    }
    forwarded
}

fn scheme_name(is_secure: bool) -> &'static str {
    if is_secure { "https" } else { "http" }
}

/// Appends this gateway's own `Forwarded` element, which names the peer.
fn append_own_element(head: &RequestHead<'_>, peer: IpAddr, is_secure: bool, out: &mut String) {
    out.push_str("for=");
    match peer {
        IpAddr::V4(address) => append_display(address, out),
        IpAddr::V6(address) => append_display(format_args!("\"[{address}]\""), out),
    }
    if !head.host.is_empty() {
        // A parsed host contains neither quotes nor backslashes.
        append_display(format_args!(";host=\"{}\"", head.host), out);
    }
    append_display(format_args!(";proto={}", scheme_name(is_secure)), out);
}

fn append_display(value: impl Display, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}

/// The client's `X-Request-Id`, if it is valid: 1 to 128 visible ASCII characters.
fn passed_id(head: &RequestHead<'_>) -> Option<String> {
    let value = std::str::from_utf8(only_value(head, REQUEST_ID)?).ok()?;
    let is_name = (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| value.to_owned())
}

/// The value of the field called `name`. `None` if the request has no such field, or several, which are ambiguous.
pub(crate) fn only_value<'h>(head: &RequestHead<'h>, name: &str) -> Option<&'h [u8]> {
    let mut fields = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    Some(field.value)
}

#[cfg(test)]
mod tests {
    use weir_http::{FieldSlots, HeadLimits, parse_request};

    use super::*;

    /// Returns the client's address, and the header fields that the gateway adds to a request. `fields` are the
    /// request's own header lines.
    fn marks(forwarding: &Forwarding, peer: &str, fields: &str) -> (String, Vec<String>) {
        let text = format!("GET / HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        let head = parse_request(text.as_bytes(), &HeadLimits::default(), &mut slots).unwrap().unwrap();
        let ids = IdSource::default();
        let observed = Observed::default();
        let peer = peer.parse().unwrap();
        let arrival = Arrival {
            scope: Scope::default(),
            peer,
            listener: None,
            is_secure: true,
            ids: &ids,
            observed: &observed,
            is_shed: false,
        };
        let marks = Marks::of(forwarding, &head, &arrival);
        let sent = marks.fields.iter().map(|(name, value)| format!("{name}: {value}"));
        (marks.client.to_string(), sent.collect())
    }

    fn trusting(trusted_hops: u32) -> Forwarding {
        Forwarding { x_forwarded: true, trusted_hops, ..Forwarding::default() }
    }

    #[test]
    fn drops_claims_without_trusted_proxies() {
        let claims = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: evil\r\n";
        let (client, fields) = marks(&trusting(0), "192.0.2.1:5", claims);
        assert_eq!(client, "192.0.2.1");
        let expected = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: h:80"];
        assert_eq!(fields, expected);
    }

    #[test]
    fn trusts_the_configured_number_of_hops() {
        let chain =
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: http\r\n";
        for (hops, client, sent) in [
            (0, "192.0.2.1", "192.0.2.1"),
            (1, "3.3.3.3", "3.3.3.3, 192.0.2.1"),
            (2, "2.2.2.2", "2.2.2.2, 3.3.3.3, 192.0.2.1"),
            (9, "1.1.1.1", "1.1.1.1, 2.2.2.2, 3.3.3.3, 192.0.2.1"),
        ] {
            let (found, fields) = marks(&trusting(hops), "192.0.2.1:5", chain);
            assert_eq!((found.as_str(), fields[0].as_str()), (client, &*format!("X-Forwarded-For: {sent}")));
            let scheme = if hops == 0 { "https" } else { "http" };
            assert_eq!(fields[1], format!("X-Forwarded-Proto: {scheme}"));
        }
        let (client, _) = marks(&trusting(1), "192.0.2.1:5", "X-Forwarded-For: [2001:db8::1]:443\r\n");
        assert_eq!(client, "2001:db8::1");
    }

    #[test]
    fn an_element_without_an_address_makes_the_peer_the_client() {
        for element in ["unknown", "_hidden", "unix:", "\"1.1.1.1\""] {
            let fields = format!("X-Forwarded-For: 6.6.6.6, {element}\r\n");
            let (client, _) = marks(&trusting(1), "[::ffff:192.0.2.1]:5", &fields);
            assert_eq!(client, "192.0.2.1", "{element}");
            let fields = format!("X-Forwarded-For: 6.6.6.6, {element}, 192.0.2.9\r\n");
            let (client, sent) = marks(&trusting(2), "192.0.2.1:5", &fields);
            assert_eq!(client, "192.0.2.1", "{element}");
            let known = if element.starts_with('u') && element.ends_with('n') || element.starts_with('_') {
                element
            } else {
                "unknown"
            };
            assert_eq!(sent[0], format!("X-Forwarded-For: {known}, 192.0.2.9, 192.0.2.1"));
        }
    }

    #[test]
    fn trusted_header_determines_both_fields() {
        let claims = "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 7.7.7.7, 1.1.1.1\r\nX-Real-IP: 6.6.6.6\r\n";
        let both = Forwarding { forwarded: true, ..trusting(1) };
        let (client, sent) = marks(&both, "192.0.2.1:5", claims);
        assert_eq!(client, "1.1.1.1");
        let own = "for=192.0.2.1;host=\"h:80\";proto=https";
        let expected =
            [format!("Forwarded: for=1.1.1.1, {own}"), "X-Forwarded-For: 1.1.1.1, 192.0.2.1".to_owned()];
        assert_eq!(sent[..2], expected);
        assert_eq!(sent[4], "X-Real-IP: 1.1.1.1");
        let standard = Forwarding { trusted_header: Some(TrustedHeader::Forwarded), ..both };
        let (client, sent) = marks(&standard, "192.0.2.1:5", claims);
        assert_eq!(client, "6.6.6.6", "the trusted proxy reports this address");
        let expected =
            [format!("Forwarded: for=6.6.6.6, {own}"), "X-Forwarded-For: 6.6.6.6, 192.0.2.1".to_owned()];
        assert_eq!(sent[..2], expected);
    }

    #[test]
    fn forwarded_follows_rfc_7239() {
        let forwarding = Forwarding { x_forwarded: false, forwarded: true, ..trusting(1) };
        let own = "for=\"[2001:db8::7]\";host=\"h:80\";proto=https";
        let (client, fields) = marks(
            &forwarding,
            "[2001:db8::7]:5",
            "Forwarded: for=evil, FOR=\"[2001:db8::1]:443\";by=\"a,b\"\r\n",
        );
        assert_eq!(client, "2001:db8::1");
        assert_eq!(fields, [format!("Forwarded: FOR=\"[2001:db8::1]:443\";by=\"a,b\", {own}")]);
    }

    #[test]
    fn a_request_has_one_request_id() {
        let check = |rule: RequestId, fields: &str, passed: Option<&str>| {
            let forwarding = Forwarding { request_id: rule, ..Forwarding::default() };
            let (_, sent) = marks(&forwarding, "192.0.2.1:5", fields);
            assert_eq!(sent.len(), 1);
            let id = sent[0].strip_prefix("X-Request-Id: ").unwrap();
            assert_eq!(Some(id).filter(|id| id.len() != 36), passed, "{fields:?}");
        };
        check(RequestId::Pass, "X-Request-Id: abc\r\n", Some("abc"));
        check(RequestId::Pass, "", None);
        check(RequestId::Pass, "X-Request-Id: a b\r\n", None);
        check(RequestId::Pass, "X-Request-Id: a\r\nx-request-id: b\r\n", None);
        check(RequestId::Pass, &format!("X-Request-Id: {}\r\n", "a".repeat(129)), None);
        check(RequestId::Make, "X-Request-Id: abc\r\n", None);
    }
}
