//! TLS versions, cipher suites and key exchange groups of rustls, by name.

use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};
use weir_document::Problem;

use crate::model::{Tls, TlsVersion};

/// A cipher suite with its IANA and OpenSSL names.
struct Suite {
    iana: &'static str,
    openssl: &'static str,
    version: TlsVersion,
    suite: &'static SupportedCipherSuite,
}

const fn suite(
    iana: &'static str,
    openssl: &'static str,
    version: TlsVersion,
    suite: &'static SupportedCipherSuite,
) -> Suite {
    Suite { iana, openssl, version, suite }
}

/// All suites, in the default order of preference. AES-128 comes first, as in other servers, because it needs the least
/// work for the same security.
static SUITES: [Suite; 9] = [
    suite(
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        TlsVersion::V13,
        &cipher_suite::TLS13_AES_128_GCM_SHA256,
    ),
    suite(
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    suite(
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    suite(
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
        TlsVersion::V13,
        &cipher_suite::TLS13_AES_256_GCM_SHA384,
    ),
    suite(
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        TlsVersion::V13,
        &cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    suite(
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    suite(
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    suite(
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    suite(
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        TlsVersion::V12,
        &cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// A key exchange group with its names.
struct Group {
    names: &'static [&'static str],
    group: &'static &'static dyn SupportedKxGroup,
}

/// All groups, in the order in which the gateway offers them to upstreams.
static GROUPS: [Group; 4] = [
    Group { names: &["X25519"], group: &kx_group::X25519 },
    Group { names: &["P-256", "secp256r1", "prime256v1"], group: &kx_group::SECP256R1 },
    Group { names: &["P-384", "secp384r1"], group: &kx_group::SECP384R1 },
    Group { names: &["X25519MLKEM768"], group: &kx_group::X25519MLKEM768 },
];

/// The provider with all suites and groups: the default for listeners, and always used for upstreams.
pub(crate) fn default_provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: SUITES.iter().map(|known| *known.suite).collect(),
        kx_groups: GROUPS.iter().map(|known| *known.group).collect(),
        ..aws_lc_rs::default_provider()
    }
}

/// The provider for handshakes of a listener. [`check`] rejects unknown names.
pub(crate) fn provider(tls: &Tls) -> CryptoProvider {
    let mut provider = default_provider();
    if !tls.ciphers.is_empty() {
        let named = tls.ciphers.iter().filter_map(|name| suite_named(name));
        provider.cipher_suites = named.map(|known| *known.suite).collect();
    }
    if !tls.curves.is_empty() {
        let named = tls.curves.iter().filter_map(|name| group_named(name));
        provider.kx_groups = named.map(|known| *known.group).collect();
    }
    provider
}

/// The enabled TLS versions of a listener.
pub(crate) fn versions(tls: &Tls) -> Vec<&'static SupportedProtocolVersion> {
    spoken(tls)
        .iter()
        .map(|spoken| match spoken {
            TlsVersion::V12 => &version::TLS12,
            TlsVersion::V13 => &version::TLS13,
        })
        .collect()
}

/// Validates versions, cipher suites and groups of `tls`. `place` is the path of its field, for messages.
pub(crate) fn check(place: &str, tls: &Tls) -> Result<(), Problem> {
    for (index, version) in tls.versions.iter().enumerate() {
        if tls.versions[..index].contains(version) {
            return Err(twice(format!("{place}.versions[{index}]"), &version.to_string()));
        }
    }
    check_ciphers(place, tls)?;
    for (index, name) in tls.curves.iter().enumerate() {
        let place = format!("{place}.curves[{index}]");
        let Some(known) = group_named(name) else {
            let all: Vec<&str> = GROUPS.iter().map(|known| known.names[0]).collect();
            let message = format!("unsupported key exchange group `{name}`");
            return Err(Problem::of(place, message).help(format!("supported: {}", all.join(", "))));
        };
        if tls.curves[..index].iter().filter_map(|name| group_named(name)).any(|k| std::ptr::eq(k, known)) {
            return Err(twice(place, name));
        }
    }
    Ok(())
}

fn check_ciphers(place: &str, tls: &Tls) -> Result<(), Problem> {
    for (index, name) in tls.ciphers.iter().enumerate() {
        let place = format!("{place}.ciphers[{index}]");
        let Some(known) = suite_named(name) else {
            let message = format!("unsupported cipher suite `{name}`");
            return Err(Problem::of(place, message).help(format!("supported: {}", suites_of(spoken(tls)))));
        };
        if tls.ciphers[..index].iter().filter_map(|name| suite_named(name)).any(|k| std::ptr::eq(k, known)) {
            return Err(twice(place, name));
        }
    }
    let has = |version| {
        tls.ciphers.iter().filter_map(|name| suite_named(name)).any(|known| known.version == version)
    };
    let bare = spoken(tls).iter().find(|&&version| !tls.ciphers.is_empty() && !has(version));
    bare.map_or(Ok(()), |version| {
        let message = format!("no suite in this list supports TLS {version}, which `versions` enables");
        let remedy = format!("remove {version} from `versions`, or add one of: {}", suites_of(&[*version]));
        Err(Problem::of(format!("{place}.ciphers"), message).help(remedy))
    })
}

fn twice(place: String, name: &str) -> Problem {
    Problem::of(place, format!("duplicate `{name}`")).help("remove one of them")
}

fn spoken(tls: &Tls) -> &[TlsVersion] {
    if tls.versions.is_empty() { &[TlsVersion::V12, TlsVersion::V13] } else { &tls.versions }
}

fn suites_of(versions: &[TlsVersion]) -> String {
    let known = SUITES.iter().filter(|known| versions.contains(&known.version));
    known.map(|known| known.openssl).collect::<Vec<_>>().join(", ")
}

fn suite_named(name: &str) -> Option<&'static Suite> {
    let is_named =
        |known: &&Suite| known.iana.eq_ignore_ascii_case(name) || known.openssl.eq_ignore_ascii_case(name);
    SUITES.iter().find(is_named)
}

fn group_named(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|known| known.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_iana_and_rustls() {
        for known in &SUITES {
            let name = known.suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_");
            assert_eq!(name, known.iana);
            let version = match known.version {
                TlsVersion::V12 => &version::TLS12,
                TlsVersion::V13 => &version::TLS13,
            };
            assert_eq!(known.suite.version().version, version.version);
        }
        let known = |all: Vec<SupportedCipherSuite>| {
            let mut names: Vec<_> = all.iter().map(|suite| format!("{:?}", suite.suite())).collect();
            names.sort();
            names
        };
        let rustls = aws_lc_rs::default_provider();
        assert_eq!(known(default_provider().cipher_suites), known(rustls.cipher_suites), "all suites");
        assert_eq!(default_provider().kx_groups.len(), rustls.kx_groups.len());
    }
}
