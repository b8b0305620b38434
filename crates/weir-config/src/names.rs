//! Which certificate a client is shown: by the name that it asks for, then by the signatures that it can check.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

use crate::sharded::Sharded;

/// Ways to sign that keys are told apart by.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Certificates by the names that they are for. Versions share what they have in common.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// For clients that ask for no name, or for one that is not here; they are refused where there is none.
    default: Option<Choice>,
    exact: Sharded<Choice>,
    /// By what follows `*.`; such a name covers one label.
    wildcards: Sharded<Choice>,
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
        let mut names = Names { default: None, exact: Sharded::default(), wildcards: Sharded::default() };
        names.exact.reserve(certificates.len());
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
                None => {
                    names.insert(name, Choice::of(certified));
                    true
                }
            };
        }
        is_used
    }

    /// The same with some of the certificates in place of others; `None` where one of them is for other names than the
    /// one before, or signs in other ways, so that others may have its names.
    pub(crate) fn renewed(&self, renewals: &[(Arc<CertifiedKey>, Arc<CertifiedKey>)]) -> Option<Names> {
        let mut names = self.clone();
        for (former, now) in renewals {
            let of_both = names_of(now);
            let signs_as = |scheme: &SignatureScheme| signs(former, *scheme) == signs(now, *scheme);
            if names_of(former) != of_both || !SCHEMES.iter().all(signs_as) {
                return None;
            }
            for name in &of_both {
                let (names, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut names.wildcards, parent),
                    None => (&mut names.exact, name.as_str()),
                };
                if let Some(choice) = names.get_mut(name) {
                    choice.replace(former, now);
                }
            }
            if let Some(default) = &mut names.default {
                default.replace(former, now);
            }
        }
        Some(names)
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

    fn replace(&mut self, former: &Arc<CertifiedKey>, now: &Arc<CertifiedKey>) {
        let all = std::iter::once(&mut self.first).chain(&mut self.others);
        all.filter(|certified| Arc::ptr_eq(certified, former))
            .for_each(|certified| *certified = Arc::clone(now));
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
    use rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::policy::default_provider;

    fn certified(names: &[String], algorithm: &'static SignatureAlgorithm) -> Arc<CertifiedKey> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![certificate.der().clone()];
        Arc::new(CertifiedKey::from_der(chain, key, &default_provider()).unwrap())
    }

    fn shown(names: &Names, name: &str) -> Arc<CertifiedKey> {
        Arc::clone(&names.find(name).unwrap().first)
    }

    #[test]
    fn a_renewed_certificate_changes_its_own_names_alone() {
        let many: Vec<String> = (0..2_000).map(|n| format!("n{n}.test")).collect();
        let many = certified(&many, &PKCS_ECDSA_P256_SHA256);
        let own = ["one.test".to_owned(), "*.one.test".to_owned()];
        let make = || certified(&own, &PKCS_ECDSA_P256_SHA256);
        let (former, now) = (make(), make());
        let names = Names::new(&[Arc::clone(&many), Arc::clone(&former)], false).unwrap();
        let renewed = names.renewed(&[(Arc::clone(&former), Arc::clone(&now))]).unwrap();
        assert!(Arc::ptr_eq(&shown(&renewed, "one.test"), &now));
        assert!(Arc::ptr_eq(&shown(&renewed, "x.one.test"), &now));
        assert!(Arc::ptr_eq(&shown(&renewed, "n77.test"), &many));
        assert!(Arc::ptr_eq(&shown(&renewed, "who.test"), &many), "the default");
        assert!(Arc::ptr_eq(&shown(&names, "one.test"), &former), "the one before is what it was");
        assert_eq!(renewed.exact.differing_from(&names.exact).0, 1);
        assert!(renewed.exact.differing_from(&names.exact).1 > 1);
        let first = certified(&["n0.test".to_owned()], &PKCS_ECDSA_P256_SHA256);
        let alone = Names::new(&[Arc::clone(&first)], false).unwrap();
        let next = certified(&["n0.test".to_owned()], &PKCS_ECDSA_P256_SHA256);
        let alone = alone.renewed(&[(first, Arc::clone(&next))]).unwrap();
        assert!(Arc::ptr_eq(&shown(&alone, "who.test"), &next), "the default, too");
    }

    #[test]
    fn one_for_other_names_or_of_another_kind_is_no_renewal() {
        let own = ["one.test".to_owned()];
        let former = certified(&own, &PKCS_ECDSA_P256_SHA256);
        let names = Names::new(&[Arc::clone(&former)], false).unwrap();
        let check = |now: Arc<CertifiedKey>| assert!(names.renewed(&[(Arc::clone(&former), now)]).is_none());
        check(certified(&own, &PKCS_ED25519));
        check(certified(&["one.test".to_owned(), "two.test".to_owned()], &PKCS_ECDSA_P256_SHA256));
    }
}
