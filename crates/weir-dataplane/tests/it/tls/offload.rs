//! Signatures outside of the worker threads.

use rustls::HandshakeKind;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};

use super::authority::{Authority, Leaf, TLS12, TLS13};
use super::{GET, OK, address, check_failed, gateway, text};
use crate::setup::{Origin, Proxy, recompile_with};

fn offloaded(proxy: &Proxy) -> u64 {
    proxy.gateway.stats().tls.offloaded
}

#[test]
fn offloads_only_rsa_signatures() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let (rsa, ecdsa) = (ca.signs_rsa(&["r.test", "both.test"]), ca.signs(&["e.test", "both.test"]));
    let files = [
        ("r.pem", rsa.certificate.as_str()),
        ("r.key", rsa.key.as_str()),
        ("e.pem", ecdsa.certificate.as_str()),
        ("e.key", ecdsa.key.as_str()),
    ];
    let tls = "certificate: r.pem, key: r.key, certificates: [{ certificate: e.pem, key: e.key }]";
    let proxy = Proxy::with_files(&text(tls, origin.address, ""), &files);
    let mut expected = 0;
    for versions in [TLS12, TLS13] {
        for (name, by_rsa) in [("r.test", 1), ("e.test", 0), ("both.test", 0)] {
            let mut client = ca.trust().only(versions).connect(address(&proxy), name).unwrap();
            assert_eq!(client.ask(&GET.replace("a.test", name)).body, "ok");
            expected += by_rsa;
            assert_eq!(offloaded(&proxy), expected, "{name}");
        }
    }
    let stats = proxy.gateway.stats();
    assert_eq!((stats.tls.handshakes, stats.tls.failed), (6, 0));
    let line = "\nweir_tls_handshakes_offloaded_total{listener=\"main\"} 2\n";
    assert!(stats.prometheus().contains(line));
}

#[test]
fn offloads_signatures_after_a_hello_retry_request() {
    let ca = Authority::new("ca");
    let rsa = ca.signs_rsa(&["a.test"]);
    let files = [("a.pem", rsa.certificate.as_str()), ("a.key", rsa.key.as_str())];
    let tls = "certificate: a.pem, key: a.key, curves: [X25519]";
    let proxy = Proxy::with_files(&text(tls, Origin::answering(OK).address, ""), &files);
    // A client sends a key share only for its first group.
    let groups = vec![kx_group::SECP384R1, kx_group::X25519];
    let trust = ca.trust().only(TLS13).with_provider(|provider| provider.kx_groups = groups);
    for expected in 1..=3 {
        let mut client = trust.connect(address(&proxy), "a.test").unwrap();
        assert_eq!(client.ask(GET).body, "ok");
        assert_eq!(client.stream.conn.handshake_kind(), Some(HandshakeKind::FullWithHelloRetryRequest));
        assert_eq!(offloaded(&proxy), expected);
    }
}

#[test]
fn offloaded_handshakes_fail_with_the_same_errors() {
    let ca = Authority::new("ca");
    let rsa = ca.signs_rsa(&["a.test"]);
    let files = [("a.pem", rsa.certificate.as_str()), ("a.key", rsa.key.as_str())];
    let tls = "certificate: a.pem, key: a.key, strict_sni: true, versions: ['1.2']";
    let proxy = Proxy::with_files(&text(tls, Origin::answering(OK).address, ""), &files);
    let unknown = ca.trust().only(TLS12).connect(address(&proxy), "b.test").err().unwrap();
    assert!(unknown.contains("AccessDenied"), "{unknown}");
    check_failed(&proxy, "unknown_name", 1);
    assert!(ca.trust().only(TLS13).connect(address(&proxy), "a.test").is_err());
    let suites = vec![cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256];
    let other = ca.trust().with_provider(|provider| provider.cipher_suites = suites);
    assert!(other.only(TLS12).connect(address(&proxy), "a.test").is_err());
    proxy.wait_for("the causes", |stats| stats.errors["handshake_failed"] == 2);
    assert_eq!((proxy.gateway.stats().tls.failed, offloaded(&proxy)), (3, 0));
    let mut good = ca.trust().only(TLS12).connect(address(&proxy), "a.test").unwrap();
    assert_eq!((good.ask(GET).body.as_str(), offloaded(&proxy)), ("ok", 1));
}

#[test]
fn offloads_rsa_keys_that_a_reload_adds() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let mut proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let exchange = |proxy: &Proxy| {
        let mut client = ca.trust().connect(address(proxy), "a.test").unwrap();
        assert_eq!(client.ask(GET).body, "ok");
        offloaded(proxy)
    };
    assert_eq!(exchange(&proxy), 0);
    for (leaf, expected) in [(ca.signs_rsa(&["a.test"]), 1), (ca.signs(&["a.test"]), 1)] {
        let Leaf { certificate, key } = &leaf;
        let files = [("a.pem", certificate.as_str()), ("a.key", key.as_str())];
        let text = text("certificate: a.pem, key: a.key", origin.address, "");
        let table = recompile_with(&mut proxy.state, &text, &files);
        proxy.gateway.apply(table).unwrap();
        assert_eq!(exchange(&proxy), expected);
    }
}
