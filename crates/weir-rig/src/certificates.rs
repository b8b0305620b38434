//! What TLS and bearer tokens take in a cell: an authority of its own, a certificate for the gateway's hosts, one for
//! clients, and tokens by the run's seed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use sha2::{Digest, Sha256};

use crate::RigError;
use crate::driver::hex;

const DAY: Duration = Duration::from_secs(86_400);
/// Clocks of other hosts may be a little late.
const VALID_SINCE: Duration = DAY;
const VALID_FOR: Duration = Duration::from_secs(90 * 86_400);

/// Host names that one certificate lists. More of them are covered by wildcards: each name makes every handshake longer,
/// and rustls takes no message of a handshake above 64 KiB.
const NAMES_MAX: usize = 64;

/// Letters of a token; as many bits as a random UUID has.
const TOKEN_LETTERS: usize = 32;

/// The PEM files of a cell. All keys are ECDSA over P-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// The authority that signed the others.
    pub ca: PathBuf,
    /// The gateway's certificate, for all of its hosts.
    pub server: PathBuf,
    /// The gateway's key: the certificate's file name and `.key`, where HAProxy looks for it.
    pub server_key: PathBuf,
    /// A client's certificate.
    pub client: PathBuf,
    /// A client's key.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes all of them in the folder `dir`, which is made too; the server's is for `hosts`, or for this host by name
    /// and address where there are none.
    ///
    /// # Errors
    /// [`RigError::File`] or [`RigError::DiskFull`] where a file cannot be written, [`RigError::Driver`] for names that
    /// no certificate can have.
    pub fn make(dir: &Path, hosts: &[String]) -> Result<Self, RigError> {
        let files = Self {
            ca: dir.join("ca.pem"),
            server: dir.join("server.pem"),
            server_key: dir.join("server.pem.key"),
            client: dir.join("client.pem"),
            client_key: dir.join("client.pem.key"),
        };
        fs::create_dir_all(dir).map_err(|error| RigError::file(dir, error))?;
        let made = Made::of(&names(hosts)).map_err(|error| RigError::Driver {
            place: "certificates".into(),
            message: error.to_string(),
            remedy: "use host names of letters, digits, hyphens and dots".into(),
        })?;
        for (path, pem) in [
            (&files.ca, made.ca),
            (&files.server, made.server.0),
            (&files.server_key, made.server.1),
            (&files.client, made.client.0),
            (&files.client_key, made.client.1),
        ] {
            write_private(path, &pem).map_err(|error| RigError::file(path, error))?;
        }
        Ok(files)
    }

    /// All of the files.
    pub fn paths(&self) -> [&Path; 5] {
        [&self.ca, &self.server, &self.server_key, &self.client, &self.client_key].map(PathBuf::as_path)
    }
}

/// `count` bearer tokens, the same for a seed in every cell. They are no secrets: who has the seed has them.
pub fn tokens(seed: u64, count: u32) -> Vec<String> {
    let token = |number: u32| {
        let mut text = hex(&Sha256::digest(format!("weir bearer token {seed} {number}")));
        text.truncate(TOKEN_LETTERS);
        text
    };
    (0..count).map(token).collect()
}

/// Certificates as PEM; leaves with their keys.
struct Made {
    ca: String,
    server: (String, String),
    client: (String, String),
}

impl Made {
    fn of(names: &[String]) -> Result<Self, rcgen::Error> {
        let mut ca = dated(CertificateParams::default());
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "weir rig CA");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)?;
        let leaf = |names: &[String], common: &str, purpose: ExtendedKeyUsagePurpose| {
            let mut leaf = dated(CertificateParams::new(names.to_vec())?);
            leaf.distinguished_name.push(DnType::CommonName, common);
            leaf.extended_key_usages = vec![purpose];
            leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            leaf.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            let certificate = leaf.signed_by(&key, &ca)?;
            Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
        };
        let client = ["client.gateway.test".to_owned()];
        Ok(Self {
            server: leaf(names, "weir rig gateway", ExtendedKeyUsagePurpose::ServerAuth)?,
            client: leaf(&client, "weir rig client", ExtendedKeyUsagePurpose::ClientAuth)?,
            ca: ca.pem(),
        })
    }
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    params.not_before = (now - VALID_SINCE).into();
    params.not_after = (now + VALID_FOR).into();
    params
}

/// The names of a certificate for `hosts`.
fn names(hosts: &[String]) -> Vec<String> {
    let hosts: BTreeSet<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
    if hosts.is_empty() {
        return ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    }
    if hosts.len() <= NAMES_MAX {
        return hosts.into_iter().collect();
    }
    // A wildcard over a single label, `*.test`, is none to a client.
    let wildcard = |host: &String| match host.split_once('.') {
        Some((_, parent)) if parent.contains('.') => format!("*.{parent}"),
        _ => host.clone(),
    };
    let covered: BTreeSet<String> = hosts.iter().map(wildcard).collect();
    covered.into_iter().collect()
}

/// Writes a file that only its owner reads.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_listed_and_many_are_covered() {
        let list = |count: usize| (1..=count).map(|n| format!("D{n}.gateway.test")).collect::<Vec<_>>();
        assert_eq!(names(&list(2)), ["d1.gateway.test", "d2.gateway.test"]);
        assert_eq!(names(&list(64)).len(), 64);
        assert_eq!(names(&list(65)), ["*.gateway.test"]);
        let bare: Vec<String> = (0..70).map(|n| format!("h{n}.test")).collect();
        assert_eq!(names(&bare).len(), 70, "a wildcard of one label covers nothing");
        assert_eq!(names(&[]), ["localhost", "127.0.0.1", "::1"]);
    }

    #[test]
    fn files_are_made_and_belong_to_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let made = Certificates::make(&folder.path().join("tls"), &["one.test".into()]).unwrap();
        for path in made.paths() {
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{text}");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(made.server_key, PathBuf::from(format!("{}.key", made.server.display())));
    }

    #[test]
    fn tokens_are_the_seeds() {
        let drawn = tokens(7, 3);
        assert_eq!(drawn, tokens(7, 3));
        assert_eq!(drawn[..2], tokens(7, 2));
        assert_ne!(drawn[0], tokens(8, 1)[0]);
        assert!(drawn.iter().all(|token| token.len() == TOKEN_LETTERS && token.is_ascii()));
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 3);
    }
}
