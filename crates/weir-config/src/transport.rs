//! How a listener speaks with its clients: plain text, or TLS made of certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, Error, RootCertStore, ServerConfig};
use webpki::EndEntityCert;

use crate::files::{Content, content};
use crate::model::Tls;
use crate::paths::FastMap;
use crate::problem::Problem;

/// How clients of a listener are spoken with.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// In plain text.
    #[default]
    Plain,
    /// Through TLS.
    Tls(Arc<ServerConfig>),
}

/// TLS of a listener, and what it was made of. Versions that change nothing of that share it, and with it the keys of
/// session tickets.
#[derive(Debug)]
pub(crate) struct Secure {
    tls: Tls,
    contents: Vec<Content>,
    pub(crate) config: Arc<ServerConfig>,
}

/// Certificates by the names that they are for.
#[derive(Debug)]
struct Certificates {
    default: Arc<CertifiedKey>,
    exact: FastMap<Box<str>, Arc<CertifiedKey>>,
    /// By what follows `*.`; such a name covers one label.
    wildcards: FastMap<Box<str>, Arc<CertifiedKey>>,
}

impl Secure {
    /// TLS of the listener `key`; `former` stays where nothing has changed.
    pub(crate) fn make(
        key: &str,
        tls: &Tls,
        files: &BTreeMap<String, Content>,
        former: Option<&Arc<Secure>>,
    ) -> Result<Arc<Secure>, Problem> {
        let named = tls.files();
        let contents =
            named.iter().map(|(field, file)| content(files, &format!("{key}.tls.{field}"), file).cloned());
        let contents = contents.collect::<Result<Vec<Content>, Problem>>()?;
        if let Some(former) = former
            && former.tls == *tls
            && former.contents == contents
        {
            return Ok(Arc::clone(former));
        }
        let files = Files { key, files };
        let provider = Arc::new(provider());
        let certificates = certificates(tls, &files, &provider)?;
        let verifier = tls.client_ca.as_deref().map(|ca| verifier(ca, &files, &provider)).transpose()?;
        let config = server_config(certificates, verifier, provider)
            .map_err(|error| Problem::new(format!("{key}.tls"), error.to_string()))?;
        Ok(Arc::new(Secure { tls: tls.clone(), contents, config: Arc::new(config) }))
    }
}

/// The files of one listener.
struct Files<'f> {
    key: &'f str,
    files: &'f BTreeMap<String, Content>,
}

impl Files<'_> {
    fn place(&self, field: &str) -> String {
        format!("{}.tls.{field}", self.key)
    }

    fn problem(&self, field: &str, message: String, remedy: &str) -> Problem {
        Problem::new(self.place(field), message).help(remedy)
    }

    fn chain(&self, field: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
        let bytes = content(self.files, &self.place(field), file)?.bytes();
        let remedy = "name a file of certificates in PEM, which begin with -----BEGIN CERTIFICATE-----";
        let chain = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
        match chain {
            Ok(chain) if chain.is_empty() => {
                Err(self.problem(field, format!("`{file}` holds no certificate in PEM"), remedy))
            }
            Ok(chain) => Ok(chain),
            Err(error) => Err(self.problem(field, format!("`{file}`: {error}"), remedy)),
        }
    }

    fn key(&self, field: &str, file: &str) -> Result<PrivateKeyDer<'static>, Problem> {
        let bytes = content(self.files, &self.place(field), file)?.bytes();
        PrivateKeyDer::from_pem_slice(bytes).map_err(|_| {
            let message = format!("`{file}` holds no private key in PEM");
            self.problem(field, message, "name the key's file, which begins with -----BEGIN PRIVATE KEY-----")
        })
    }
}

/// AES-128 first, where the server decides: the least work for the same security, and what others choose too.
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
    provider
}

fn server_config(
    certificates: Certificates,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    // Tickets hold all there is to resume; a store would be a lock that all workers take for every handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

fn verifier(
    file: &str,
    files: &Files<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Problem> {
    let field = "client_ca";
    let wrong = |error: &dyn std::fmt::Display| {
        files.problem(
            field,
            format!("`{file}`: {error}"),
            "name a file of the authorities' certificates in PEM",
        )
    };
    let mut roots = RootCertStore::empty();
    for authority in files.chain(field, file)? {
        roots.add(authority).map_err(|error| wrong(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| wrong(&error))
}

fn certificates(tls: &Tls, files: &Files<'_>, provider: &CryptoProvider) -> Result<Certificates, Problem> {
    let default =
        certified(files, ["certificate", "key"], [tls.certificate.as_str(), tls.key.as_str()], provider)?;
    let mut certificates =
        Certificates { default: Arc::new(default), exact: FastMap::default(), wildcards: FastMap::default() };
    // The first that is for a name has it.
    certificates.add(&Arc::clone(&certificates.default));
    for (index, more) in tls.certificates.iter().enumerate() {
        let fields = ["certificate", "key"].map(|field| format!("certificates[{index}].{field}"));
        let fields = [fields[0].as_str(), fields[1].as_str()];
        let more =
            Arc::new(certified(files, fields, [more.certificate.as_str(), more.key.as_str()], provider)?);
        if !certificates.add(&more) {
            let message = "no client would get this certificate: the ones before it have all of its names, or it has none";
            let remedy = "leave it out, or name one for other hosts";
            return Err(files.problem(fields[0], message.to_owned(), remedy));
        }
    }
    Ok(certificates)
}

/// A certificate with its key, which belong together.
fn certified(
    files: &Files<'_>,
    [of_chain, of_key]: [&str; 2],
    [chain_file, key_file]: [&str; 2],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Problem> {
    let chain = files.chain(of_chain, chain_file)?;
    if let Some(Err(error)) = chain.first().map(EndEntityCert::try_from) {
        let message = format!("`{chain_file}`: its first certificate cannot be used: {error:?}");
        return Err(files.problem(
            of_chain,
            message,
            "name an X.509 certificate of version 3 for this server",
        ));
    }
    let key = files.key(of_key, key_file)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            let message = format!("`{key_file}` is not the key of `{chain_file}`");
            files.problem(of_key, message, "name the key that this certificate was made for")
        }
        error => files.problem(
            of_key,
            format!("`{key_file}` cannot be used: {error}"),
            "use an ECDSA (P-256, P-384, P-521), Ed25519 or RSA key, without a password",
        ),
    })
}

impl Certificates {
    /// Adds a certificate for those of its names that no other has; whether there are any.
    fn add(&mut self, certified: &Arc<CertifiedKey>) -> bool {
        let Some(Ok(certificate)) = certified.cert.first().map(EndEntityCert::try_from) else { return false };
        let mut is_used = false;
        for name in certificate.valid_dns_names() {
            let name = name.to_ascii_lowercase();
            let (names, name) = match name.strip_prefix("*.") {
                Some(parent) => (&mut self.wildcards, parent),
                None => (&mut self.exact, name.as_str()),
            };
            if !names.contains_key(name) {
                names.insert(name.into(), Arc::clone(certified));
                is_used = true;
            }
        }
        is_used
    }

    /// The certificate for a client that asks for `name`, in lower case.
    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let by_parent = || name.split_once('.').and_then(|(_, parent)| self.wildcards.get(parent));
        self.exact.get(name).or_else(by_parent).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(hello.server_name().map_or(&self.default, |name| self.find(name))))
    }
}
