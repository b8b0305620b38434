//! Parses the ClientHello of a TLS client, up to the server name (SNI).
//!
//! Only the message's form is checked. The TLS server behind the gateway checks versions and unknown extensions.

/// The longest ClientHello that is read, including record headers.
pub(crate) const HELLO_BYTES_MAX: usize = 16 * 1024;

/// The record type of a handshake. It is the first byte that a TLS client sends (RFC 8446, 5.1).
pub(crate) const HANDSHAKE: u8 = 22;
/// The handshake type of a ClientHello (RFC 8446, 4).
const CLIENT_HELLO: u8 = 1;
/// The type of the `server_name` extension (RFC 6066, 3).
const SERVER_NAME: u16 = 0;
/// The only name type in a `server_name` extension.
const HOST_NAME: u8 = 0;

/// The result of [`read_hello`] for the bytes that a client has sent so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The start of a ClientHello.
    Partial,
    /// A complete ClientHello with this server name in lower case, or without one.
    Whole(Option<String>),
    /// A malformed or too long ClientHello, or another TLS message.
    Malformed,
    /// Not TLS: the first byte is not the record type of a handshake.
    Foreign,
}

/// Classifies the bytes that a client has sent so far.
pub(crate) fn read_hello(bytes: &[u8]) -> Hello {
    if bytes.first().is_some_and(|&kind| kind != HANDSHAKE) {
        return Hello::Foreign;
    }
    match message(bytes) {
        Some(Some(message)) => name_of(&message).map_or(Hello::Malformed, Hello::Whole),
        Some(None) if bytes.len() < HELLO_BYTES_MAX => Hello::Partial,
        _ => Hello::Malformed,
    }
}

/// The first handshake message without its header, assembled from its records. `Some(None)` if the message is
/// incomplete, `None` if it is malformed or not a ClientHello.
fn message(bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut message = Vec::new();
    let mut rest = Reader(bytes);
    loop {
        if let Some((&[kind, high, middle, low], content)) = message.split_first_chunk::<4>() {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind != CLIENT_HELLO || length > HELLO_BYTES_MAX {
                return None;
            }
            if content.len() >= length {
                return Some(Some(content[..length].to_vec()));
            }
        }
        match rest.0.first() {
            None => return Some(None),
            Some(&kind) if kind != HANDSHAKE => return None,
            Some(_) => {}
        }
        let Some(header) = rest.take(5) else { return Some(None) };
        let length = usize::from(header[3]) << 8 | usize::from(header[4]);
        if header[1] != 3 || length == 0 || length > HELLO_BYTES_MAX {
            return None;
        }
        let there = length.min(rest.0.len());
        message.extend_from_slice(rest.take(there)?);
    }
}

/// The server name in a ClientHello (RFC 8446, 4.1.2), in lower case. `Some(None)` if the message contains no name,
/// `None` if it is malformed.
fn name_of(message: &[u8]) -> Option<Option<String>> {
    let mut rest = Reader(message);
    // Version and random.
    rest.take(2 + 32)?;
    let session_bytes = rest.number::<1>()?;
    rest.take(session_bytes)?;
    let suites_bytes = rest.number::<2>()?;
    rest.take(suites_bytes)?;
    let compressions_bytes = rest.number::<1>()?;
    rest.take(compressions_bytes)?;
    if rest.0.is_empty() {
        return Some(None);
    }
    let extensions_bytes = rest.number::<2>()?;
    let mut extensions = Reader(rest.take(extensions_bytes)?);
    while !extensions.0.is_empty() {
        let kind = extensions.number::<2>()?;
        let length = extensions.number::<2>()?;
        let content = extensions.take(length)?;
        if kind == usize::from(SERVER_NAME) {
            return host_name(content).map(Some);
        }
    }
    Some(None)
}

fn host_name(extension: &[u8]) -> Option<String> {
    let mut rest = Reader(extension);
    let list_bytes = rest.number::<2>()?;
    let mut list = Reader(rest.take(list_bytes)?);
    let kind = list.number::<1>()?;
    let length = list.number::<2>()?;
    let name = list.take(length)?;
    let is_name =
        kind == usize::from(HOST_NAME) && list.0.is_empty() && name.iter().all(u8::is_ascii_graphic);
    let name = std::str::from_utf8(name).ok().filter(|name| is_name && !name.is_empty())?;
    Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
}

/// Reads bytes from the front.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Option<usize> {
        Some(self.take(N)?.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// The ClientHello of a real client.
    fn hello(name: &str, fragment: Option<usize>) -> Vec<u8> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.max_fragment_size = fragment;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn names_are_found_in_one_record_or_many() {
        for fragment in [None, Some(32), Some(100)] {
            for (name, expected) in [("A.Test", Some("a.test")), ("127.0.0.1", None)] {
                let bytes = hello(name, fragment);
                assert_eq!(read_hello(&bytes), Hello::Whole(expected.map(str::to_owned)), "{fragment:?}");
                for length in 0..bytes.len() {
                    assert_eq!(read_hello(&bytes[..length]), Hello::Partial, "{length} of {}", bytes.len());
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_rejected_as_soon_as_possible() {
        assert_eq!(read_hello(b"GET / HTTP/1.1\r\n"), Hello::Foreign);
        for wrong in [
            &[22, 2, 0, 0, 1, 1][..],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0xff, 0xff],
            &[22, 3, 1, 0, 4, 2, 0, 0, 0],
            &[22, 3, 1, 0, 4, 1, 0xff, 0, 0],
            &[22, 3, 1, 0, 5, 1, 0, 0, 1, 3],
        ] {
            assert_eq!(read_hello(wrong), Hello::Malformed, "{wrong:?}");
        }
        // A message that never completes.
        let mut endless = vec![22, 3, 1, 0, 5, 1, 0, 0x3f, 0xff, 0];
        while endless.len() < HELLO_BYTES_MAX {
            assert_eq!(read_hello(&endless), Hello::Partial);
            endless.extend([22, 3, 1, 0, 1, 0].repeat(100));
        }
        assert_eq!(read_hello(&endless), Hello::Malformed);
    }

    /// A changed byte at any position causes no panic.
    #[test]
    fn changed_bytes_do_not_cause_a_panic() {
        let good = hello("a.test", Some(64));
        for at in 0..good.len() {
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= change;
                if let Hello::Whole(Some(name)) = read_hello(&bad) {
                    assert!(name.len() <= good.len());
                }
            }
        }
    }
}
