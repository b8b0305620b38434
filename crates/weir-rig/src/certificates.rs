//! Certificates and tokens of a cell: a CA, a server certificate for all hosts of the gateway or one per host, a client
//! certificate, and tokens derived from the seed of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use weir_document::Problem;

use crate::RigError;
use crate::digest::sha256_hex;
use crate::driver::Subject;

const DAY: Duration = Duration::from_secs(86_400);
/// How long before its creation a certificate becomes valid, so that hosts with slow clocks accept it.
const VALID_SINCE: Duration = DAY;
const VALID_FOR: Duration = Duration::from_secs(90 * 86_400);

/// Maximum number of host names in one certificate; for more hosts, it contains wildcards instead. Each name makes
/// every handshake longer, and rustls rejects handshake messages above 64 KiB.
const NAMES_MAX: usize = 64;

/// The subfolder for certificates with a single host.
const DOMAINS: &str = "domains";

/// The common name of the client certificate.
pub(crate) const CLIENT: &str = "weir rig client";

/// The name and the addresses by which this host reaches itself.
pub(crate) const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Length of a token in hexadecimal digits: 128 bits, like a UUID.
const TOKEN_LETTERS: usize = 32;

/// Paths of the PEM files of a cell or a run. All keys are ECDSA keys of the curve P-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The CA certificate, which signs all other certificates.
    pub ca: PathBuf,
    /// The server certificate for all hosts. If each host has its own certificate, this is the certificate of the first
    /// host.
    pub server: PathBuf,
    /// The private key of the server certificate. Its path is the path of the certificate plus `.key`, where HAProxy
    /// expects it.
    pub server_key: PathBuf,
    /// The client certificate.
    pub client: PathBuf,
    /// The private key of the client certificate.
    pub client_key: PathBuf,
    /// One server certificate per host, in the order of the hosts; empty if one certificate is for all hosts.
    pub each: Vec<DomainCertificate>,
    /// A second server certificate with its key, which replaces the first when a test renews certificates; `None` if
    /// each host has its own certificate.
    pub renewed: Option<CertificateFiles>,
    /// Additional client certificates, by the name of the client.
    pub clients: BTreeMap<String, CertificateFiles>,
}

/// The certificate of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainCertificate {
    /// The host, which is the only name in the certificate.
    pub host: String,
    /// Path of the PEM file with the certificate.
    pub certificate: PathBuf,
    /// Path of the private key: the path of the certificate plus `.key`.
    pub key: PathBuf,
}

impl Certificates {
    /// Creates the folder `dir` and all files in it. The server certificate is for `hosts`; if there are none, it is
    /// for `localhost` and the loopback addresses.
    ///
    /// # Errors
    /// [`RigError::File`] or [`RigError::DiskFull`] if a file cannot be written, [`RigError::Driver`] if a certificate
    /// cannot contain a name of `hosts`.
    pub fn make(dir: &Path, hosts: &[String]) -> Result<Self, RigError> {
        Self::make_for(dir, hosts, &BTreeMap::new())
    }

    /// Like [`Certificates::make`], but also creates a client certificate for each subject in `clients`.
    ///
    /// # Errors
    /// As [`Certificates::make`].
    pub fn make_for(
        dir: &Path,
        hosts: &[String],
        clients: &BTreeMap<String, Subject>,
    ) -> Result<Self, RigError> {
        let authority = Authority::new(dir)?;
        let server = authority.server("server", &names(hosts))?;
        let renewed = authority.server("renewed", &names(hosts))?;
        let client = |(name, subject): (&String, &Subject)| {
            let files =
                authority.sign(&format!("client-{name}"), &[], subject, ExtendedKeyUsagePurpose::ClientAuth);
            Ok((name.clone(), files?))
        };
        let clients = clients.iter().map(client).collect::<Result<_, RigError>>()?;
        Ok(Self { renewed: Some(renewed), clients, ..authority.finish(server, Vec::new())? })
    }

    /// As [`Certificates::make`], but creates a separate server certificate and key for each of `hosts`.
    ///
    /// # Errors
    /// As [`Certificates::make`].
    pub fn make_each(dir: &Path, hosts: &[String]) -> Result<Self, RigError> {
        if hosts.is_empty() {
            return Self::make(dir, hosts);
        }
        let authority = Authority::new(dir)?;
        create(&dir.join(DOMAINS))?;
        let of = |host: &String| {
            let names = names(std::slice::from_ref(host));
            let CertificateFiles { certificate, key } =
                authority.server(&format!("{DOMAINS}/{host}"), &names)?;
            Ok(DomainCertificate { host: host.clone(), certificate, key })
        };
        let each: Vec<DomainCertificate> = hosts.iter().map(of).collect::<Result<_, RigError>>()?;
        let first = CertificateFiles { certificate: each[0].certificate.clone(), key: each[0].key.clone() };
        authority.finish(first, each)
    }

