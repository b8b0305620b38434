//! TLS to the endpoints of a backend.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use weir_document::Problem;

use super::pairs::{PairLoader, authorities, no_authorities};
use crate::files::{Content, FileProblem, Files};
use crate::model::{BackendTls, PairFiles, SYSTEM_AUTHORITIES, UpstreamAddress};
use crate::tls::policy;

/// TLS for connections to the endpoints of one backend. All workers share it, including sessions for resumption. A
/// change of certificates creates a new instance.
#[derive(Debug)]
pub struct UpstreamTls {
    tls: BackendTls,
    ca: Content,
    own: Option<Arc<CertifiedKey>>,
    /// The rustls configuration of handshakes.
    pub config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl UpstreamTls {
    /// The host name or IP address that the certificate of `endpoint` must be valid for.
    pub fn name(&self, endpoint: &UpstreamAddress) -> ServerName<'static> {
        self.name.clone().unwrap_or_else(|| match endpoint {
            UpstreamAddress::Ip(address) => ServerName::from(address.ip()),
            // A placeholder that is never used, because validation requires `sni` for Unix sockets. If it were used,
            // the handshake would fail: no certificate is valid for this address.
            UpstreamAddress::Unix(_) => ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        })
    }

    /// Whether these settings name at least one of `files`.
    pub(crate) fn names_any(&self, files: &BTreeSet<&str>) -> bool {
        self.tls.files().into_iter().any(|(_, file)| files.contains(file))
    }

    /// Loads TLS again after some files changed.
    pub(crate) fn reload(
        self: &Arc<UpstreamTls>,
        name: &str,
        contents: &BTreeMap<String, Content>,
        pairs: &mut PairLoader<'_>,
    ) -> Result<Arc<UpstreamTls>, Box<FileProblem>> {
        UpstreamTls::load(name, &self.tls, contents, Some(self), pairs)
    }

    /// Loads TLS for the backend `name`. Returns `former` if nothing changed.
    pub(crate) fn load(
        name: &str,
        tls: &BackendTls,
        contents: &BTreeMap<String, Content>,
        former: Option<&Arc<UpstreamTls>>,
        pairs: &mut PairLoader<'_>,
    ) -> Result<Arc<UpstreamTls>, Box<FileProblem>> {
        let files = Files { place: format!("backends.{name}.tls"), contents };
        let ca = files.content("ca", tls.ca.as_deref().unwrap_or(SYSTEM_AUTHORITIES))?.clone();
        let own = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let pair = PairFiles { certificate, key, ocsp: None, prefix: String::new() };
                Some(pairs.pair(&pair, &files)?)
            }
            _ => None,
        };
        if let Some(former) = former
            && former.tls == *tls
            && former.ca == ca
            && former.own.as_ref().map(Arc::as_ptr) == own.as_ref().map(Arc::as_ptr)
        {
            return Ok(Arc::clone(former));
        }
        let roots = match &tls.ca {
            Some(file) => authorities(&files, "ca", file)?,
            None => system_authorities(&files, &ca)?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(policy::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| FileProblem::new(Problem::of(files.place.clone(), error.to_string()), []))?
            .with_root_certificates(roots);
        let mut config = match &own {
            Some(own) => {
                let own = SingleCertAndKey::from(Arc::clone(own));
                builder.with_client_cert_resolver(Arc::new(own))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = tls.sni.as_ref().and_then(|name| ServerName::try_from(name.clone()).ok());
        Ok(Arc::new(UpstreamTls { tls: tls.clone(), ca, own, config: Arc::new(config), name }))
    }
}

/// The CA certificates of the system. Certificates that rustls cannot parse are skipped.
fn system_authorities(files: &Files<'_>, content: &Content) -> Result<Arc<RootCertStore>, Box<FileProblem>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(content.bytes()).filter_map(Result::ok));
    match roots.is_empty() {
        true => Err(no_authorities(files, "ca", SYSTEM_AUTHORITIES, &"no CA certificate found")),
        false => Ok(Arc::new(roots)),
    }
}
