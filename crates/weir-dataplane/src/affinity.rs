//! Session affinity: binds a request to an endpoint by a hash key or by the cookie of an earlier response.

use std::net::IpAddr;

use weir_config::{
    Backend, BackendEntry, Balance, EndpointAddress, HashKey, Sticky, UpstreamAddress, stable_hash,
};
use weir_http::{RequestHead, append_field, elements, fields_named};

/// The part of a request that selects its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// No affinity.
    None,
    /// The hash of a key.
    Key(u64),
    /// The address of the client.
    ClientAddress,
    /// The endpoint from the client's cookie; `id` is `None` without a valid cookie.
    Endpoint { id: Option<u64>, is_secure: bool },
}

impl Affinity {
    /// The affinity of a request to this backend. `is_secure` is true if the client uses TLS.
    #[inline]
    pub(crate) fn of(entry: &BackendEntry, head: &RequestHead<'_>, is_secure: bool) -> Affinity {
        if entry.has_affinity {
            Affinity::read(&entry.backend.balance, head, is_secure)
        } else {
            Affinity::None
        }
    }

    fn read(balance: &Balance, head: &RequestHead<'_>, is_secure: bool) -> Affinity {
        let of_key = |key: Option<&[u8]>| key.map_or(Affinity::None, |key| Affinity::Key(stable_hash(key)));
        match balance {
            Balance::Hash(HashKey::Header(name)) => of_key(head.field(name)),
            Balance::Hash(HashKey::Cookie(name)) => of_key(cookie(head, name)),
            Balance::Hash(HashKey::ClientAddress) => Affinity::ClientAddress,
            Balance::Sticky(sticky) => {
                let value = cookie(head, &sticky.cookie).and_then(|value| std::str::from_utf8(value).ok());
                let id = value.and_then(|value| u64::from_str_radix(value, 16).ok());
                Affinity::Endpoint { id, is_secure }
            }
            Balance::RoundRobin | Balance::LeastRequests | Balance::Random => Affinity::None,
        }
    }

    /// Replaces [`Affinity::ClientAddress`] with the hash of this address.
    #[inline]
    pub(crate) fn with(self, client: IpAddr) -> Affinity {
        match self {
            Affinity::ClientAddress => Affinity::Key(hash_of(client)),
            other => other,
        }
    }

    /// Whether the request may go to any endpoint.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Affinity::None | Affinity::Endpoint { id: None, .. })
    }

    /// Whether the backend has an endpoint that may serve the request: one with a weight above 0, or the one that the
    /// cookie names. DNS names are not resolved here, so a valid cookie is assumed to match every endpoint with a DNS
    /// name.
    pub(crate) fn may_find_one_of(self, backend: &Backend) -> bool {
        let id = if let Affinity::Endpoint { id, .. } = self { id } else { None };
        let is_named = |address: &EndpointAddress| match address {
            EndpointAddress::Known(address) => id == Some(id_of(address)),
            EndpointAddress::Name { .. } => id.is_some(),
        };
        backend.endpoints.iter().any(|endpoint| endpoint.weight > 0 || is_named(&endpoint.address))
    }

    /// Appends a cookie for the endpoint that responded, unless the client already sent it.
    pub(crate) fn append_cookie(self, backend: &Backend, endpoint: u64, out: &mut Vec<u8>) {
        let (Affinity::Endpoint { id, is_secure }, Balance::Sticky(sticky)) = (self, &backend.balance) else {
            return;
        };
        if id != Some(endpoint) {
            append_field(out, "Set-Cookie", set_cookie(sticky, endpoint, is_secure).as_bytes());
        }
    }
}

/// The endpoint ID that cookies contain.
pub(crate) fn id_of(address: &UpstreamAddress) -> u64 {
    stable_hash(address.to_string().as_bytes())
}

fn set_cookie(sticky: &Sticky, endpoint: u64, is_secure: bool) -> String {
    let age = sticky.max_age.map_or(String::new(), |age| format!("; Max-Age={}", age.0.as_secs()));
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{}={endpoint:016x}; Path=/{age}{secure}; HttpOnly; SameSite=Lax", sticky.cookie)
}

