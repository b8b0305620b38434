//! The PROXY protocol header, versions 1 and 2, by which a balancer reports the client's address
//! (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>).

use std::net::{IpAddr, SocketAddr};

use weir_config::ProxyVersion;

/// The longest accepted header. The protocol allows 107 bytes for version 1, and 64 KiB for version 2.
pub(crate) const HEADER_BYTES_MAX: usize = 2048;

/// The longest header of version 1.
const TEXT_BYTES_MAX: usize = 107;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses in version 2.
const FIXED_BYTES: usize = 16;

/// Client and destination address, as reported by a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// What the first bytes of a connection contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyHeader {
    /// An incomplete header.
    Partial,
    Malformed,
    /// The header's length and its addresses. The addresses are `None` if the load balancer itself connects, or if the
    /// address family is not supported.
    Whole(usize, Option<Addresses>),
}

/// Reads the header at the start of `bytes`.
pub(crate) fn read_header(bytes: &[u8]) -> ProxyHeader {
    let begins_with = |start: &[u8]| bytes.starts_with(start) || start.starts_with(bytes);
    if begins_with(SIGNATURE) {
        read_binary(bytes)
    } else if begins_with(b"PROXY ") {
        read_text(bytes)
    } else {
        ProxyHeader::Malformed
    }
}

fn read_text(bytes: &[u8]) -> ProxyHeader {
    let Some(end) = bytes.windows(2).take(TEXT_BYTES_MAX - 1).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < TEXT_BYTES_MAX { ProxyHeader::Partial } else { ProxyHeader::Malformed };
    };
    let Ok(line) = std::str::from_utf8(&bytes[..end]) else { return ProxyHeader::Malformed };
    let words: Vec<&str> = line.split(' ').collect();
    let addresses = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family, source, destination, from, to] => {
            let address = |ip: &str, port: &str| text_address(ip, port, family);
            match (address(source, from), address(destination, to)) {
                (Some(source), Some(destination)) => Some(Addresses { source, destination }),
                _ => return ProxyHeader::Malformed,
            }
        }
        _ => return ProxyHeader::Malformed,
    };
    ProxyHeader::Whole(end + 2, addresses)
}

fn text_address(ip: &str, port: &str, family: &str) -> Option<SocketAddr> {
    let ip: IpAddr = match family {
        "TCP4" => IpAddr::V4(ip.parse().ok()?),
        "TCP6" => IpAddr::V6(ip.parse().ok()?),
        _ => return None,
    };
    // Rust would also parse a leading sign.
    let port = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
    Some(SocketAddr::new(ip, port))
}

fn read_binary(bytes: &[u8]) -> ProxyHeader {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED_BYTES) else { return ProxyHeader::Partial };
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if FIXED_BYTES + len > HEADER_BYTES_MAX {
        return ProxyHeader::Malformed;
    }
    let Some(body) = rest.get(..len) else { return ProxyHeader::Partial };
    let addresses = match (fixed[12], fixed[13]) {
        // A LOCAL header has no addresses.
        (0x20, _) => None,
        (0x21, 0x11) => binary_addresses::<4>(body),
        (0x21, 0x21) => binary_addresses::<16>(body),
        (0x21, _) => None,
        _ => return ProxyHeader::Malformed,
    };
    let is_short = matches!((fixed[12], fixed[13]), (0x21, 0x11 | 0x21)) && addresses.is_none();
    if is_short { ProxyHeader::Malformed } else { ProxyHeader::Whole(FIXED_BYTES + len, addresses) }
}

/// Parses source and destination, then their ports. Extensions after them are ignored.
fn binary_addresses<const IP: usize>(body: &[u8]) -> Option<Addresses>
where
    IpAddr: From<[u8; IP]>,
{
    let (source, rest) = body.split_first_chunk::<IP>()?;
    let (destination, rest) = rest.split_first_chunk::<IP>()?;
    let (from, rest) = rest.split_first_chunk()?;
    let (to, _) = rest.split_first_chunk()?;
    let address = |ip: &[u8; IP], port: &[u8; 2]| SocketAddr::new((*ip).into(), u16::from_be_bytes(*port));
    Some(Addresses { source: address(source, from), destination: address(destination, to) })
}

/// Appends a header. If `addresses` is `None`, the header marks a connection of the gateway itself.
pub(crate) fn append_header(version: ProxyVersion, addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let addresses = addresses.map(Addresses::of_one_family);
    match version {
        ProxyVersion::V1 => append_text(addresses, out),
        ProxyVersion::V2 => append_binary(addresses, out),
    }
}

