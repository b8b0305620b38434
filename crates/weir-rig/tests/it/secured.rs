//! Runs the real gateways with TLS, client certificates and bearer tokens, as their drivers configure them.

use weir_rig::{Asked, Binding, Certificates, Credentials, Drivers, Serves, TlsBinding, status_of, tokens};

use crate::gateways::{Gateway, binding, build_own_gateway};
use crate::{Bench, PATIENCE, eventually};

/// Sends a GET to the gateway. Returns the status of the response, or the error.
fn ask(gateway: &Gateway, credentials: &Credentials, host: &str, path: &str) -> Result<u16, String> {
    status_of(credentials, None, gateway.binding.listen, Asked { host, path }, PATIENCE)
}

/// Requires TLS, client certificates and tokens together. Checks that the gateway accepts clients with all of them, for
/// both hosts, and rejects clients that lack one or use a wrong one.
fn accepts_only_valid_credentials(driver: &str) {
    let known = tokens(7, 3);
    let gateway = Gateway::start(driver, |binding| {
        binding.tls = Some(TlsBinding { client_certificate: true, ..TlsBinding::default() });
        binding.tokens = known.clone();
    });
    let good = &gateway.rendered.credentials;
    assert_eq!((good.token.as_ref(), good.shows_certificate), (Some(&known[0]), true));
    for host in ["one.test", "two.test"] {
        for token in &known {
            let good = Credentials { token: Some(token.clone()), ..good.clone() };
            assert_eq!(ask(&gateway, &good, host, "/ping"), Ok(200), "{host} {token}");
        }
    }
    assert_eq!(ask(&gateway, good, "one.test", "/other"), Ok(404));
    for token in [None, Some("0".repeat(32)), Some(format!("{}0", known[0]))] {
        let unknown = Credentials { token, ..good.clone() };
        assert_eq!(ask(&gateway, &unknown, "one.test", "/ping"), Ok(401), "{unknown:?}");
    }
    let files = good.certificates.clone().unwrap();
    let other = Certificates::make(&gateway.dir().join("other"), &gateway.binding.hosts).unwrap();
    let (client, client_key) = (other.client.clone(), other.client_key.clone());
    for (what, credentials) in [
        ("no certificate", Credentials { shows_certificate: false, ..good.clone() }),
        (
            "a certificate of another CA",
            Credentials {
                certificates: Some(Certificates { client, client_key, ..files.clone() }),
                ..good.clone()
            },
        ),
        ("plain text", Credentials { certificates: None, ..good.clone() }),
    ] {
        // Some gateways abort the handshake, others return 400.
        let answer = ask(&gateway, &credentials, "one.test", "/ping");
        assert!(answer.is_err() || answer == Ok(400), "{what}: {answer:?}");
    }
    let mistrusting =
        Credentials { certificates: Some(Certificates { ca: other.ca.clone(), ..files }), ..good.clone() };
    let said = ask(&gateway, &mistrusting, "one.test", "/ping").unwrap_err();
    assert!(said.contains("UnknownIssuer") || said.contains("BadSignature"), "{said}");
    assert_eq!(gateway.origin.asked().len(), 6, "nothing else reached the upstream");
    gateway.stop();
}

/// Checks that the gateway selects the right one of many certificates: a client accepts only the certificate for its
/// server name.
fn serves_the_certificate_of_each_host(driver: &str, change: impl FnOnce(&mut Binding)) {
    let gateway = Gateway::start(driver, |binding| {
        binding.hosts = (1..=20).map(|number| format!("d{number}.gateway.test")).collect();
        binding.tls = Some(TlsBinding { client_certificate: true, certificate_each: true });
        change(binding);
    });
    let good = &gateway.rendered.credentials;
    let files = good.certificates.as_ref().unwrap();
    assert!(files.each.iter().map(|one| &one.host).eq(&gateway.binding.hosts));
    for host in &gateway.binding.hosts {
        assert_eq!(ask(&gateway, good, host, "/ping"), Ok(200), "{host}");
    }
    // Some gateways send another certificate, others abort the handshake.
    let said = ask(&gateway, good, "d21.gateway.test", "/ping").unwrap_err();
    assert!(!said.contains("UnknownIssuer"), "{said}");
    let bare = Credentials { shows_certificate: false, ..good.clone() };
    let answer = ask(&gateway, &bare, "d7.gateway.test", "/ping");
    assert!(answer.is_err() || answer == Ok(400), "{answer:?}");
    assert_eq!(
        gateway.origin.asked().len(),
        gateway.binding.hosts.len(),
        "nothing else reached the upstream"
    );
    gateway.stop();
}

