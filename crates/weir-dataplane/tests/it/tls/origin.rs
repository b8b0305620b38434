//! A TLS upstream.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::authority::{Authority, Leaf};

/// A connection of the upstream.
pub(super) type Stream = StreamOwned<ServerConnection, TcpStream>;

/// What the upstream recorded of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: Option<String>,
    pub(super) alpn: Option<String>,
    /// Whether the client sent a certificate.
    pub(super) has_certificate: bool,
    /// The headers of each request, plus any data that arrived in the same read.
    pub(super) requests: Vec<String>,
}

/// An upstream that runs a script for each connection.
pub(super) struct SecureOrigin {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl SecureOrigin {
    /// Sends these bytes as the response to every request, and keeps the connection open.
    pub(super) fn answering(
        leaf: &Leaf,
        clients: Option<&Authority>,
        response: &'static str,
    ) -> SecureOrigin {
        SecureOrigin::start(leaf, clients, move |stream, seen| {
            while let Some(request) = request(stream) {
                seen(request);
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    /// Runs `script` for each connection after its handshake, on its own thread.
    pub(super) fn start(
        leaf: &Leaf,
        clients: Option<&Authority>,
        script: impl Fn(&mut Stream, &dyn Fn(String)) + Send + Sync + 'static,
    ) -> SecureOrigin {
        let config = Arc::new(config(leaf, clients));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                std::thread::spawn(move || {
                    while connection.is_handshaking() {
                        if connection.complete_io(&mut socket).is_err() {
                            return;
                        }
                    }
                    let number = enter(&log, &connection);
                    let note = move |request| log.lock().unwrap()[number].requests.push(request);
                    script(&mut StreamOwned::new(connection, socket), &note);
                });
            }
        });
        SecureOrigin { address, seen }
    }

    /// The connections with a completed handshake.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn enter(log: &Mutex<Vec<Seen>>, connection: &ServerConnection) -> usize {
    let mut log = log.lock().unwrap();
    log.push(Seen {
        name: connection.server_name().map(str::to_owned),
        alpn: connection.alpn_protocol().map(|alpn| String::from_utf8_lossy(alpn).into_owned()),
        has_certificate: connection.peer_certificates().is_some(),
        requests: Vec::new(),
    });
    log.len() - 1
}

/// The next request headers, with data that arrived in the same read.
pub(super) fn request(stream: &mut Stream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut chunk).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
    Some(String::from_utf8(bytes).unwrap())
}

fn config(leaf: &Leaf, clients: Option<&Authority>) -> ServerConfig {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(&clients.pem())).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(vec![der(&leaf.certificate)], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    config
}
