//! TLS on connections, with rustls. Configurations are built once per load. Sessions use non-blocking sockets.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, NamedGroup,
    RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use weir_document::Problem;
use weir_io::Socket;

use crate::EngineError;
use crate::pacing::schedule::hash;
use crate::recording::books::Cause;
use crate::spec::{ProtocolSpec, TlsSpec, TlsVersion};

pub(crate) mod names;
mod rejection;
mod tickets;

use names::Names;
pub use rejection::CertificateRejection;
use tickets::Tickets;

/// How much plain text is encrypted at once: about as much as the socket accepts.
const CHUNK_BYTES: usize = 64 * 1024;
/// Changes the seed (XOR), so that the choice of sessions to resume does not repeat other random choices of the load.
const RESUME: u64 = 0x2545_f491_4f6c_dd1d;

/// Creates TLS sessions. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    resuming: Arc<ClientConfig>,
    fresh: Arc<ClientConfig>,
    names: Names,
    /// Share of the sessions that may resume an earlier one, from 0 to 1.
    resumption: f64,
    seed: u64,
    sessions: u64,
}

/// The TLS session of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    connection: ClientConnection,
    /// The index of the server name.
    domain: u32,
    /// True until `take_early` is called. Until then, application data that arrived with the end of the handshake may
    /// be unread.
    has_early: bool,
    /// Whether the peer has sent close_notify.
    is_ended: bool,
}

impl TlsClient {
    /// Reads the certificates and keys, and builds the configurations.
    ///
    /// # Errors
    /// If a file cannot be read, or does not contain the expected certificate or key.
    pub(crate) fn new(
        spec: &TlsSpec,
        protocol: ProtocolSpec,
        names: Names,
        connections: usize,
        seed: u64,
    ) -> Result<Self, EngineError> {
        let mut config = config(spec)?;
        config.resumption = Resumption::store(Arc::new(Tickets::new(connections, names.len())));
        config.alpn_protocols = match protocol {
            ProtocolSpec::Http1 => vec![b"http/1.1".to_vec()],
            ProtocolSpec::Http2 => vec![b"h2".to_vec()],
        };
        let mut fresh = config.clone();
        fresh.resumption = Resumption::disabled();
        Ok(Self {
            resuming: Arc::new(config),
            fresh: Arc::new(fresh),
            names,
            resumption: spec.resumption(),
            seed: seed ^ RESUME,
            sessions: 0,
        })
    }

    /// The same configuration for the connections of another worker.
    pub(crate) fn of_worker(&self, worker: u32) -> Self {
        Self { names: self.names.of_worker(worker), ..self.clone() }
    }

    /// Begins a new session for the connection with index `place`.
    pub(crate) fn session(&mut self, place: usize) -> Session {
        self.sessions += 1;
        let drawn = hash(self.seed, (place as u64) << 40 | self.sessions) as f64 / u64::MAX as f64;
        let config = if drawn < self.resumption { &self.resuming } else { &self.fresh };
        let (domain, name) = self.names.pick(place, self.sessions);
        let mut connection = ClientConnection::new(Arc::clone(config), name)
            .expect("a validated configuration can create sessions");
        connection.set_buffer_limit(None);
        Session { connection, domain, has_early: true, is_ended: false }
    }
}

impl Session {
    /// Continues the handshake. Returns true when it is complete, and false when it has to wait for the peer. `sealed`
    /// is a buffer for received bytes.
    pub(crate) fn shake_hands(
        &mut self,
        socket: &mut Socket,
        sealed: &mut [u8],
    ) -> Result<bool, (Cause, Option<String>)> {
        loop {
            self.flush(socket).map_err(|error| (Cause::of_broken(&error), None))?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match socket.read(sealed) {
                Ok(0) => {
                    return Err((Cause::Tls, Some("TLS: connection closed during the handshake".into())));
                }
                Ok(received) => {
                    let mut rest = &sealed[..received];
                    while !rest.is_empty() {
                        self.take(&mut rest).map_err(|error| {
                            // Sends the alert that explains the failure, if the peer still reads.
                            let _ = self.flush(socket);
                            (Cause::Tls, Some(error))
                        })?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((Cause::of_broken(&error), None)),
            }
        }
    }

    /// Returns the plain text that arrived with the end of the handshake. Later calls return nothing. The server's
    /// first bytes may arrive with its Finished message, and the socket does not report them again.
    pub(crate) fn take_early(&mut self, plain: &mut [u8]) -> Result<usize, String> {
        match std::mem::take(&mut self.has_early) {
            true => self.decrypt(&[], plain),
            false => Ok(0),
        }
    }

    /// Decrypts received bytes into `plain`, which must have room for all of them. Returns the length of the plain
    /// text.
    pub(crate) fn decrypt(&mut self, mut sealed: &[u8], plain: &mut [u8]) -> Result<usize, String> {
        let mut bytes = 0;
        loop {
            // Reads pending plain text first, and then processes `sealed`; see [`Session::take_early`].
            loop {
                match self.connection.reader().read(&mut plain[bytes..]) {
                    Ok(0) => {
                        self.is_ended = bytes < plain.len();
                        break;
                    }
                    Ok(read) => bytes += read,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(format!("TLS: {error}")),
                }
            }
            if sealed.is_empty() {
                return Ok(bytes);
            }
            self.take(&mut sealed)?;
        }
    }

    /// Encrypts and writes `bytes` until the socket accepts no more. Returns how many of `bytes` were encrypted; the
    /// last of them may still be unsent.
    #[inline]
    pub(crate) fn write(&mut self, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            match self.flush(socket) {
                Ok(true) if taken < bytes.len() => {}
                // If some bytes were used, their number is returned now. The next call returns the error.
                Err(error) if taken == 0 => return Err(error),
                _ => return Ok(taken),
            }
            let chunk = &bytes[taken..bytes.len().min(taken + CHUNK_BYTES)];
            taken += self.connection.writer().write(chunk)?;
        }
    }

    /// Writes encrypted bytes that are pending. Returns whether all of them were written.
    pub(crate) fn flush(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends close_notify, if the socket accepts it.
    pub(crate) fn say_goodbye(&mut self, socket: &mut Socket) {
        self.connection.send_close_notify();
        // The connection is closed even if this fails.
        let _ = self.flush(socket);
    }

    /// The index of the server name.
    #[inline]
    pub(crate) fn domain(&self) -> u32 {
        self.domain
    }

    /// Whether the peer has sent close_notify.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the handshake resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether HTTP/2 was negotiated.
    pub(crate) fn is_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(b"h2")
    }

    /// Describes the negotiated version, cipher suite, key exchange and ALPN protocol. For TLS 1.2, the key exchange is
    /// left out: full handshakes have one, but resumed sessions do not.
    pub(crate) fn negotiated(&self) -> String {
        let (version, group) = match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => {
                let group = self.connection.negotiated_key_exchange_group();
                ("TLS 1.3", group.map_or_else(String::new, |group| format!(" {:?}", group.name())))
            }
            Some(rustls::ProtocolVersion::TLSv1_2) => ("TLS 1.2", String::new()),
            _ => ("TLS", String::new()),
        };
        let suite = self.connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let alpn = self.connection.alpn_protocol().map_or("no ALPN".into(), String::from_utf8_lossy);
        format!("{version} {}{group} {alpn}", suite.unwrap_or("unknown suite"))
    }

