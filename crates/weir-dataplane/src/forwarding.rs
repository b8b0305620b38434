//! What upstreams are told of a request beside what the client sent: who the client is, and the request's names.
//!
//! Fields that tell of clients are believed as far as proxies that are trusted have added them: as many from the end of
//! the list as there are such proxies. What stands before is whatever the client likes, and ends here.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use weir_config::{Forwarding, RequestId, Scope};
use weir_http::{RequestHead, append_field};

use crate::entropy::Entropy;
use crate::observed::Observed;
use crate::trace::Traced;
use crate::weights::DueShare;

const FOR: &str = "X-Forwarded-For";
const PROTO: &str = "X-Forwarded-Proto";
const HOST: &str = "X-Forwarded-Host";
const FORWARDED: &str = "Forwarded";
const REQUEST_ID: &str = "X-Request-Id";
/// Another proxy's word for the client, which is as much a claim as the others.
const REAL_IP: &str = "x-real-ip";
const X_FORWARDED_PREFIX: &str = "x-forwarded-";

/// The longest name of a request that is taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What is known of a client beside what it sends.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// Which routes are for clients of its listener.
    pub(crate) scope: Scope,
    pub(crate) peer: SocketAddr,
    /// It speaks TLS.
    pub(crate) is_secure: bool,
    pub(crate) names: &'a Names,
    /// Where what is made of the request is told.
    pub(crate) observed: &'a Observed,
    /// The gateway is overloaded: it is turned away.
    pub(crate) is_shed: bool,
}

/// Where a worker has the names of requests and traces from.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entropy: Entropy,
    sampled: RefCell<DueShare>,
}

/// What is made of one request.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The fields that it gets.
    fields: Vec<(&'static str, String)>,
    /// Whether what the client sent under this name is a claim of who it is that ends here.
    ends_claim: fn(&str) -> bool,
    traced: Option<Traced>,
    /// The client's address, as far as trusted proxies tell it.
    pub(crate) client: IpAddr,
    pub(crate) request_id: Option<String>,
}

impl Marks {
    pub(crate) fn of(forwarding: &Forwarding, head: &RequestHead<'_>, arrival: &Arrival<'_>) -> Marks {
        let mut fields = Vec::new();
        let client = tell_of_client(forwarding, head, arrival, &mut fields);
        let request_id = match forwarding.request_id {
            RequestId::Off => None,
            RequestId::Make => Some(arrival.names.entropy.uuid()),
            RequestId::Pass => Some(passed_id(head).unwrap_or_else(|| arrival.names.entropy.uuid())),
        };
        if let Some(id) = &request_id {
            fields.push((REQUEST_ID, id.clone()));
        }
        let traced = forwarding.trace.as_ref().map(|trace| {
            let is_sampled = || arrival.names.sampled.borrow_mut().take(trace.sampled.0);
            Traced::of(trace, head, &arrival.names.entropy, is_sampled, &mut fields)
        });
        Marks { fields, ends_claim: ended_claims(forwarding), traced, client, request_id }
    }

    /// The name of the trace that the request is part of.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        let context = self.traced.as_ref()?.context.as_ref()?;
        Some(&context.trace_id)
    }

    /// Whether the client's own field gives way.
    pub(crate) fn replaces(&self, name: &str) -> bool {
        self.fields.iter().any(|(made, _)| made.eq_ignore_ascii_case(name))
            || (self.ends_claim)(name)
            || self.traced.as_ref().is_some_and(|traced| traced.replaces(name))
    }

    /// Appends the fields whose names are kept.
    pub(crate) fn append(&self, keeps: impl Fn(&str) -> bool, out: &mut Vec<u8>) {
        for (name, value) in self.fields.iter().filter(|(name, _)| keeps(name)) {
            append_field(out, name, value.as_bytes());
        }
    }
}

/// Which fields end here where upstreams are told of clients: with nobody in front who is trusted all; else the form
/// that is not told in, of which nobody would know how much is true.
fn ended_claims(forwarding: &Forwarding) -> fn(&str) -> bool {
    match (forwarding.x_forwarded, forwarding.forwarded) {
        (false, false) => |_| false,
        _ if forwarding.trusted_hops == 0 => is_claim,
        (true, false) => is_forwarded,
        (false, true) => is_x_forwarded,
        (true, true) => |_| false,
    }
}