/// Checks TLS without client certificates and tokens, for all hosts, and with more than one worker.
fn serves_tls_without_client_authentication(driver: &str) {
    let gateway = Gateway::start(driver, |binding| {
        binding.hosts.clear();
        binding.tls = Some(TlsBinding::default());
        binding.workers = 2;
    });
    let good = &gateway.rendered.credentials;
    let before = gateway.counted();
    for _ in 0..4 {
        assert_eq!(ask(&gateway, good, "localhost", "/ping"), Ok(200));
    }
    let said = ask(&gateway, good, "elsewhere.test", "/ping").unwrap_err();
    assert!(said.contains("not valid for name"), "{said}");
    eventually("the counters count every request", || gateway.counted() - before >= 4);
    assert_eq!(gateway.counted() - before, 4, "a handshake is no request");
    gateway.stop();
}

#[test]
fn weir_accepts_only_valid_credentials() {
    build_own_gateway();
    accepts_only_valid_credentials("weir");
}

#[test]
fn nginx_accepts_only_valid_credentials() {
    accepts_only_valid_credentials("nginx");
}

#[test]
fn haproxy_accepts_only_valid_credentials() {
    accepts_only_valid_credentials("haproxy");
}

#[test]
fn envoy_accepts_only_valid_credentials() {
    accepts_only_valid_credentials("envoy");
}

#[test]
fn weir_serves_the_certificate_of_each_host() {
    build_own_gateway();
    serves_the_certificate_of_each_host("weir", |_| ());
}

#[test]
fn nginx_serves_the_certificate_of_each_host() {
    serves_the_certificate_of_each_host("nginx", |_| ());
}

#[test]
fn haproxy_serves_the_certificate_of_each_host() {
    serves_the_certificate_of_each_host("haproxy", |_| ());
}

#[test]
fn envoy_serves_the_certificate_of_each_host_with_one_or_many_filter_chains() {
    for filter_chains in [true, false] {
        serves_the_certificate_of_each_host("envoy", |binding| {
            binding.set.insert("filter_chains".into(), filter_chains.into());
        });
    }
}

#[test]
fn existing_certificates_are_used() {
    let bench = Bench::new("there");
    let folder = bench.rig().work_dir().join("shared");
    let mut binding = binding();
    binding.tls = Some(TlsBinding { certificate_each: true, ..TlsBinding::default() });
    binding.certificates = Some(Certificates::make_each(&folder, &binding.hosts).unwrap());
    let drivers = Drivers::load(&[]).unwrap();
    let gateway = bench.rig().work_dir().join("gateway");
    let rendered = drivers.driver("nginx").unwrap().render(&binding, &gateway).unwrap();
    assert_eq!(rendered.credentials.certificates, binding.certificates);
    assert!(!gateway.join("tls").exists(), "no additional certificates are created");
    let configuration = std::fs::read_to_string(gateway.join("nginx.conf")).unwrap();
    for one in &binding.certificates.unwrap().each {
        let line = format!("ssl_certificate {};", one.certificate.display());
        assert!(configuration.contains(&line), "{line}");
    }
    bench.close();
}

#[test]
fn weir_serves_tls_without_client_authentication() {
    build_own_gateway();
    serves_tls_without_client_authentication("weir");
}

#[test]
fn nginx_serves_tls_without_client_authentication() {
    serves_tls_without_client_authentication("nginx");
}

#[test]
fn haproxy_serves_tls_without_client_authentication() {
    serves_tls_without_client_authentication("haproxy");
}

#[test]
fn envoy_serves_tls_without_client_authentication() {
    serves_tls_without_client_authentication("envoy");
}

#[test]
fn unsupported_features_of_a_driver_are_rejected_by_name() {
    let bench = Bench::new("unserved");
    let folder = bench.rig().work_dir().join("drivers/plain");
    std::fs::create_dir_all(&folder).unwrap();
    let file = "about: x\nbinary: { name: x, version: { args: [], after: x }, get: x }\n\
                processes: [{ name: p, role: data, command: [x] }]\nsteps: [{ start: p }]\n";
    std::fs::write(folder.join("driver.yaml"), file).unwrap();
    let drivers = Drivers::load(&[folder]).unwrap();
    let driver = drivers.driver("plain").unwrap();
    driver.require(&[]).unwrap();
    let error = driver.require(&[Serves::Tls, Serves::Bearer]).unwrap_err();
    assert_eq!(error.to_string(), "gateway `plain`: its driver does not support `topology.tls`");
    assert!(error.remedy().contains("`serves: [tls]`") && error.is_wrong_use(), "{}", error.remedy());
    let mut binding = binding();
    binding.tokens = tokens(1, 1);
    let error = driver.render(&binding, &bench.rig().work_dir().join("gateway")).unwrap_err();
    assert!(error.to_string().contains("`topology.bearer`"), "{error}");
    bench.close();
}
