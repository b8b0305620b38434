//! Selects the certificate of a listener: by server name, then by the signature schemes of the client.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

use crate::collections::Sharded;
use crate::host::suffixes;

/// One signature scheme per key type. weir identifies the type of a key by the scheme that the key supports.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// A certificate with its configured hosts.
#[derive(Clone, Copy)]
pub(crate) struct Named<'n> {
    certified: &'n Arc<CertifiedKey>,
    /// The configured hosts; if empty, the certificate is used for the names in it.
    hosts: &'n [String],
}

/// Configured hosts of all certificates, without `*`, in lower case.
type Hosts = HashSet<String, RandomState>;

/// If `hosts` contains this text, the certificate is also used for each name in the certificate that no other
/// configured host covers.
const CARRIED: &str = "*";

/// Certificates by server name. Versions of the configuration share the parts that did not change.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The certificates for clients without a server name, or with an unknown one; `None` rejects these clients.
    default: Option<Choice>,
    exact: Sharded<Choice>,
    /// Wildcard names in certificates, by the part after `*.`. They cover one label.
    wildcards: Sharded<Choice>,
    /// Configured wildcard hosts, by the part after `*.`. They cover any number of labels.
    suffixes: Sharded<Choice>,
}

/// The certificates for one name, at most one per signature scheme. ECDSA comes first, because it needs the least work.
#[derive(Clone, Debug)]
struct Choice {
    first: Arc<CertifiedKey>,
    others: Vec<Arc<CertifiedKey>>,
}

impl Names {
    /// Assigns names to certificates. For each name and signature scheme, the first certificate in order wins. Fails if
    /// a certificate has no configured hosts and no client would get it; the error is its position. With `is_strict`,
    /// there is no default certificate.
    pub(crate) fn new(certificates: &[Named<'_>], is_strict: bool) -> Result<Names, usize> {
        let mut names = Names {
            default: None,
            exact: Sharded::default(),
            wildcards: Sharded::default(),
            suffixes: Sharded::default(),
        };
        names.exact.reserve(certificates.len());
        let hosts: Hosts = certificates.iter().flat_map(Named::own_hosts).collect();
        for (position, named) in certificates.iter().enumerate() {
            let is_used = names.add(named.certified, named.names(&hosts));
            // The first certificate is the default, even if no name is assigned to it.
            if !is_used && named.hosts.is_empty() && (position > 0 || is_strict) {
                return Err(position);
            }
        }
        for named in certificates {
            names.add(named.certified, named.own_hosts().filter(|host| names.slot(host).is_none()).collect());
        }
        for parent in hosts.iter().filter_map(|host| host.strip_prefix("*.")) {
            if let Some(choice) = names.wildcards.get(parent).cloned() {
                names.suffixes.insert(parent, choice);
            }
        }
        if let (false, Some(first)) = (is_strict, certificates.first()) {
            names.default = Some(names.default_of(first, certificates, &hosts));
        }
        Ok(names)
    }

    /// The default certificates, for clients without a known server name: `first`, and each certificate for the first
    /// name of `first` that adds a signature scheme and passes [`Named::is_beside`].
    fn default_of(&self, first: &Named<'_>, all: &[Named<'_>], hosts: &Hosts) -> Choice {
        let mut default = Choice::of(first.certified);
        let of_name = first.names(hosts).first().and_then(|name| self.slot(name));
        for certified in of_name.iter().flat_map(|choice| choice.all()) {
            let is_it = |named: &Named<'_>| Arc::ptr_eq(named.certified, certified) && named.is_beside(first);
            if all.iter().any(is_it) {
                default.add(certified);
            }
        }
        default
    }

