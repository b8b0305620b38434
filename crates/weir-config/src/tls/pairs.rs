//! Certificates with their keys. A pair of files is loaded once for all resources that name it, and again only if a
//! file changed.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore};
use webpki::EndEntityCert;

use crate::collections::Sharded;
use crate::files::{Content, FileProblem, Files};
use crate::model::PairFiles;
use crate::tls::policy::default_provider;

/// Loaded certificates with their keys, by file names. Versions of the configuration share unchanged parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Sharded<LoadedPair>);

/// Loads certificates with their keys for the next version of the configuration.
pub(crate) struct PairLoader<'f> {
    /// The active pairs, then the pairs that an earlier attempt loaded for the same batch.
    former: [&'f Pairs; 2],
    pub(crate) loaded: Pairs,
    provider: CryptoProvider,
}

#[derive(Clone, Debug)]
struct LoadedPair {
    contents: [Option<Content>; 3],
    pair: Arc<CertifiedKey>,
}

impl<'f> PairLoader<'f> {
    pub(crate) fn new(former: [&'f Pairs; 2]) -> PairLoader<'f> {
        PairLoader { former, loaded: Pairs::default(), provider: default_provider() }
    }

    /// Makes a loader that starts with all active pairs. Use it if the contents of files change, but resources name the
    /// same files as before.
    pub(crate) fn extending(former: [&'f Pairs; 2]) -> PairLoader<'f> {
        PairLoader { loaded: former[0].clone(), ..PairLoader::new(former) }
    }

    /// Returns the certificate and key of `named`. Loads them only if a file changed.
    pub(crate) fn pair(
        &mut self,
        named: &PairFiles<'_>,
        files: &Files<'_>,
    ) -> Result<Arc<CertifiedKey>, Box<FileProblem>> {
        let names = [named.certificate, named.key, named.ocsp.unwrap_or_default()].join("\0");
        let content = |field: &str, file| files.content(&named.field(field), file).cloned();
        let contents = [
            Some(content("certificate", named.certificate)?),
            Some(content("key", named.key)?),
            named.ocsp.map(|file| content("ocsp", file)).transpose()?,
        ];
        if let Some(made) = self.loaded.0.get(&names).filter(|made| made.contents == contents) {
            return Ok(Arc::clone(&made.pair));
        }
        let mut former = self.former.iter().filter_map(|pairs| pairs.0.get(&names));
        let made = match former.find(|made| made.contents == contents) {
            Some(made) => made.clone(),
            None => LoadedPair { contents, pair: Arc::new(named.read(files, &self.provider)?) },
        };
        let pair = Arc::clone(&made.pair);
        self.loaded.0.insert(&names, made);
        Ok(pair)
    }
}

impl PairFiles<'_> {
    /// Parses the certificate and its key, which must match.
    fn read(&self, files: &Files<'_>, provider: &CryptoProvider) -> Result<CertifiedKey, Box<FileProblem>> {
        let of_chain = self.field("certificate");
        let chain = chain(files, &of_chain, self.certificate)?;
        if let Some(Err(error)) = chain.first().map(EndEntityCert::try_from) {
            let message = format!("cannot use the first certificate in `{}`: {error:?}", self.certificate);
            let remedy = "use an X.509 version 3 certificate for this server";
            return Err(files.problem(&of_chain, self.certificate, message, remedy));
        }
        let of_key = self.field("key");
        let key = private_key(files, &of_key, self.key)?;
        let mut pair = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let message = format!("`{}` is not the private key of `{}`", self.key, self.certificate);
                let mut fault =
                    files.problem(&of_key, self.key, message, "use the private key of this certificate");
                // Perhaps only one of the two files is updated so far, so the problem lists both.
                fault.files.push(self.certificate.to_owned());
                fault
            }
            error => files.problem(
                &of_key,
                self.key,
                format!("cannot use the key in `{}`: {error}", self.key),
                "use an ECDSA (P-256, P-384, P-521), Ed25519 or RSA key without a passphrase",
            ),
        })?;
        pair.ocsp = self.ocsp.map(|file| ocsp_response(files, &self.field("ocsp"), file)).transpose()?;
        Ok(pair)
    }
}

