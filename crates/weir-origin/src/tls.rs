//! TLS with a certificate that is generated at the start, or with one from files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::connection::ALPN_HTTP2;
use crate::{OriginError, OriginSpec, TlsSpec};

/// Server names that every generated certificate contains.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const DAY: Duration = Duration::from_secs(86_400);

/// What the origin needs to accept TLS connections.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The generated certificate authority as PEM; `None` for a certificate from files.
    pub(crate) ca_pem: Option<String>,
}

type Chain = Vec<CertificateDer<'static>>;

impl Tls {
    /// Prepares TLS. Returns `None` for plain text.
    pub(crate) fn of(spec: &OriginSpec) -> Result<Option<Self>, OriginError> {
        let Some(tls) = &spec.tls else { return Ok(None) };
        let (config, ca_pem) = match tls {
            TlsSpec::Made { domains, is_expired } => {
                let (chain, key, ca_pem) = make(domains, *is_expired)
                    .map_err(|error| OriginError::MakeCertificate(error.to_string()))?;
                let config =
                    config(chain, key).map_err(|error| OriginError::MakeCertificate(error.to_string()))?;
                (config, Some(ca_pem))
            }
            TlsSpec::Given { cert, key: key_path } => {
                let (chain, key) = (read_chain(cert)?, read_key(key_path)?);
                let config = config(chain, key).map_err(|error| unusable(key_path, error))?;
                (config, None)
            }
        };
        Ok(Some(Self { acceptor: acceptor(config, spec)?, ca_pem }))
    }
}

/// Generates a certificate authority and a certificate issued by it.
fn make(
    domains: &[String],
    is_expired: bool,
) -> Result<(Chain, PrivateKeyDer<'static>, String), rcgen::Error> {
    let now = SystemTime::now();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    ca.distinguished_name.push(DnType::CommonName, "weir origin CA");
    // The CA becomes valid before its certificates, so that the chain of an expired certificate was valid before the
    // expiry.
    ca.not_before = (now - 30 * DAY).into();
    ca.not_after = (now + 365 * DAY).into();
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)?;

    let names: Vec<String> =
        OWN_NAMES.iter().map(|name| (*name).to_owned()).chain(domains.iter().cloned()).collect();
    let mut leaf = CertificateParams::new(names)?;
    leaf.distinguished_name.push(DnType::CommonName, "weir origin");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.use_authority_key_identifier_extension = true;
    let (from, to) = if is_expired { (now - 20 * DAY, now - DAY) } else { (now - DAY, now + 365 * DAY) };
    (leaf.not_before, leaf.not_after) = (from.into(), to.into());
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let cert = leaf.signed_by(&key, &ca)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((vec![cert.der().clone()], key, ca.pem()))
}

fn config(chain: Chain, key: PrivateKeyDer<'static>) -> Result<ServerConfig, rustls::Error> {
    ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
}

fn acceptor(mut config: ServerConfig, spec: &OriginSpec) -> Result<TlsAcceptor, OriginError> {
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| {
        OriginError::MakeCertificate(format!("cannot create keys for session tickets: {error}"))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !spec.http2.is_off {
        config.alpn_protocols.insert(0, ALPN_HTTP2.to_vec());
    }
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read_chain(path: &Path) -> Result<Chain, OriginError> {
    let certs: Chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, error))?;
    match certs.is_empty() {
        true => Err(unusable(path, "the file contains no certificate")),
        false => Ok(certs),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, OriginError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, cause: impl ToString) -> OriginError {
    OriginError::Certificate { path: path.to_owned(), cause: cause.to_string() }
}