    /// Adds a certificate for the names `of_it`. Returns whether it is used for at least one of them.
    fn add(&mut self, certified: &Arc<CertifiedKey>, of_it: Vec<String>) -> bool {
        let mut is_used = false;
        for name in of_it {
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

    /// Replaces some certificates with renewed ones for the same hosts. `None` if the names or signature schemes of a
    /// certificate have changed, because names may then belong to other certificates.
    pub(crate) fn renewed<'n>(
        &self,
        renewals: impl Iterator<Item = (&'n Arc<CertifiedKey>, Named<'n>)>,
    ) -> Option<Names> {
        let mut names = self.clone();
        for (former, named) in renewals {
            let now = named.certified;
            let of_both = names_of(now);
            let signs_as = |scheme: &SignatureScheme| signs(former, *scheme) == signs(now, *scheme);
            if names_of(former) != of_both || !SCHEMES.iter().all(signs_as) {
                return None;
            }
            for name in of_both.into_iter().chain(named.own_hosts()) {
                let choices = match name.strip_prefix("*.") {
                    Some(parent) => [names.wildcards.get_mut(parent), names.suffixes.get_mut(parent)],
                    None => [names.exact.get_mut(&name), None],
                };
                choices.into_iter().flatten().for_each(|choice| choice.replace(former, now));
            }
            if let Some(default) = &mut names.default {
                default.replace(former, now);
            }
        }
        Some(names)
    }

    /// The certificates assigned to `name`, which is written as in a certificate, for example `*.example.org`.
    fn slot(&self, name: &str) -> Option<&Choice> {
        match name.strip_prefix("*.") {
            Some(parent) => self.wildcards.get(parent),
            None => self.exact.get(name),
        }
    }

    /// The certificates for clients that send the server name `name`, in lower case.
    fn find(&self, name: &str) -> Option<&Choice> {
        let by_parent = || name.split_once('.').and_then(|(_, parent)| self.wildcards.get(parent));
        let by_suffix = || suffixes(name).find_map(|suffix| self.suffixes.get(&suffix[1..]));
        self.exact.get(name).or_else(by_parent).or_else(by_suffix).or(self.default.as_ref())
    }
}

impl<'n> Named<'n> {
    pub(crate) fn new(certified: &'n Arc<CertifiedKey>, hosts: &'n [String]) -> Named<'n> {
        Named { certified, hosts }
    }

    /// The configured hosts, in lower case.
    fn own_hosts(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().filter(|host| *host != CARRIED).map(|host| host.to_ascii_lowercase())
    }

    /// The names for which this certificate is used. `hosts` contains the configured hosts of all certificates. If any
    /// of these hosts covers a name in the certificate, the most specific one decides: the name is used only if that
    /// host is configured for this certificate.
    fn names(&self, hosts: &Hosts) -> Vec<String> {
        let carried = names_of(self.certified);
        let own: Hosts = self.own_hosts().collect();
        let is_own = |name: &String| match covering(hosts, name) {
            Some(host) => own.contains(host),
            None => self.is_for_others(),
        };
        // A certificate with the wildcard `*.a.test` is also valid for a configured host such as `x.a.test`.
        let is_narrowed = |host: &String| !carried.contains(host) && has_wildcard_of(&carried, host);
        let narrowed: Vec<String> = self.own_hosts().filter(is_narrowed).collect();
        carried.into_iter().filter(is_own).chain(narrowed).collect()
    }

    /// Whether the certificate is also used for names that it contains but that no configured host covers.
    fn is_for_others(&self) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|host| host == CARRIED)
    }

    /// Whether this certificate can be a default certificate together with `first`. If `is_for_others` is true for
    /// `first`, it must be true for this certificate too. Otherwise, the first configured host of `first` must also be
    /// a configured host of this certificate.
    fn is_beside(&self, first: &Named<'_>) -> bool {
        match first.is_for_others() {
            true => self.is_for_others(),
            false => first.own_hosts().next().is_some_and(|host| self.own_hosts().any(|own| own == host)),
        }
    }
}

/// Whether a certificate with the names in `carried` is valid for `host`. All names are in lower case. For a wildcard
/// host, one matching name is enough.
pub(crate) fn is_carried(carried: &[String], host: &str) -> bool {
    match host.strip_prefix('*') {
        Some(suffix) => suffix.is_empty() || carried.iter().any(|name| name.ends_with(suffix)),
        None => carried.iter().any(|name| name == host) || has_wildcard_of(carried, host),
    }
}

fn has_wildcard_of(carried: &[String], host: &str) -> bool {
    let parent = host.split_once('.').map(|(_, parent)| parent);
    carried.iter().any(|name| name.strip_prefix("*.").is_some_and(|wide| Some(wide) == parent))
}

/// Returns the most specific of `hosts` that covers `name`. `name` comes from a certificate and may be a wildcard, such
/// as `*.a.test`.
fn covering<'h>(hosts: &'h Hosts, name: &str) -> Option<&'h String> {
    if hosts.is_empty() {
        return None;
    }
    let bare = name.strip_prefix('*').unwrap_or(name);
    let wider = || suffixes(bare).find_map(|suffix| hosts.get(&format!("*{suffix}")));
    hosts.get(name).or_else(wider)
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let choice = match hello.server_name() {
            // A server name can end with the dot of the DNS root.
            Some(name) => self.find(name.strip_suffix('.').unwrap_or(name)),
            None => self.default.as_ref(),
        };
        choice.map(|choice| choice.for_client(hello.signature_schemes()))
    }
}