/// Whether a field says who the client is.
fn is_claim(name: &str) -> bool {
    is_x_forwarded(name) || is_forwarded(name) || name.eq_ignore_ascii_case(REAL_IP)
}

fn is_x_forwarded(name: &str) -> bool {
    name.get(..X_FORWARDED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(X_FORWARDED_PREFIX))
}

fn is_forwarded(name: &str) -> bool {
    name.eq_ignore_ascii_case(FORWARDED)
}

/// Puts together what upstreams are told of the client; its address as far as that is known.
fn tell_of_client(
    forwarding: &Forwarding,
    head: &RequestHead<'_>,
    arrival: &Arrival<'_>,
    fields: &mut Vec<(&'static str, String)>,
) -> IpAddr {
    let hops = forwarding.trusted_hops as usize;
    let peer = arrival.peer.ip().to_canonical();
    let mut client = None;
    if hops > 0 && !forwarding.tells_clients() {
        client = last_elements(head, FOR, hops).first().and_then(|element| address(element));
    }
    if forwarding.forwarded {
        let mut hops = last_elements(head, FORWARDED, hops);
        client = hops.first().and_then(|element| address_of_element(element));
        hops.push(own_element(head, peer, arrival.is_secure));
        fields.push((FORWARDED, hops.join(", ")));
    }
    if forwarding.x_forwarded {
        let mut hops = last_elements(head, FOR, hops);
        client = hops.first().and_then(|element| address(element)).or(client);
        hops.push(peer.to_string());
        fields.push((FOR, hops.join(", ")));
        let told = |name: &str| {
            let value = only_value(head, name).filter(|_| forwarding.trusted_hops > 0)?;
            std::str::from_utf8(value).ok().filter(|value| !value.is_empty())
        };
        let scheme = told(PROTO).filter(|scheme| matches!(*scheme, "http" | "https"));
        fields.push((PROTO, scheme.unwrap_or(scheme_name(arrival.is_secure)).to_owned()));
        let host = told(HOST).unwrap_or(head.host);
        if !host.is_empty() {
            fields.push((HOST, host.to_owned()));
        }
    }
    client.unwrap_or(peer)
}

fn scheme_name(is_secure: bool) -> &'static str {
    if is_secure { "https" } else { "http" }
}

/// What this gateway says of who has connected to it.
fn own_element(head: &RequestHead<'_>, peer: IpAddr, is_secure: bool) -> String {
    let node = match peer {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let host = if head.host.is_empty() { String::new() } else { format!(";host=\"{}\"", head.host) };
    format!("for={node}{host};proto={}", scheme_name(is_secure))
}

/// The last `count` elements of the list that all fields called `name` make together.
fn last_elements(head: &RequestHead<'_>, name: &str, count: usize) -> Vec<String> {
    let values = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let values = values.filter_map(|field| std::str::from_utf8(field.value).ok());
    let mut all: Vec<&str> = values.flat_map(elements).filter(|element| !element.is_empty()).collect();
    all.split_off(all.len().saturating_sub(count)).into_iter().map(str::to_owned).collect()
}

/// The elements of a list, in which commas between quotation marks separate nothing.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = move |c: char| {
        let is_end = c == ',' && !is_quoted;
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && is_quoted && !is_escaped;
        is_end
    };
    list.split(ends).map(str::trim)
}

/// The address in an element of `Forwarded`.
fn address_of_element(element: &str) -> Option<IpAddr> {
    let parameters = element.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let mut nodes = parameters.filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    nodes.next().and_then(|(_, node)| address(node.trim_matches('"')))
}

/// An address that may have a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

/// What the client sent as `X-Request-Id`, if that is a name that a log can bear.
fn passed_id(head: &RequestHead<'_>) -> Option<String> {
    let value = std::str::from_utf8(only_value(head, REQUEST_ID)?).ok()?;
    let is_name = (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
        && value.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| value.to_owned())
}

/// The value of the one field called `name`; of several, which counts would be for each reader to guess.
pub(crate) fn only_value<'h>(head: &RequestHead<'h>, name: &str) -> Option<&'h [u8]> {
    let mut fields = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    Some(field.value)
}

