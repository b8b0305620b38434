//! Test certificates, and TLS clients that trust them.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SignatureAlgorithm,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned, SupportedProtocolVersion,
};

use crate::setup::Client;

/// The TLS versions that a client supports.
pub(super) type Versions = &'static [&'static SupportedProtocolVersion];
pub(super) static TLS12: Versions = &[&rustls::version::TLS12];
pub(super) static TLS13: Versions = &[&rustls::version::TLS13];

const DAY: Duration = Duration::from_secs(86_400);

/// A certificate authority (CA).
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key in PEM.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The TLS settings of a client.
#[derive(Clone)]
pub(super) struct Trust {
    ca: String,
    own: Option<Leaf>,
    versions: Versions,
    alpn: Vec<&'static [u8]>,
    provider: CryptoProvider,
}

impl Leaf {
    pub(super) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }
}

/// A client over TLS.
pub(super) type SecureClient = Client<StreamOwned<ClientConnection, TcpStream>>;

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn signs(&self, names: &[&str]) -> Leaf {
        self.signs_until(names, SystemTime::now() + DAY)
    }

    /// Signs a certificate that is valid until `end`.
    pub(super) fn signs_until(&self, names: &[&str], end: SystemTime) -> Leaf {
        self.signs_key(names, &KeyPair::generate().unwrap(), end)
    }

    /// Signs a certificate with an RSA key.
    pub(super) fn signs_rsa(&self, names: &[&str]) -> Leaf {
        self.signs_for(names, &rcgen::PKCS_RSA_SHA256)
    }

    /// Signs a certificate with a key of this algorithm.
    pub(super) fn signs_for(&self, names: &[&str], algorithm: &'static SignatureAlgorithm) -> Leaf {
        self.signs_key(names, &KeyPair::generate_for(algorithm).unwrap(), SystemTime::now() + DAY)
    }

    fn signs_key(&self, names: &[&str], key: &KeyPair, end: SystemTime) -> Leaf {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = (SystemTime::now() - 9 * DAY).into();
        params.not_after = end.into();
        Leaf { certificate: params.signed_by(key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }

    /// A client that trusts this CA for certificates of any name. It resumes no sessions, so every handshake includes a
    /// certificate.
    pub(super) fn config_for_any_name(&self) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName(verifier.build().unwrap())))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }

    /// A client that trusts this CA and has no certificate.
    pub(super) fn trust(&self) -> Trust {
        let alpn = vec![&b"http/1.1"[..]];
        let provider = aws_lc_rs::default_provider();
        Trust { ca: self.pem(), own: None, versions: rustls::ALL_VERSIONS, alpn, provider }
    }
}

/// Accepts certificates for other names too: clients with an unknown server name get the default certificate.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl Trust {
    pub(super) fn showing(mut self, own: &Leaf) -> Trust {
        self.own = Some(own.clone());
        self
    }

    pub(super) fn only(mut self, versions: Versions) -> Trust {
        self.versions = versions;
        self
    }

    /// The supported signature schemes, in order of preference.
    pub(super) fn with_schemes(self, schemes: &[SignatureScheme]) -> Trust {
        self.with_provider(|provider| {
            let known = &mut provider.signature_verification_algorithms;
            let named = schemes.iter().filter_map(|scheme| known.mapping.iter().find(|(s, _)| s == scheme));
            known.mapping = named.copied().collect::<Vec<_>>().leak();
        })
    }

    /// Changes cipher suites or groups.
    pub(super) fn with_provider(mut self, change: impl FnOnce(&mut CryptoProvider)) -> Trust {
        change(&mut self.provider);
        self
    }

    pub(super) fn offering(mut self, alpn: &[&'static [u8]]) -> Trust {
        self.alpn = alpn.to_vec();
        self
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.ca)).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![der(&own.certificate)], key).unwrap()
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// Connects and completes the handshake. The error is text.
    pub(super) fn connect(&self, address: SocketAddr, name: &str) -> Result<SecureClient, String> {
        connect(&self.config(), address, name)
    }
}

/// Like [`Trust::connect`], with a configuration that can resume its sessions.
pub(super) fn connect(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    name: &str,
) -> Result<SecureClient, String> {
    shake_hands(config, Client::connect(address).stream, name)
}

/// Like [`connect`], over a connection that has already sent data.
pub(super) fn shake_hands(
    config: &Arc<ClientConfig>,
    mut socket: TcpStream,
    name: &str,
) -> Result<SecureClient, String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| error.to_string())?;
    }
    Ok(Client::over(StreamOwned::new(connection, socket)))
}