    /// Passes received bytes to rustls, which may read only a part of them.
    fn take(&mut self, sealed: &mut &[u8]) -> Result<(), String> {
        self.connection.read_tls(sealed).map_err(|error| format!("TLS: {error}"))?;
        self.connection.process_new_packets().map_err(|error| said(&error))?;
        Ok(())
    }
}

/// The error message of rustls, without parts that differ from connection to connection.
fn said(error: &Error) -> String {
    if let Error::InvalidCertificate(error) = error
        && let Some(message) = rejection::message(error)
    {
        return message;
    }
    match error {
        Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            "TLS: the server supports none of the requested protocols (ALPN)".into()
        }
        Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "TLS: the server does not use TLS on this port; write http:// in the URL".into()
        }
        error => format!("TLS: {error}").chars().take(120).collect(),
    }
}

fn config(spec: &TlsSpec) -> Result<ClientConfig, EngineError> {
    let versions: &[&SupportedProtocolVersion] = match spec.version {
        None => rustls::ALL_VERSIONS,
        Some(TlsVersion::V12) => &[&rustls::version::TLS12],
        Some(TlsVersion::V13) => &[&rustls::version::TLS13],
    };
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| invalid("tls", error.to_string(), "use another TLS version"))?;
    let builder = if spec.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        builder.with_root_certificates(roots(spec.ca.as_deref())?)
    };
    let Some((certificate, key_path)) = spec.client()? else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate, "cert")?;
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| {
        invalid("key", format!("{}: {}", key_path.display(), pem_error(&error)), KEY_REMEDY)
    })?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| invalid("key", format!("{}: {error}", key_path.display()), KEY_REMEDY))
}

/// Offers AES-128 and X25519 first, as browsers do. So servers that follow the client's order choose the same
/// algorithms as servers that follow their own order, and their results can be compared.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let is_first = |suite: CipherSuite| {
        matches!(
            suite,
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    };
    provider.cipher_suites.sort_by_key(|suite| !is_first(suite.suite()));
    provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519);
    provider
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, EngineError> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return match roots.is_empty() {
            true => Err(invalid(
                "cacert",
                "the load generator's host has no CA certificates",
                "install CA certificates, or set `--cacert` or `--insecure` (in a scenario: `ca`, `insecure`)",
            )),
            false => Ok(roots),
        };
    };
    for certificate in certificates(ca, "cacert")? {
        roots
            .add(certificate)
            .map_err(|error| invalid("cacert", format!("{}: {error}", ca.display()), CERTIFICATE_REMEDY))?;
    }
    Ok(roots)
}

fn certificates(path: &Path, field: &'static str) -> Result<Vec<CertificateDer<'static>>, EngineError> {
    let wrong = |what: String| invalid(field, format!("{}: {what}", path.display()), CERTIFICATE_REMEDY);
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(pem_error(&error)))?;
    match found.is_empty() {
        true => Err(wrong("the file contains no PEM certificate".into())),
        false => Ok(found),
    }
}

const CERTIFICATE_REMEDY: &str = "use a readable file with certificates in PEM format";
const KEY_REMEDY: &str = "use a readable file with the private key of the certificate in PEM format";

fn pem_error(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "the file contains no PEM private key".into(),
        error => error.to_string(),
    }
}

fn invalid(field: &'static str, message: impl Into<String>, remedy: &str) -> EngineError {
    EngineError::Invalid(Problem::new(message, remedy).at(field))
}

/// Accepts every certificate: users who measure their own server trust it already.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
