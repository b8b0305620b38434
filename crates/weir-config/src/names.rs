//! Which certificate a client is shown: by the name that it asks for, then by the signatures that it can check.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

use crate::paths::FastMap;

/// Ways to sign that keys are told apart by.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Certificates by the names that they are for.
#[derive(Debug)]
pub(crate) struct Names {
    /// For clients that ask for no name, or for one that is not here; they are refused where there is none.
    default: Option<Choice>,
    exact: FastMap<Box<str>, Choice>,
    /// By what follows `*.`; such a name covers one label.
    wildcards: FastMap<Box<str>, Choice>,
}

/// The certificates for one name, at most one for each way to sign; ECDSA, the least work, goes first.
#[derive(Clone, Debug)]
struct Choice {
    first: Arc<CertifiedKey>,
    others: Vec<Arc<CertifiedKey>>,
}

impl Names {
    /// Certificates in order; the first that is for a name and can sign in a way has it. An error tells the position of
    /// one that no client would get.
    pub(crate) fn new(certificates: &[Arc<CertifiedKey>], is_strict: bool) -> Result<Names, usize> {
        let mut names = Names { default: None, exact: FastMap::default(), wildcards: FastMap::default() };
        for (position, certified) in certificates.iter().enumerate() {
            let is_used = names.add(certified);
            // The first one is shown to clients without a name, whatever its own.
            if !is_used && (position > 0 || is_strict) {
                return Err(position);
            }
        }
        if let (false, Some(first)) = (is_strict, certificates.first()) {
            let of_name = names_of(first).first().and_then(|name| names.slot(name).cloned());
            names.default = of_name.or_else(|| Some(Choice::of(first)));
        }
        Ok(names)
    }

    /// Adds a certificate for its names; whether any of them has it then.
    fn add(&mut self, certified: &Arc<CertifiedKey>) -> bool {
        let mut is_used = false;
        for name in names_of(certified) {
            let (names, name) = match name.strip_prefix("*.") {
                Some(parent) => (&mut self.wildcards, parent),
                None => (&mut self.exact, name.as_str()),
            };
            is_used |= match names.get_mut(name) {
                Some(choice) => choice.add(certified),
                None => names.insert(name.into(), Choice::of(certified)).is_none(),
            };
        }
        is_used
    }

    /// What there is for `name` as a certificate spells it.
    fn slot(&self, name: &str) -> Option<&Choice> {
        match name.strip_prefix("*.") {
            Some(parent) => self.wildcards.get(parent),
            None => self.exact.get(name),
        }
    }

    /// What there is for a client that asks for `name`, in lower case.
    fn find(&self, name: &str) -> Option<&Choice> {
        let by_parent = || name.split_once('.').and_then(|(_, parent)| self.wildcards.get(parent));
        self.exact.get(name).or_else(by_parent).or(self.default.as_ref())
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let choice = match hello.server_name() {
            Some(name) => self.find(name),
            None => self.default.as_ref(),
        };
        choice.map(|choice| choice.for_client(hello.signature_schemes()))
    }
}

impl Choice {
    fn of(certified: &Arc<CertifiedKey>) -> Choice {
        Choice { first: Arc::clone(certified), others: Vec::new() }
    }

    /// Adds a certificate that signs in a way that none here does; whether it is one.
    fn add(&mut self, certified: &Arc<CertifiedKey>) -> bool {
        let is_new = |scheme: &SignatureScheme| !self.all().any(|here| signs(here, *scheme));
        if !SCHEMES.iter().any(|scheme| signs(certified, *scheme) && is_new(scheme)) {
            return false;
        }
        let mut added = Arc::clone(certified);
        if rank(&added) < rank(&self.first) {
            std::mem::swap(&mut added, &mut self.first);
        }
        self.others.push(added);
        self.others.sort_by_key(rank);
        true
    }

    fn all(&self) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The first whose signature the client can check. Where there is none the handshake ends with an alert that says
    /// so, whichever it is.
    fn for_client(&self, offered: &[SignatureScheme]) -> Arc<CertifiedKey> {
        let is_known = |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(offered).is_some();
        let known = if self.others.is_empty() { None } else { self.all().find(is_known) };
        Arc::clone(known.unwrap_or(&self.first))
    }
}

fn signs(certified: &CertifiedKey, scheme: SignatureScheme) -> bool {
    certified.key.choose_scheme(&[scheme]).is_some()
}

fn rank(certified: &Arc<CertifiedKey>) -> u8 {
    match certified.key.algorithm() {
        SignatureAlgorithm::ECDSA => 0,
        SignatureAlgorithm::ED25519 => 1,
        _ => 2,
    }
}

/// The DNS names that a certificate is for, in lower case.
pub(crate) fn names_of(certified: &CertifiedKey) -> Vec<String> {
    let Some(Ok(certificate)) = certified.cert.first().map(EndEntityCert::try_from) else {
        return Vec::new();
    };
    certificate.valid_dns_names().map(str::to_ascii_lowercase).collect()
}