/// Parses the certificates in `file`, at least one.
fn chain(
    files: &Files<'_>,
    field: &str,
    file: &str,
) -> Result<Vec<CertificateDer<'static>>, Box<FileProblem>> {
    let bytes = files.content(field, file)?.bytes();
    let remedy = "use a PEM file that starts with -----BEGIN CERTIFICATE-----";
    let chain = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    match chain {
        Ok(chain) if chain.is_empty() => {
            Err(files.problem(field, file, format!("`{file}` contains no PEM certificate"), remedy))
        }
        Ok(chain) => Ok(chain),
        Err(error) => Err(files.problem(field, file, format!("`{file}`: {error}"), remedy)),
    }
}

fn private_key(
    files: &Files<'_>,
    field: &str,
    file: &str,
) -> Result<PrivateKeyDer<'static>, Box<FileProblem>> {
    let bytes = files.content(field, file)?.bytes();
    PrivateKeyDer::from_pem_slice(bytes).map_err(|_| {
        let message = format!("`{file}` contains no PEM private key");
        files.problem(field, file, message, "use a PEM file that starts with -----BEGIN PRIVATE KEY-----")
    })
}

/// Parses the CA certificates in `file`.
pub(crate) fn authorities(
    files: &Files<'_>,
    field: &str,
    file: &str,
) -> Result<Arc<RootCertStore>, Box<FileProblem>> {
    let mut roots = RootCertStore::empty();
    for authority in chain(files, field, file)? {
        roots.add(authority).map_err(|error| no_authorities(files, field, file, &error))?;
    }
    Ok(Arc::new(roots))
}

/// The problem of a file that contains no CA certificates.
pub(crate) fn no_authorities(
    files: &Files<'_>,
    field: &str,
    file: &str,
    error: &dyn std::fmt::Display,
) -> Box<FileProblem> {
    let remedy = "use a PEM file with the CA certificates";
    files.problem(field, file, format!("`{file}`: {error}"), remedy)
}

/// Returns the OCSP response in `file`, if it is well-formed. Does not check that it is for this certificate; clients
/// do.
fn ocsp_response(files: &Files<'_>, field: &str, file: &str) -> Result<Vec<u8>, Box<FileProblem>> {
    let bytes = files.content(field, file)?.bytes();
    let remedy = "use a DER file from the OCSP responder: `openssl ocsp .. -respout FILE`";
    match ocsp_status(bytes) {
        Some(0) => Ok(bytes.to_vec()),
        Some(status) => {
            let message = format!("`{file}` is an OCSP error response (status {status})");
            Err(files.problem(field, file, message, remedy))
        }
        None => Err(files.problem(field, file, format!("`{file}` is not a DER OCSP response"), remedy)),
    }
}

/// The status of an OCSP response (RFC 6960, 4.2.1). `None` unless `der` is exactly one sequence, which starts with an
/// enumerated value of one byte.
fn ocsp_status(der: &[u8]) -> Option<u8> {
    let (&length, rest) = der.strip_prefix(&[0x30])?.split_first()?;
    let (length, content) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, content) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), content)
        }
        _ => return None,
    };
    match content.strip_prefix(&[0x0a, 0x01])? {
        [status, ..] if content.len() == length => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_ocsp_responses_by_start_and_length() {
        assert_eq!(ocsp_status(&[0x30, 3, 0x0a, 1, 0]), Some(0));
        assert_eq!(ocsp_status(&[0x30, 3, 0x0a, 1, 6]), Some(6));
        let mut long = vec![0x30, 0x82, 1, 3, 0x0a, 1, 0];
        long.resize(4 + 0x103, 0);
        assert_eq!(ocsp_status(&long), Some(0));
        for length in 0..long.len() {
            assert_eq!(ocsp_status(&long[..length]), None, "{length}");
        }
        assert_eq!(ocsp_status(b"-----BEGIN CERTIFICATE-----"), None);
        assert_eq!(ocsp_status(&[0x30, 0x85, 0, 0, 0, 0, 3, 0x0a, 1, 0]), None);
    }
}