impl Choice {
    fn of(certified: &Arc<CertifiedKey>) -> Choice {
        Choice { first: Arc::clone(certified), others: Vec::new() }
    }

    /// Adds a certificate if it supports a signature scheme that the present certificates lack. Returns whether it was
    /// added.
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

    /// The first certificate whose signature the client can verify. If there is none, returns the first certificate,
    /// and the handshake fails.
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

/// The DNS names in a certificate, in lower case.
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
    use crate::tls::policy::default_provider;

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
    fn renewed_certificate_changes_only_its_own_names() {
        let many: Vec<String> = (0..2_000).map(|n| format!("n{n}.test")).collect();
        let many = certified(&many, &PKCS_ECDSA_P256_SHA256);
        let own = ["one.test".to_owned(), "*.one.test".to_owned()];
        let make = || certified(&own, &PKCS_ECDSA_P256_SHA256);
        let (former, now) = (make(), make());
        let names = Names::new(&[Named::new(&many, &[]), Named::new(&former, &[])], false).unwrap();
        let renewed = names.renewed([(&former, Named::new(&now, &[]))].into_iter()).unwrap();
        assert!(Arc::ptr_eq(&shown(&renewed, "one.test"), &now));
        assert!(Arc::ptr_eq(&shown(&renewed, "x.one.test"), &now));
        assert!(Arc::ptr_eq(&shown(&renewed, "n77.test"), &many));
        assert!(Arc::ptr_eq(&shown(&renewed, "who.test"), &many), "many is the default");
        assert!(Arc::ptr_eq(&shown(&names, "one.test"), &former), "the previous version is unchanged");
        assert_eq!(renewed.exact.differing_from(&names.exact).0, 1);
        assert!(renewed.exact.differing_from(&names.exact).1 > 1);
        let first = certified(&["n0.test".to_owned()], &PKCS_ECDSA_P256_SHA256);
        let alone = Names::new(&[Named::new(&first, &[])], false).unwrap();
        let next = certified(&["n0.test".to_owned()], &PKCS_ECDSA_P256_SHA256);
        let alone = alone.renewed([(&first, Named::new(&next, &[]))].into_iter()).unwrap();
        assert!(Arc::ptr_eq(&shown(&alone, "who.test"), &next), "the default is renewed too");
    }

    #[test]
    fn certificate_with_other_names_or_schemes_is_no_renewal() {
        let own = ["one.test".to_owned()];
        let former = certified(&own, &PKCS_ECDSA_P256_SHA256);
        let names = Names::new(&[Named::new(&former, &[])], false).unwrap();
        let check = |now: Arc<CertifiedKey>| {
            assert!(names.renewed([(&former, Named::new(&now, &[]))].into_iter()).is_none());
        };
        check(certified(&own, &PKCS_ED25519));
        check(certified(&["one.test".to_owned(), "two.test".to_owned()], &PKCS_ECDSA_P256_SHA256));
    }