#[cfg(test)]
mod tests {
    use weir_http::{FieldSlots, HeadLimits, parse_request};

    use super::*;

    /// The client's address and the fields that a request with `fields` gets.
    fn marks(forwarding: &Forwarding, peer: &str, fields: &str) -> (String, Vec<String>) {
        let text = format!("GET / HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        let head = parse_request(text.as_bytes(), &HeadLimits::default(), &mut slots).unwrap().unwrap();
        let names = Names::default();
        let observed = Observed::default();
        let peer = peer.parse().unwrap();
        let arrival = Arrival {
            scope: Scope::default(),
            peer,
            is_secure: true,
            names: &names,
            observed: &observed,
            is_shed: false,
        };
        let marks = Marks::of(forwarding, &head, &arrival);
        let told = marks.fields.iter().map(|(name, value)| format!("{name}: {value}"));
        (marks.client.to_string(), told.collect())
    }

    fn trusting(trusted_hops: u32) -> Forwarding {
        Forwarding { x_forwarded: true, trusted_hops, ..Forwarding::default() }
    }

    #[test]
    fn claims_end_where_nobody_is_trusted() {
        let claims = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: evil\r\n";
        let (client, fields) = marks(&trusting(0), "192.0.2.1:5", claims);
        assert_eq!(client, "192.0.2.1");
        let expected = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: h:80"];
        assert_eq!(fields, expected);
    }

    #[test]
    fn as_many_hops_are_believed_as_there_are() {
        let chain =
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: http\r\n";
        for (hops, client, told) in [
            (0, "192.0.2.1", "192.0.2.1"),
            (1, "3.3.3.3", "3.3.3.3, 192.0.2.1"),
            (2, "2.2.2.2", "2.2.2.2, 3.3.3.3, 192.0.2.1"),
            (9, "1.1.1.1", "1.1.1.1, 2.2.2.2, 3.3.3.3, 192.0.2.1"),
        ] {
            let (found, fields) = marks(&trusting(hops), "192.0.2.1:5", chain);
            assert_eq!((found.as_str(), fields[0].as_str()), (client, &*format!("X-Forwarded-For: {told}")));
            let scheme = if hops == 0 { "https" } else { "http" };
            assert_eq!(fields[1], format!("X-Forwarded-Proto: {scheme}"));
        }
        let (client, _) = marks(&trusting(1), "192.0.2.1:5", "X-Forwarded-For: [2001:db8::1]:443\r\n");
        assert_eq!(client, "2001:db8::1");
        let (client, _) = marks(&trusting(1), "[::ffff:192.0.2.1]:5", "X-Forwarded-For: unknown\r\n");
        assert_eq!(client, "192.0.2.1");
    }

    #[test]
    fn forwarded_is_read_and_written_as_rfc_7239_has_it() {
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
    fn a_request_has_one_name() {
        let check = |rule: RequestId, fields: &str, passed: Option<&str>| {
            let forwarding = Forwarding { request_id: rule, ..Forwarding::default() };
            let (_, told) = marks(&forwarding, "192.0.2.1:5", fields);
            assert_eq!(told.len(), 1);
            let id = told[0].strip_prefix("X-Request-Id: ").unwrap();
            assert_eq!(Some(id).filter(|id| id.len() != 36), passed, "{fields:?}");
        };
        check(RequestId::Pass, "X-Request-Id: abc\r\n", Some("abc"));
        check(RequestId::Pass, "", None);
        check(RequestId::Pass, "X-Request-Id: a b\r\n", None);
        check(RequestId::Pass, "X-Request-Id: a\r\nx-request-id: b\r\n", None);
        check(RequestId::Pass, &format!("X-Request-Id: {}\r\n", "a".repeat(129)), None);
        check(RequestId::Make, "X-Request-Id: abc\r\n", None);
    }

    #[test]
    fn lists_are_split_outside_of_quotation_marks() {
        let check = |list: &str, expected: &[&str]| assert_eq!(elements(list).collect::<Vec<_>>(), expected);
        check("a, b ,c", &["a", "b", "c"]);
        check("a=\"b, c\", d", &["a=\"b, c\"", "d"]);
        check("a=\"b\\\", c\", d", &["a=\"b\\\", c\"", "d"]);
        check("", &[""]);
    }
}