fn append_text(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    let line = match addresses {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some(Addresses { source, destination }) => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.port(), destination.port());
            format!("PROXY {family} {} {} {from} {to}\r\n", source.ip(), destination.ip())
        }
    };
    out.extend_from_slice(line.as_bytes());
}

fn append_binary(addresses: Option<Addresses>, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match addresses {
        None => out.extend_from_slice(&[0x20, 0x00, 0, 0]),
        Some(Addresses { source, destination }) => {
            out.extend_from_slice(if source.is_ipv4() { &[0x21, 0x11, 0, 12] } else { &[0x21, 0x21, 0, 36] });
            for ip in [source.ip(), destination.ip()] {
                match ip {
                    IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
                }
            }
            for port in [source.port(), destination.port()] {
                out.extend_from_slice(&port.to_be_bytes());
            }
        }
    }
}

impl Addresses {
    /// Converts both addresses to one family: to IPv4 if both are IPv4 or IPv4-mapped, otherwise to IPv6.
    fn of_one_family(self) -> Addresses {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let [source, destination] = [self.source, self.destination].map(canonical);
        let as_ipv6 = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), address.port()),
            IpAddr::V6(_) => address,
        };
        match source.is_ipv4() == destination.is_ipv4() {
            true => Addresses { source, destination },
            false => Addresses { source: as_ipv6(source), destination: as_ipv6(destination) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(source: &str, destination: &str) -> Option<Addresses> {
        Some(Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() })
    }

    /// Checks the parsed header, and that each shorter prefix of it is reported as incomplete.
    fn check(header: &[u8], expected: Option<Addresses>) {
        for cut in 0..header.len() {
            assert_eq!(read_header(&header[..cut]), ProxyHeader::Partial, "{header:?} {cut}");
        }
        let more = [header, b"GET /"].concat();
        assert_eq!(read_header(&more), ProxyHeader::Whole(header.len(), expected), "{header:?}");
    }

    #[test]
    fn written_headers_can_be_read() {
        for (source, destination) in [("192.0.2.1:5", "198.51.100.7:65535"), ("[2001:db8::1]:5", "[::1]:443")]
        {
            let destination = addresses(source, destination);
            for version in [ProxyVersion::V1, ProxyVersion::V2] {
                for destination in [destination, None] {
                    let mut header = Vec::new();
                    append_header(version, destination, &mut header);
                    check(&header, destination);
                }
            }
        }
    }

    #[test]
    fn mixed_address_families_become_one() {
        let check = |source: &str, destination: &str, expected: &str| {
            let mut header = Vec::new();
            append_header(ProxyVersion::V1, addresses(source, destination), &mut header);
            assert_eq!(String::from_utf8(header).unwrap(), expected);
        };
        check("[::ffff:192.0.2.1]:5", "192.0.2.2:6", "PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n");
        check("192.0.2.1:5", "[::1]:6", "PROXY TCP6 ::ffff:192.0.2.1 ::1 5 6\r\n");
    }

    #[test]
    fn headers_of_other_programs_can_be_read() {
        check(b"PROXY UNKNOWN ffff::1 ffff::2 5 6\r\n", None);
        let mut with_extension = [&SIGNATURE[..], &[0x21, 0x11, 0, 16]].concat();
        with_extension.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187, 4, 0, 1, 9]);
        check(&with_extension, addresses("192.0.2.1:80", "192.0.2.2:443"));
        let unix = [&SIGNATURE[..], &[0x21, 0x31, 0, 2, 7, 7]].concat();
        check(&unix, None);
    }

    #[test]
    fn other_bytes_are_rejected_at_once() {
        let malformed = |bytes: &[u8]| assert_eq!(read_header(bytes), ProxyHeader::Malformed, "{bytes:?}");
        malformed(b"G");
        malformed(b"PROXX");
        malformed(b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n");
        malformed(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n");
        malformed(b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n");
        malformed(b"PROXY TCP4 ::1 ::1 1 2\r\n");
        malformed(b"PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n");
        malformed(b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n");
        malformed(&[b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 100]].concat());
        malformed(&[&SIGNATURE[..], &[0x11, 0x11, 0, 0]].concat());
        malformed(&[&SIGNATURE[..], &[0x22, 0x11, 0, 0]].concat());
        malformed(&[&SIGNATURE[..], &[0x21, 0x11, 0, 4, 1, 2, 3, 4]].concat());
        malformed(&[&SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat());
    }
}