    /// `certificates` lists the names in each certificate and its configured hosts. `shown_for` lists server names,
    /// each with the position of the expected certificate.
    fn check_hosts(certificates: &[(&str, &str)], is_strict: bool, shown_for: &[(&str, Option<usize>)]) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let made: Vec<_> = certificates
            .iter()
            .map(|(names, hosts)| (certified(&words(names), &PKCS_ECDSA_P256_SHA256), words(hosts)))
            .collect();
        let named: Vec<_> = made.iter().map(|(certified, hosts)| Named::new(certified, hosts)).collect();
        let names = Names::new(&named, is_strict).unwrap();
        for (name, expected) in shown_for {
            let found = names.find(name).map(|choice| {
                made.iter().position(|(certified, _)| Arc::ptr_eq(certified, &choice.first)).unwrap()
            });
            assert_eq!(found, *expected, "{name} of {certificates:?}");
        }
    }

    #[test]
    fn configured_hosts_override_the_names_in_certificates() {
        // Each certificate has the same wildcard, so only the configured hosts differ.
        let wild = "*.w.test";
        check_hosts(
            &[(wild, "a.w.test"), (wild, "B.w.test")],
            true,
            &[("a.w.test", Some(0)), ("b.w.test", Some(1)), ("c.w.test", None)],
        );
        // The certificate with the most specific configured host is used, even if another certificate contains the
        // exact name.
        check_hosts(
            &[
                ("*.w.test a.w.test", "*.w.test"),
                ("*.w.test x.org", "a.w.test"),
                ("deep.b.w.test b.w.test", "*.b.w.test"),
            ],
            true,
            &[
                ("a.w.test", Some(1)),
                ("b.w.test", Some(0)),
                ("x.org", None),
                ("deep.b.w.test", Some(2)),
                ("c.b.w.test", Some(2)),
            ],
        );
        // `*` stands for all names in the certificate, except names that a host of another certificate covers.
        check_hosts(
            &[("z.org a.w.test c.org", "*"), ("c.org", "*.w.test"), ("d.w.test", "a.w.test *")],
            false,
            &[
                ("z.org", Some(0)),
                ("a.w.test", Some(2)),
                ("c.org", Some(0)),
                ("d.w.test", Some(1)),
                ("who.org", Some(0)),
            ],
        );
        // A wildcard host covers any number of labels, like hosts of routes. A certificate's wildcard covers one label.
        check_hosts(
            &[("app.eu.w.test z.org", "*"), ("*.w.test", "*.w.test"), ("*.a.w.test", "*.a.w.test")],
            false,
            &[
                ("app.eu.w.test", Some(1)),
                ("x.y.w.test", Some(1)),
                ("x.a.w.test", Some(2)),
                ("x.y.a.w.test", Some(2)),
                ("w.test", Some(0)),
                ("x.z.org", Some(0)),
            ],
        );
        // A certificate that contains no names is used for its configured hosts. If another certificate contains the
        // host name, that one is used.
        check_hosts(&[("", "a.w.test"), ("a.w.test", "a.w.test")], true, &[("a.w.test", Some(1))]);
        check_hosts(&[("", "a.w.test")], true, &[("a.w.test", Some(0)), ("b.w.test", None)]);
    }

    #[test]
    fn default_comes_from_the_hosts_of_the_first_certificate() {
        let a = ["a.w.test".to_owned()];
        let (first, kind, other) = (
            certified(&a, &PKCS_ED25519),
            certified(&a, &PKCS_ECDSA_P256_SHA256),
            certified(&a, &PKCS_ECDSA_P256_SHA256),
        );
        let (every, both) = (["*".to_owned()], ["*".to_owned(), "a.w.test".to_owned()]);
        let default = |all: &[Named<'_>]| Arc::clone(&Names::new(all, false).unwrap().default.unwrap().first);
        // The other certificate has a preferred key type, but not the host `*`.
        let shared = [Named::new(&first, &both), Named::new(&other, &a)];
        assert!(Arc::ptr_eq(&default(&shared), &first));
        assert!(Arc::ptr_eq(&shown(&Names::new(&shared, false).unwrap(), "a.w.test"), &other));
        let own = [Named::new(&first, &both), Named::new(&kind, &both), Named::new(&other, &a)];
        assert!(Arc::ptr_eq(&default(&own), &kind));
        let without_hosts = [Named::new(&first, &[]), Named::new(&kind, &[])];
        assert!(Arc::ptr_eq(&default(&without_hosts), &kind));
        let named = [Named::new(&first, &a), Named::new(&kind, &a), Named::new(&other, &every)];
        assert!(Arc::ptr_eq(&default(&named), &kind));
    }

    #[test]
    fn renewed_certificate_keeps_the_hosts_of_the_previous_one() {
        let wild = ["*.w.test".to_owned()];
        let make = || certified(&wild, &PKCS_ECDSA_P256_SHA256);
        let (a, b, now) = (make(), make(), make());
        let hosts = [vec!["a.w.test".to_owned()], vec!["B.w.test".to_owned(), "*.b.w.test".to_owned()]];
        let names = Names::new(&[Named::new(&a, &hosts[0]), Named::new(&b, &hosts[1])], true).unwrap();
        let renewed = names.renewed([(&b, Named::new(&now, &hosts[1]))].into_iter()).unwrap();
        assert!(Arc::ptr_eq(&shown(&renewed, "a.w.test"), &a));
        for name in ["b.w.test", "x.b.w.test", "x.y.b.w.test"] {
            assert!(Arc::ptr_eq(&shown(&renewed, name), &now), "{name}");
        }
    }
}
