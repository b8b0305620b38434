//! TLS policy of a listener: versions, cipher suites, groups, and selection of the certificate.

use std::io::{Read as _, Write as _};

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::{CipherSuite, ClientConnection, NamedGroup, SignatureScheme, SupportedCipherSuite};

use super::authority::{Authority, SecureClient, TLS12, TLS13, Trust};
use super::{GET, OK, address, check_failed, text};
use crate::setup::{Client, Origin, Proxy};

/// A gateway with one certificate and these further TLS fields.
fn gateway_with(ca: &Authority, more: &str) -> Proxy {
    let leaf = ca.signs(&["a.test"]);
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let tls = format!("certificate: a.pem, key: a.key, {more}");
    Proxy::with_files(&text(&tls, Origin::answering(OK).address, ""), &files)
}

fn suite_of(client: &SecureClient) -> CipherSuite {
    client.stream.conn.negotiated_cipher_suite().unwrap().suite()
}

fn offering_suites(trust: Trust, suites: &[SupportedCipherSuite]) -> Trust {
    trust.with_provider(|provider| provider.cipher_suites = suites.to_vec())
}

#[test]
fn accepts_only_configured_versions() {
    let ca = Authority::new("ca");
    for (versions, spoken, refused) in [("[1.3]", TLS13, TLS12), ("['1.2']", TLS12, TLS13)] {
        let proxy = gateway_with(&ca, &format!("versions: {versions}"));
        assert!(ca.trust().only(refused).connect(address(&proxy), "a.test").is_err());
        check_failed(&proxy, "handshake_failed", 1);
        let mut client = ca.trust().only(spoken).connect(address(&proxy), "a.test").unwrap();
        assert_eq!(client.ask(GET).body, "ok");
    }
}

