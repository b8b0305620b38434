//! The header of the PROXY protocol, versions 1 and 2, by which a balancer tells for whom it connects
//! (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>).

use std::net::{IpAddr, SocketAddr};

use weir_config::ProxyVersion;

/// The longest header that is taken; the protocol says 107 bytes for version 1, and 64 KiB for version 2.
pub(crate) const HEADER_BYTES_MAX: usize = 2048;

/// The longest header of version 1.
const TEXT_BYTES_MAX: usize = 107;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// What comes before the addresses of version 2.
const FIXED_BYTES: usize = 16;

/// Who connects to whom, as a balancer tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// What stands at the start of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyHeader {
    /// A header, not yet whole.
    Partial,
    Malformed,
    /// As many bytes are the header. It has no addresses where the balancer speaks for itself, or of another family.
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
    // A sign is no digit, though Rust takes one.
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
        // LOCAL, and families that have no place here.
        (0x20, _) => None,
        (0x21, 0x11) => binary_addresses::<4>(body),
        (0x21, 0x21) => binary_addresses::<16>(body),
        (0x21, _) => None,
        _ => return ProxyHeader::Malformed,
    };
    let is_short = matches!((fixed[12], fixed[13]), (0x21, 0x11 | 0x21)) && addresses.is_none();
    if is_short { ProxyHeader::Malformed } else { ProxyHeader::Whole(FIXED_BYTES + len, addresses) }
}

/// Source and destination, then their ports; what follows are extensions, which are passed over.
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

/// Appends a header; without addresses it speaks for the gateway itself.
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
    /// IPv4 where both are, whatever the sockets are of; else IPv6.
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

    /// What a header is read as, and that it is not whole before its last byte.
    fn check(header: &[u8], expected: Option<Addresses>) {
        for cut in 0..header.len() {
            assert_eq!(read_header(&header[..cut]), ProxyHeader::Partial, "{header:?} {cut}");
        }
        let more = [header, b"GET /"].concat();
        assert_eq!(read_header(&more), ProxyHeader::Whole(header.len(), expected), "{header:?}");
    }

    #[test]
    fn what_is_written_is_read() {
        for (source, destination) in [("192.0.2.1:5", "198.51.100.7:65535"), ("[2001:db8::1]:5", "[::1]:443")]
        {
            let told = addresses(source, destination);
            for version in [ProxyVersion::V1, ProxyVersion::V2] {
                for told in [told, None] {
                    let mut header = Vec::new();
                    append_header(version, told, &mut header);
                    check(&header, told);
                }
            }
        }
    }

    #[test]
    fn families_are_brought_together() {
        let check = |source: &str, destination: &str, expected: &str| {
            let mut header = Vec::new();
            append_header(ProxyVersion::V1, addresses(source, destination), &mut header);
            assert_eq!(String::from_utf8(header).unwrap(), expected);
        };
        check("[::ffff:192.0.2.1]:5", "192.0.2.2:6", "PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n");
        check("192.0.2.1:5", "[::1]:6", "PROXY TCP6 ::ffff:192.0.2.1 ::1 5 6\r\n");
    }

    #[test]
    fn what_others_write_is_read() {
        check(b"PROXY UNKNOWN ffff::1 ffff::2 5 6\r\n", None);
        let mut with_extension = [&SIGNATURE[..], &[0x21, 0x11, 0, 16]].concat();
        with_extension.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187, 4, 0, 1, 9]);
        check(&with_extension, addresses("192.0.2.1:80", "192.0.2.2:443"));
        let unix = [&SIGNATURE[..], &[0x21, 0x31, 0, 2, 7, 7]].concat();
        check(&unix, None);
    }

    #[test]
    fn what_is_no_header_is_told_at_once() {
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