    /// The same files, but with the certificate of `renewed` as server certificate; `None` without `renewed`.
    pub fn with_renewed(&self) -> Option<Self> {
        let CertificateFiles { certificate: server, key: server_key } = self.renewed.clone()?;
        Some(Self { server, server_key, ..self.clone() })
    }

    /// Reads the server certificate in DER form, as a server sends it in the handshake.
    ///
    /// # Errors
    /// [`RigError::File`] if the file cannot be read.
    pub fn shown(&self) -> Result<Vec<u8>, RigError> {
        let read = CertificateDer::from_pem_file(&self.server);
        let wrong = |error: pem::Error| RigError::file(&self.server, io::Error::other(error.to_string()));
        read.map(|certificate| certificate.to_vec()).map_err(wrong)
    }

    /// The paths of all files, each once.
    pub fn paths(&self) -> Vec<&Path> {
        let further = self.renewed.iter().chain(self.clients.values());
        let further = further.flat_map(|files| [&files.certificate, &files.key]);
        let own = [&self.ca, &self.client, &self.client_key].into_iter().chain(further);
        let each: Vec<&PathBuf> = match self.each.as_slice() {
            [] => vec![&self.server, &self.server_key],
            each => each.iter().flat_map(|one| [&one.certificate, &one.key]).collect(),
        };
        own.chain(each).map(PathBuf::as_path).collect()
    }
}

/// Derives `count` bearer tokens from `seed`, so that all cells of a run use the same tokens. They are not secret:
/// anyone can compute them from the seed.
pub fn tokens(seed: u64, count: u32) -> Vec<String> {
    let token = |number: u32| {
        let mut text = sha256_hex(format!("weir bearer token {seed} {number}"));
        text.truncate(TOKEN_LETTERS);
        text
    };
    (0..count).map(token).collect()
}