#[test]
fn uses_configured_suites_in_their_order() {
    let ca = Authority::new("ca");
    let ciphers = "[TLS_CHACHA20_POLY1305_SHA256, TLS_AES_128_GCM_SHA256, \
                    ECDHE-ECDSA-AES256-GCM-SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]";
    let proxy = gateway_with(&ca, &format!("ciphers: {ciphers}"));
    for (versions, suite) in [
        (TLS13, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
        (TLS12, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ] {
        let mut client = ca.trust().only(versions).connect(address(&proxy), "a.test").unwrap();
        assert_eq!((suite_of(&client), client.ask(GET).body.as_str()), (suite, "ok"));
    }
    let second = offering_suites(ca.trust(), &[cipher_suite::TLS13_AES_128_GCM_SHA256]);
    let client = second.only(TLS13).connect(address(&proxy), "a.test").unwrap();
    assert_eq!(suite_of(&client), CipherSuite::TLS13_AES_128_GCM_SHA256);
    let other = offering_suites(ca.trust(), &[cipher_suite::TLS13_AES_256_GCM_SHA384]);
    assert!(other.only(TLS13).connect(address(&proxy), "a.test").is_err());
    check_failed(&proxy, "handshake_failed", 1);
}

#[test]
fn uses_only_configured_groups() {
    let ca = Authority::new("ca");
    let proxy = gateway_with(&ca, "curves: [P-256]");
    let group = |trust: Trust| {
        let client = trust.connect(address(&proxy), "a.test").ok()?;
        client.stream.conn.negotiated_key_exchange_group().map(|group| group.name())
    };
    assert_eq!(group(ca.trust()), Some(NamedGroup::secp256r1), "HelloRetryRequest names this group");
    let other = ca.trust().with_provider(|provider| provider.kx_groups = vec![kx_group::X25519]);
    assert_eq!(group(other), None);
    check_failed(&proxy, "handshake_failed", 1);
}

#[test]
fn supports_each_group_only_if_configured() {
    let all: [(&str, &'static dyn SupportedKxGroup); 4] = [
        ("X25519", kx_group::X25519),
        ("P-256", kx_group::SECP256R1),
        ("P-384", kx_group::SECP384R1),
        ("X25519MLKEM768", kx_group::X25519MLKEM768),
    ];
    let ca = Authority::new("ca");
    for (name, group) in all {
        let proxy = gateway_with(&ca, &format!("curves: [{name}]"));
        let only = |groups: &[&'static dyn SupportedKxGroup]| {
            ca.trust().with_provider(|provider| provider.kx_groups = groups.to_vec())
        };
        // X25519MLKEM768 is only for TLS 1.3.
        for versions in
            [TLS13, TLS12].into_iter().filter(|spoken| group.usable_for_version(spoken[0].version))
        {
            let mut client = only(&[group]).only(versions).connect(address(&proxy), "a.test").unwrap();
            assert_eq!(client.ask(GET).body, "ok", "{name}");
            let spoken = client.stream.conn.negotiated_key_exchange_group().unwrap();
            assert_eq!(spoken.name(), group.name());
        }
        let others: Vec<_> =
            all.iter().map(|(_, other)| *other).filter(|other| other.name() != group.name()).collect();
        assert!(only(&others).connect(address(&proxy), "a.test").is_err(), "{name}");
        check_failed(&proxy, "handshake_failed", 1);
    }
}

#[test]
fn selects_a_certificate_that_the_client_can_verify() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let kinds = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256),
        (&rcgen::PKCS_ED25519, SignatureScheme::ED25519),
        (&rcgen::PKCS_ECDSA_P384_SHA384, SignatureScheme::ECDSA_NISTP384_SHA384),
        (&rcgen::PKCS_ECDSA_P521_SHA512, SignatureScheme::ECDSA_NISTP521_SHA512),
    ];
    let leaves = kinds.map(|(algorithm, _)| ca.signs_for(&["a.test"], algorithm));
    let names = [0, 1, 2, 3].map(|n| [format!("{n}.pem"), format!("{n}.key")]);
    let files: Vec<(&str, &str)> = names
        .iter()
        .zip(&leaves)
        .flat_map(|([pem, key], leaf)| {
            [(pem.as_str(), leaf.certificate.as_str()), (key.as_str(), leaf.key.as_str())]
        })
        .collect();
    let shown = |proxy: &Proxy, trust: &Trust| {
        let mut client = trust.connect(address(proxy), "a.test").ok()?;
        assert_eq!(client.ask(GET).body, "ok");
        let shown = client.stream.conn.peer_certificates().unwrap()[0].clone();
        leaves.iter().position(|leaf| leaf.der() == shown)
    };
    let pair = |n: usize| format!("certificate: {n}.pem, key: {n}.key");
    for versions in [TLS13, TLS12] {
        let taking = |kind: &[usize]| {
            let schemes: Vec<SignatureScheme> = kind.iter().map(|&kind| kinds[kind].1).collect();
            ca.trust().only(versions).with_schemes(&schemes)
        };
        // A single certificate is used for every client that can verify it.
        for kind in 0..kinds.len() {
            let proxy = Proxy::with_files(&text(&pair(kind), origin.address, ""), &files);
            assert_eq!(shown(&proxy, &ca.trust().only(versions)), Some(kind));
            assert_eq!(shown(&proxy, &taking(&[kind])), Some(kind));
            assert_eq!(shown(&proxy, &taking(&[(kind + 1) % kinds.len()])), None);
            check_failed(&proxy, "handshake_failed", 1);
        }
        let beside: Vec<String> = (1..kinds.len()).map(|kind| format!("{{ {} }}", pair(kind))).collect();
        let all = format!("{}, certificates: [{}]", pair(0), beside.join(", "));
        let proxy = Proxy::with_files(&text(&all, origin.address, ""), &files);
        for kind in 0..kinds.len() {
            assert_eq!(shown(&proxy, &taking(&[kind])), Some(kind));
        }
        assert_eq!(shown(&proxy, &taking(&[3, 2, 1, 0])), Some(0), "the order of the gateway decides");
        assert_eq!(shown(&proxy, &taking(&[1, 3])), Some(3), "ECDSA is cheaper");
        assert_eq!(
            shown(&proxy, &ca.trust().only(versions).with_schemes(&[SignatureScheme::RSA_PSS_SHA256])),
            None
        );
        check_failed(&proxy, "handshake_failed", 1);
    }
}

