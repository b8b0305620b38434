//! The certificates of a run: a CA, a certificate for the coordinator, and one certificate for all agents.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

use crate::AgentError;

/// The name in the coordinator's certificate. Agents verify it instead of the address, which a tunnel may change.
const COORDINATOR: &str = "coordinator.weir.internal";
/// The name in the agents' certificate.
const AGENT: &str = "agent.weir.internal";

/// Credentials with which agents join a run. Anyone who can read the ticket file can join, so only the owner of the
/// file can read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The run ID.
    pub run: String,
    /// The certificate of the run's CA, PEM.
    pub authority: String,
    /// The agents' certificate, PEM.
    pub certificate: String,
    /// The key of the agents' certificate, PEM.
    pub key: String,
}

/// The certificates of a run: the coordinator's certificate, and the ticket for agents. The key of the CA is not kept.
#[derive(Debug)]
pub struct Authority {
    ticket: Ticket,
    certificate: String,
    key: String,
}

impl Authority {
    /// Creates the CA and the certificates of the run `run`.
    ///
    /// # Errors
    /// [`AgentError::Certificates`] if a certificate cannot be created.
    pub fn new(run: &str) -> Result<Self, AgentError> {
        let failed = |error: rcgen::Error| AgentError::Certificates(error.to_string());
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, format!("weir run {run}"));
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
        let sign = |name: &str, purpose: ExtendedKeyUsagePurpose| {
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.extended_key_usages = vec![purpose];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &authority)?;
            Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
        };
        let (certificate, key) = sign(COORDINATOR, ExtendedKeyUsagePurpose::ServerAuth).map_err(failed)?;
        let (of_agents, key_of_agents) = sign(AGENT, ExtendedKeyUsagePurpose::ClientAuth).map_err(failed)?;
        let ticket = Ticket {
            run: run.to_owned(),
            authority: authority.pem(),
            certificate: of_agents,
            key: key_of_agents,
        };
        Ok(Self { ticket, certificate, key })
    }

    /// The ticket for agents.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// TLS configuration of the coordinator. It accepts only agents with the ticket.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, AgentError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = Arc::new(self.ticket.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| AgentError::Certificates(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                let (chain, key) = pair(&self.certificate, &self.key)?;
                builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)
            });
        Ok(Arc::new(config.map_err(|error| AgentError::Certificates(error.to_string()))?))
    }
}

impl Ticket {
    /// Reads a ticket from the file `path`.
    ///
    /// # Errors
    /// [`AgentError::Ticket`] if the file cannot be read or is not a valid ticket.
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        let failed = |why: String| AgentError::Ticket { place: path.display().to_string(), why };
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let ticket: Self =
            serde_json::from_str(&text).map_err(|error| failed(format!("not a ticket: {error}")))?;
        // The run id becomes the name of a folder.
        if !ticket.run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(failed(format!("`{}` is not the name of a run", ticket.run)));
        }
        match ticket.client() {
            Ok(_) => Ok(ticket),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the ticket to the file `path`, which only its owner can read.
    ///
    /// # Errors
    /// [`AgentError::File`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_string_pretty(self).expect("every ticket can be written as JSON");
        // Write a new file and rename it, so that the key is never in a file that others can read.
        let mut beside = path.as_os_str().to_owned();
        beside.push(".part");
        let _ = fs::remove_file(&beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        let placed = written.and_then(|()| fs::rename(&beside, path));
        placed.map_err(|source| AgentError::File { path: path.to_owned(), source })
    }

    /// TLS configuration of an agent, and the server name that the coordinator's certificate must have.
    pub(crate) fn client(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), AgentError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = self.roots()?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                let (chain, key) = pair(&self.certificate, &self.key)?;
                builder.with_root_certificates(roots).with_client_auth_cert(chain, key)
            });
        let config = config.map_err(|error| AgentError::Certificates(error.to_string()))?;
        let name = ServerName::try_from(COORDINATOR).expect("the name is a DNS name");
        Ok((Arc::new(config), name))
    }

    fn roots(&self) -> Result<RootCertStore, AgentError> {
        let failed = |error: &dyn std::fmt::Display| AgentError::Certificates(error.to_string());
        let authority =
            CertificateDer::from_pem_slice(self.authority.as_bytes()).map_err(|error| failed(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|error| failed(&error))?;
        Ok(roots)
    }
}

fn pair(
    certificate: &str,
    key: &str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rustls::Error> {
    let failed = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(failed)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(failed)?;
    Ok((vec![certificate], key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_as_written_and_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticket");
        let authority = Authority::new("20261126-0400-abcd").unwrap();
        authority.ticket().write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(&Ticket::read(&path).unwrap(), authority.ticket());
        authority.server().unwrap();

        let text = fs::read_to_string(&path).unwrap();
        for (broken, expected) in [
            (text[..text.len() / 2].to_owned(), "not a ticket"),
            (text.replace("BEGIN PRIVATE KEY", "BEGIN"), "certificates of the agents"),
        ] {
            fs::write(&path, broken).unwrap();
            let error = Ticket::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with(&path.display().to_string()), "{error}");
        }
    }
}
