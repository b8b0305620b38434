//! Credentials for requests to a gateway: the certificates of a cell for TLS, and a bearer token.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Certificates;

/// Credentials of a client that sends requests to a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Certificates for TLS; `None` is plain HTTP.
    pub certificates: Option<Certificates>,
    /// Whether the client sends its certificate.
    pub shows_certificate: bool,
    /// The bearer token; `None` sends no `Authorization` header.
    pub token: Option<String>,
}

/// A TCP connection, with or without TLS.
pub(crate) enum Connection {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Credentials {
    /// Prepares a connection over `socket`. Without certificates, it is plain TCP. Otherwise it uses TLS, and the
    /// server's certificate must be valid for `host`.
    pub(crate) fn speak(&self, socket: TcpStream, host: &str) -> io::Result<Connection> {
        let Some(certificates) = &self.certificates else { return Ok(Connection::Plain(socket)) };
        let name = ServerName::try_from(name_of(host).to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.config(certificates)?, name).map_err(io::Error::other)?;
        Ok(Connection::Secure(Box::new(StreamOwned::new(connection, socket))))
    }

    /// The `Authorization` header line; empty without a token.
    pub(crate) fn field(&self) -> String {
        self.token.as_ref().map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"))
    }

    fn config(&self, certificates: &Certificates) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for authority in chain(&certificates.ca)? {
            roots.add(authority).map_err(io::Error::other)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let mut config = match self.shows_certificate {
            false => builder.with_no_client_auth(),
            true => {
                let key = PrivateKeyDer::from_pem_file(&certificates.client_key).map_err(io::Error::other)?;
                builder.with_client_auth_cert(chain(&certificates.client)?, key).map_err(io::Error::other)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl Connection {
    /// Completes the TLS handshake, and returns the server's certificate in DER form.
    pub(crate) fn certificate(&mut self) -> io::Result<Vec<u8>> {
        let Self::Secure(stream) = self else { return Err(io::Error::other("not a TLS connection")) };
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
        shown.map(|certificate| certificate.to_vec()).ok_or_else(|| io::Error::other("no certificate"))
    }

    /// The underlying socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Secure(stream) => &stream.sock,
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            // Some servers close without `close_notify`; the length shows whether the response is complete.
            Self::Secure(stream) => match stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}

/// Returns the host of a `Host` header, without port and brackets.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None if host.parse::<IpAddr>().is_ok() => host,
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn chain(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<_, _>>).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_port_and_no_brackets() {
        let check = |host: &str, expected: &str| {
            assert_eq!(name_of(host), expected);
            ServerName::try_from(expected).unwrap();
        };
        check("shop.example", "shop.example");
        check("shop.example:443", "shop.example");
        check("10.0.0.1:443", "10.0.0.1");
        check("[fd00::1]:443", "fd00::1");
        check("[fd00::1]", "fd00::1");
        check("fd00::1", "fd00::1");
    }
}