#[test]
fn selects_the_verifiable_one_of_two_certificates_for_a_name() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let names = ["a.test", "127.0.0.1"];
    let (rsa, ecdsa) = (ca.signs_rsa(&names), ca.signs(&names));
    let files = [
        ("r.pem", rsa.certificate.as_str()),
        ("r.key", rsa.key.as_str()),
        ("e.pem", ecdsa.certificate.as_str()),
        ("e.key", ecdsa.key.as_str()),
    ];
    let tls = "certificate: r.pem, key: r.key, certificates: [{ certificate: e.pem, key: e.key }]";
    let proxy = Proxy::with_files(&text(tls, origin.address, ""), &files);
    let rsa_suite = cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    let ecdsa_suite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    // For an IP address, the client sends no server name. The gateway then selects one of the default certificates.
    // These are the first certificate and other certificates for its first name.
    for name in names {
        let suite = |trust: Trust| suite_of(&trust.only(TLS12).connect(address(&proxy), name).unwrap());
        assert_eq!(suite(offering_suites(ca.trust(), &[rsa_suite])), rsa_suite.suite());
        assert_eq!(suite(ca.trust()), ecdsa_suite, "ECDSA is cheaper");
    }
}

#[test]
fn strict_sni_rejects_unknown_names() {
    let ca = Authority::new("ca");
    let proxy = gateway_with(&ca, "strict_sni: true");
    for (count, name) in [(1, "b.test"), (2, "127.0.0.1")] {
        for versions in [TLS12, TLS13] {
            let said = ca.trust().only(versions).connect(address(&proxy), name).err().unwrap();
            assert!(said.contains("AccessDenied"), "{name}: {said}");
        }
        check_failed(&proxy, "unknown_name", 2 * count);
    }
    assert_eq!(ca.trust().connect(address(&proxy), "a.test").unwrap().ask(GET).body, "ok");
}

#[test]
fn optional_client_certificate_can_be_missing_but_not_invalid() {
    let (ca, clients, origin) = (Authority::new("ca"), Authority::new("clients"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let authority = clients.pem();
    let files =
        [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str()), ("ca.pem", authority.as_str())];
    let tls = "certificate: a.pem, key: a.key, client_ca: ca.pem, client_auth: optional";
    let proxy = Proxy::with_files(&text(tls, origin.address, ""), &files);
    for versions in [TLS13, TLS12] {
        for trust in [ca.trust(), ca.trust().showing(&clients.signs(&["me"]))] {
            let mut client = trust.only(versions).connect(address(&proxy), "a.test").unwrap();
            assert_eq!(client.ask(GET).body, "ok");
        }
    }
    let strange = ca.trust().showing(&Authority::new("others").signs(&["me"]));
    if let Ok(mut client) = strange.connect(address(&proxy), "a.test") {
        client.send(GET);
        assert!(client.is_closed(), "an invalid certificate is rejected");
    }
    check_failed(&proxy, "client_certificate", 1);
}

/// A burst of handshakes is spread over several loop turns, so that open connections are served in between.
#[test]
fn burst_of_handshakes_does_not_block_open_connections() {
    const BURST: usize = 64;
    let ca = Authority::new("ca");
    let proxy = gateway_with(&ca, "tickets: off");
    let mut there = ca.trust().connect(address(&proxy), "a.test").unwrap();
    let (config, mut count) = (ca.trust().config(), 1);
    // The scheduler decides how many handshakes of a burst arrive in the same turn. One burst may stay below the limit
    // of a turn, but at least one of many bursts exceeds the limit.
    for _ in 0..50 {
        let mut burst: Vec<_> = (0..BURST)
            .map(|_| {
                let name = rustls::pki_types::ServerName::try_from("a.test").unwrap();
                let mut connection = ClientConnection::new(config.clone(), name).unwrap();
                let mut hello = Vec::new();
                connection.write_tls(&mut hello).unwrap();
                (connection, Client::connect(address(&proxy)).stream, hello)
            })
            .collect();
        for (_, socket, hello) in &mut burst {
            socket.write_all(hello).unwrap();
        }
        assert_eq!(there.ask(GET).body, "ok");
        for (mut connection, mut socket, _) in burst {
            while connection.is_handshaking() {
                connection.complete_io(&mut socket).unwrap();
            }
            let mut stream = rustls::StreamOwned::new(connection, socket);
            stream.write_all(GET.as_bytes()).unwrap();
            stream.read_exact(&mut [0; OK.len()]).unwrap();
        }
        count += BURST as u64;
        assert_eq!(proxy.gateway.stats().tls.handshakes, count, "all handshakes complete");
        if proxy.gateway.stats().tls.delayed > 0 {
            return;
        }
    }
    panic!("no handshake was delayed: {:?}", proxy.gateway.stats().tls);
}