/// IPv4-mapped IPv6 addresses have the same hash as the IPv4 address.
fn hash_of(client: IpAddr) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => stable_hash(&address.octets()),
        IpAddr::V6(address) => stable_hash(&address.octets()),
    }
}

/// The value of the first cookie with this name (RFC 6265, 4.2.1).
fn cookie<'h>(head: &RequestHead<'h>, name: &str) -> Option<&'h [u8]> {
    let mut pairs = fields_named(head.fields, "cookie").flat_map(|field| elements(field.value, b';'));
    pairs.find_map(|pair| {
        let (key, value) = pair.split_at_checked(name.len())?;
        (key == name.as_bytes()).then(|| value.strip_prefix(b"="))?
    })
}

#[cfg(test)]
mod tests {
    use weir_config::Endpoint;
    use weir_http::{FieldSlots, HeadLimits, parse_request};

    use super::*;

    fn check(fields: &str, name: &str, expected: Option<&str>) {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut slots = FieldSlots::new();
        let head = parse_request(request.as_bytes(), &HeadLimits::default(), &mut slots).unwrap().unwrap();
        assert_eq!(cookie(&head, name), expected.map(str::as_bytes), "{fields} {name}");
    }

    #[test]
    fn finds_cookies_by_exact_name() {
        check("", "a", None);
        check("Cookie: a=1\r\n", "a", Some("1"));
        check("Cookie: aa=1; b=2;a=3; a=4\r\n", "a", Some("3"));
        check("Cookie: b=2\r\ncookie: a=\r\n", "a", Some(""));
        check("Cookie: a; b=a=5\r\n", "a", None);
        check("Cookie: A=1\r\n", "a", None);
    }

    #[test]
    fn mapped_ipv4_address_has_the_hash_of_the_ipv4_address() {
        let [plain, mapped] = ["192.0.2.1", "::ffff:192.0.2.1"].map(|text| hash_of(text.parse().unwrap()));
        assert_eq!(plain, mapped);
        assert_ne!(plain, hash_of("192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn endpoint_with_weight_0_accepts_only_clients_with_its_cookie() {
        let endpoint = |address: &str, weight| Endpoint { address: address.parse().unwrap(), weight };
        let (first, second) = (("127.0.0.1:1", 0), ("unix:/two", 0));
        let id = |text: &str| Some(stable_hash(text.as_bytes()));
        let named = |id| Affinity::Endpoint { id, is_secure: false };
        for (endpoints, affinity, expected) in [
            (vec![], named(id("127.0.0.1:1")), false),
            (vec![first, second], Affinity::None, false),
            (vec![first, second], Affinity::Key(1), false),
            (vec![first, second], named(None), false),
            (vec![first, second], named(id("127.0.0.1:2")), false),
            (vec![first, second], named(id("127.0.0.1:1")), true),
            (vec![first, second], named(id("unix:/two")), true),
            (vec![first, ("127.0.0.1:2", 1)], Affinity::None, true),
            (vec![("a.test:1", 0)], Affinity::None, false),
            (vec![("a.test:1", 0)], named(id("127.0.0.1:1")), true),
        ] {
            let endpoints: Vec<Endpoint> =
                endpoints.into_iter().map(|(a, weight)| endpoint(a, weight)).collect();
            let backend = Backend { endpoints, ..Backend::default() };
            assert_eq!(affinity.may_find_one_of(&backend), expected, "{:?} {affinity:?}", backend.endpoints);
        }
    }

    #[test]
    fn sets_a_cookie_if_the_client_sent_none_or_another() {
        let sticky = Sticky { cookie: "at".to_owned(), max_age: None };
        let backend = Backend { balance: Balance::Sticky(sticky), ..Backend::default() };
        let check = |affinity: Affinity, expected: &str| {
            let mut out = Vec::new();
            affinity.append_cookie(&backend, 10, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        let line = "Set-Cookie: at=000000000000000a; Path=/; HttpOnly; SameSite=Lax\r\n";
        check(Affinity::Endpoint { id: None, is_secure: false }, line);
        check(Affinity::Endpoint { id: Some(9), is_secure: true }, &line.replace("=/;", "=/; Secure;"));
        check(Affinity::Endpoint { id: Some(10), is_secure: false }, "");
        check(Affinity::None, "");
    }
}