/// Paths of the PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// A CA, and the folder for the certificates that it signs.
struct Authority<'a> {
    dir: &'a Path,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn new(dir: &'a Path) -> Result<Self, RigError> {
        create(dir)?;
        let issuer = || {
            let mut params = dated(CertificateParams::default());
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.distinguished_name.push(DnType::CommonName, "weir rig CA");
            CertifiedIssuer::self_signed(params, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
        };
        Ok(Self { dir, issuer: issuer().map_err(|error| unmade(&error))? })
    }

    /// Signs and writes a server certificate for `names`.
    fn server(&self, file: &str, names: &[String]) -> Result<CertificateFiles, RigError> {
        let subject = Subject { name: "weir rig gateway".into(), organization: None };
        self.sign(file, names, &subject, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Writes the CA certificate and a client certificate, and returns the paths of all files.
    fn finish(
        &self,
        server: CertificateFiles,
        each: Vec<DomainCertificate>,
    ) -> Result<Certificates, RigError> {
        let names = ["client.gateway.test".to_owned()];
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        let subject = Subject { name: CLIENT.into(), organization: None };
        let CertificateFiles { certificate: client, key: client_key } =
            self.sign("client", &names, &subject, purpose)?;
        let CertificateFiles { certificate: server, key: server_key } = server;
        let ca = self.dir.join("ca.pem");
        write_private(&ca, &self.issuer.pem())?;
        Ok(Certificates {
            ca,
            server,
            server_key,
            client,
            client_key,
            each,
            renewed: None,
            clients: BTreeMap::new(),
        })
    }

    /// Signs a certificate for `names`. Writes it to `FILE.pem`, and its private key to `FILE.pem.key`.
    fn sign(
        &self,
        file: &str,
        names: &[String],
        subject: &Subject,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<CertificateFiles, RigError> {
        let made = || {
            let mut leaf = dated(CertificateParams::new(names.to_vec())?);
            leaf.distinguished_name.push(DnType::CommonName, subject.name.as_str());
            if let Some(organization) = &subject.organization {
                leaf.distinguished_name.push(DnType::OrganizationName, organization.as_str());
            }
            leaf.extended_key_usages = vec![purpose];
            leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            leaf.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            let certificate = leaf.signed_by(&key, &self.issuer)?;
            Ok::<_, rcgen::Error>([certificate.pem(), key.serialize_pem()])
        };
        let [certificate, key] = made().map_err(|error| unmade(&error))?;
        let path = |ending: &str| self.dir.join(format!("{file}.{ending}"));
        let signed = CertificateFiles { certificate: path("pem"), key: path("pem.key") };
        write_private(&signed.certificate, &certificate)?;
        write_private(&signed.key, &key)?;
        Ok(signed)
    }
}

fn unmade(error: &rcgen::Error) -> RigError {
    let remedy = "use host names that contain only letters, digits, hyphens and dots";
    RigError::Driver(Problem::of("certificates", error.to_string()).help(remedy))
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    params.not_before = (now - VALID_SINCE).into();
    params.not_after = (now + VALID_FOR).into();
    params
}

/// The names that a certificate for `hosts` contains: `hosts`, wildcards if there are too many, or [`LOCAL_NAMES`] if
/// there are none.
fn names(hosts: &[String]) -> Vec<String> {
    let hosts: BTreeSet<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
    if hosts.is_empty() {
        return LOCAL_NAMES.map(str::to_owned).to_vec();
    }
    if hosts.len() <= NAMES_MAX {
        return hosts.into_iter().collect();
    }
    // Clients reject a wildcard directly below a top-level domain, such as `*.test`.
    let wildcard = |host: &String| match host.split_once('.') {
        Some((_, parent)) if parent.contains('.') => format!("*.{parent}"),
        _ => host.clone(),
    };
    let covered: BTreeSet<String> = hosts.iter().map(wildcard).collect();
    covered.into_iter().collect()
}

fn create(dir: &Path) -> Result<(), RigError> {
    fs::create_dir_all(dir).map_err(|error| RigError::file(dir, error))
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> Result<(), RigError> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|error| RigError::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_listed_and_many_get_wildcards() {
        let list = |count: usize| (1..=count).map(|n| format!("D{n}.gateway.test")).collect::<Vec<_>>();
        assert_eq!(names(&list(2)), ["d1.gateway.test", "d2.gateway.test"]);
        assert_eq!(names(&list(64)).len(), 64);
        assert_eq!(names(&list(65)), ["*.gateway.test"]);
        let bare: Vec<String> = (0..70).map(|n| format!("h{n}.test")).collect();
        assert_eq!(names(&bare).len(), 70, "a wildcard of one label covers nothing");
        assert_eq!(names(&[]), ["localhost", "127.0.0.1", "::1"]);
    }

    #[track_caller]
    fn check_files(made: &Certificates, count: usize) {
        use std::os::unix::fs::PermissionsExt;
        let paths = made.paths();
        assert_eq!(paths.len(), count, "{paths:?}");
        for path in paths {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{text}");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(made.server_key, PathBuf::from(format!("{}.key", made.server.display())));
    }

    #[test]
    fn files_are_readable_only_by_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let made = Certificates::make(&folder.path().join("tls"), &["one.test".into()]).unwrap();
        check_files(&made, 7);
        assert!(made.each.is_empty());
        let renewed = made.with_renewed().unwrap();
        assert_ne!(made.shown().unwrap(), renewed.shown().unwrap());
        assert_eq!((&made.ca, &made.client), (&renewed.ca, &renewed.client));
    }

    #[test]
    fn each_host_has_its_own_certificate_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["one.test", "server", "two.test"].map(str::to_owned);
        let made = Certificates::make_each(folder.path(), &hosts).unwrap();
        check_files(&made, 3 + 2 * hosts.len());
        assert_eq!((&made.server, &made.server_key), (&made.each[0].certificate, &made.each[0].key));
        assert!(made.each.iter().map(|one| &one.host).eq(&hosts));
        let keys: BTreeSet<String> =
            made.each.iter().map(|one| fs::read_to_string(&one.key).unwrap()).collect();
        assert_eq!(keys.len(), hosts.len());
        let none = Certificates::make_each(&folder.path().join("none"), &[]).unwrap();
        check_files(&none, 7);
        assert!(made.with_renewed().is_none());
    }

    #[test]
    fn tokens_depend_on_the_seed() {
        let drawn = tokens(7, 3);
        assert_eq!(drawn, tokens(7, 3));
        assert_eq!(drawn[..2], tokens(7, 2));
        assert_ne!(drawn[0], tokens(8, 1)[0]);
        assert!(drawn.iter().all(|token| token.len() == TOKEN_LETTERS && token.is_ascii()));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 3);
    }
}
