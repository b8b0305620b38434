//! Certificates in secrets, and TLS passthrough.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::served::{Served, ask, backend, echo, exchange, free_port, gateway, route, whole, write};

/// A certificate authority that clients trust, as roots of a TLS client and as PEM.
pub(super) struct Trust {
    roots: RootCertStore,
    pem: String,
}

/// A certificate authority, and certificates for these names with their keys.
pub(super) fn certificates(names: &[&str]) -> (Trust, Vec<(String, String)>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("a good certificate");
    let pair = |name: &&str| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![(*name).to_owned()]).expect("a name");
        (params.signed_by(&key, &authority).expect("a certificate").pem(), key.serialize_pem())
    };
    (Trust { roots, pem: authority.pem() }, names.iter().map(pair).collect())
}

/// The response over TLS to a client that sends `name` as SNI and trusts these authorities.
pub(super) fn ask_secure(
    address: SocketAddr,
    trust: &Trust,
    name: &str,
    request: &str,
) -> Result<String, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(trust.roots.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut stream = StreamOwned::new(connection, stream);
    stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
    Ok(exchange(&mut stream, request))
}

/// A Secret with a certificate and its key.
pub(super) fn secret(name: &str, (certificate, key): &(String, String), is_encoded: bool) -> String {
    let (field, values) = match is_encoded {
        true => ("data", [certificate, key].map(|text| format!("{:?}", STANDARD.encode(text)))),
        false => ("stringData", [certificate, key].map(|text| format!("{text:?}"))),
    };
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: {name} }}\ntype: kubernetes.io/tls\n\
         {field}: {{ tls.crt: {}, tls.key: {} }}\n",
        values[0], values[1]
    )
}

#[test]
fn certificates_of_secrets_take_effect_on_reload() {
    let ip = "127.7.2.1";
    let port = free_port(ip);
    let (trust, pairs) = certificates(&["shop.test", "blog.test"]);
    let listeners = format!(
        "    - {{ name: shop, port: {port}, protocol: HTTPS, hostname: shop.test, tls: {{ certificateRefs: [{{ name: shop }}] }} }}
    - {{ name: blog, port: {port}, protocol: HTTPS, hostname: blog.test, tls: {{ certificateRefs: [{{ name: blog }}] }} }}"
    );
    let rest = [gateway(ip, &listeners), backend("a", echo("a")), route("all", "", &whole("a"))].concat();
    let mut served = Served::start(&[
        ("gateway.yaml", &rest),
        ("shop.yaml", &secret("shop", &pairs[0], true)),
        ("blog.yaml", &secret("blog", &pairs[1], false)),
    ]);
    let address = served.gateway.addresses()[0];
    for name in ["shop.test", "blog.test"] {
        let answer = ask_secure(address, &trust, name, &format!("GET /\r\nHost: {name}\r\n")).expect("TLS");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\n") && answer.contains("\na: GET / HTTP/1.1\n"),
            "{answer}"
        );
    }
    assert!(ask_secure(address, &trust, "other.test", "GET /\r\nHost: shop.test\r\n").is_err());
    let (others, renewed) = certificates(&["shop.test"]);
    write(served.dir.path(), "shop.yaml", &secret("shop", &renewed[0], true));
    let parsed = served.source.files_parsed();
    assert_eq!(served.reload(), [""; 0]);
    assert_eq!(served.source.files_parsed(), parsed + 1);
    assert!(ask_secure(address, &others, "shop.test", "GET /\r\nHost: shop.test\r\n").is_ok());
    assert!(ask_secure(address, &trust, "blog.test", "GET /\r\nHost: blog.test\r\n").is_ok());
    // A key that does not match is reported with its Secret, and the previous certificate stays active.
    write(served.dir.path(), "shop.yaml", &secret("shop", &(renewed[0].0.clone(), pairs[0].1.clone()), true));
    let lines = served.reload();
    let expected = "gateway.yaml:13:97: Gateway default/edge: spec.listeners[0].tls.certificateRefs[0]: \
                `Secret default/shop tls.key` is not the private key of `Secret default/shop tls.crt`";
    assert!(lines[0].ends_with(expected), "{lines:#?}");
    assert!(ask_secure(address, &others, "shop.test", "GET /\r\nHost: shop.test\r\n").is_ok());
}

#[test]
fn tls_passes_through_to_the_upstream_with_the_key() {
    let (outer, inner) = ("127.7.3.1", "127.7.3.2");
    let (outer_port, inner_port) = (free_port(outer), free_port(inner));
    let (trust, pairs) = certificates(&["bank.test"]);
    let listeners = format!(
        "    - {{ name: https, port: {inner_port}, protocol: HTTPS, tls: {{ certificateRefs: [{{ name: bank }}] }} }}"
    );
    let _upstream = Served::start(&[(
        "all.yaml",
        &[
            gateway(inner, &listeners),
            backend("a", echo("sealed")),
            route("all", "", &whole("a")),
            secret("bank", &pairs[0], true),
        ]
        .concat(),
    )]);
    let listeners = format!(
        "    - {{ name: tls, port: {outer_port}, protocol: TLS, hostname: '*.test', tls: {{ mode: Passthrough }} }}"
    );
    let upstream: SocketAddr = format!("{inner}:{inner_port}").parse().expect("an address");
    let tls_route = route("bank", "", &format!("  hostnames: [bank.test]\n{}", whole("bank")))
        .replace("HTTPRoute", "TLSRoute")
        .replace("k8s.io/v1\n", "k8s.io/v1alpha2\n");
    let served = Served::start(&[(
        "all.yaml",
        &[gateway(outer, &listeners), backend("bank", upstream), tls_route].concat(),
    )]);
    let address = served.gateway.addresses()[0];
    let answer = ask_secure(address, &trust, "bank.test", "GET /vault\r\nHost: bank.test\r\n").expect("TLS");
    assert!(answer.contains("\nsealed: GET /vault HTTP/1.1\n"), "{answer}");
    assert_eq!(served.gateway.stats().tls.passed_on, 1);
    assert!(ask_secure(address, &trust, "shop.test", "GET /\r\nHost: shop.test\r\n").is_err());
}

/// `{ name: .., protocol: TLS, .. }` in passthrough mode.
fn passthrough(name: &str, port: u16, hostname: &str) -> String {
    format!("    - {{ name: {name}, port: {port}, protocol: TLS{hostname}, tls: {{ mode: Passthrough }} }}\n")
}

fn terminating(name: &str, port: u16, hostname: &str, secret: &str) -> String {
    format!(
        "    - {{ name: {name}, port: {port}, protocol: HTTPS, hostname: '{hostname}', \
         tls: {{ certificateRefs: [{{ name: {secret} }}] }} }}\n"
    )
}

#[test]
fn a_passthrough_port_without_a_route_serves_nothing_else() {
    let ip = "127.7.8.1";
    let (sealed, plain) = (free_port(ip), free_port(ip));
    let listeners =
        passthrough("tls", sealed, "") + &format!("    - {{ name: http, port: {plain}, protocol: HTTP }}");
    let served = Served::start(&[(
        "all.yaml",
        &[gateway(ip, &listeners), backend("a", echo("a")), route("all", "", &whole("a"))].concat(),
    )]);
    let (trust, _) = certificates(&["shop.test"]);
    let at = |port: u16| format!("{ip}:{port}").parse().expect("an address");
    assert!(ask(at(plain), "GET /\r\nHost: h\r\n").contains("\na: GET / HTTP/1.1\n"));
    assert_eq!(ask(at(sealed), "GET /\r\nHost: h\r\n"), "");
    assert!(ask_secure(at(sealed), &trust, "shop.test", "GET /\r\nHost: h\r\n").is_err());
    assert_eq!(served.gateway.stats().errors["unknown_name"], 1);
}

#[test]
fn the_listener_with_the_most_specific_hostname_gets_the_client() {
    let (outer, inner) = ("127.7.9.1", "127.7.9.2");
    let (port, inner_port) = (free_port(outer), free_port(inner));
    let (trust, pairs) = certificates(&["*.w.test", "open.vault.w.test", "x.vault.w.test"]);
    let upstream = [
        gateway(inner, &terminating("https", inner_port, "*.vault.w.test", "s")),
        backend("a", echo("sealed")),
        route("all", "", &whole("a")),
        secret("s", &pairs[2], true),
    ];
    let _upstream = Served::start(&[("all.yaml", &upstream.concat())]);
    let listeners = [
        terminating("wide", port, "*.w.test", "wide"),
        passthrough("bank", port, ", hostname: bank.w.test"),
        passthrough("vault", port, ", hostname: '*.vault.w.test'"),
        terminating("open", port, "open.vault.w.test", "open"),
    ];
    let tls_route = route("vault", "", &whole("vault"))
        .replace("HTTPRoute", "TLSRoute")
        .replace("k8s.io/v1\n", "k8s.io/v1alpha2\n")
        .replace("name: edge", "name: edge, sectionName: vault");
    let all = [
        gateway(outer, &listeners.concat()),
        backend("vault", format!("{inner}:{inner_port}").parse().expect("an address")),
        backend("a", echo("opened")),
        tls_route,
        route("all", "", &whole("a")),
        secret("wide", &pairs[0], true),
        secret("open", &pairs[1], true),
    ];
    let served = Served::start(&[("all.yaml", &all.concat())]);
    let address = served.gateway.addresses()[0];
    let who = |name: &str| {
        let answer = ask_secure(address, &trust, name, &format!("GET /\r\nHost: {name}\r\n"));
        let answers =
            answer.ok().map(|answer| answer.lines().find(|line| line.contains(": GET")).map(str::to_owned));
        answers.flatten().and_then(|line| line.split(": ").next().map(str::to_owned))
    };
    let found = ["shop.w.test", "bank.w.test", "x.vault.w.test", "open.vault.w.test", "who.org"].map(who);
    let found = found.each_ref().map(Option::as_deref);
    assert_eq!(found, [Some("opened"), None, Some("sealed"), Some("opened"), None]);
    let stats = served.gateway.stats();
    assert_eq!((stats.tls.handshakes, stats.tls.passed_on), (2, 1));
}

#[test]
fn each_listener_shows_its_own_certificate_for_any_names() {
    let ip = "127.7.10.1";
    let port = free_port(ip);
    let ((shops, of_shop), (blogs, of_blog)) = (certificates(&["*.w.test"]), certificates(&["*.w.test"]));
    let listeners =
        terminating("shop", port, "shop.w.test", "shop") + &terminating("blog", port, "blog.w.test", "blog");
    let all = [
        gateway(ip, &listeners),
        backend("a", echo("a")),
        route("all", "", &whole("a")),
        secret("shop", &of_shop[0], true),
        secret("blog", &of_blog[0], true),
    ];
    let served = Served::start(&[("all.yaml", &all.concat())]);
    let address = served.gateway.addresses()[0];
    let is_known = |trust: &Trust, name: &str| {
        ask_secure(address, trust, name, &format!("GET /\r\nHost: {name}\r\n")).is_ok()
    };
    for (name, expected) in
        [("shop.w.test", [true, false]), ("blog.w.test", [false, true]), ("x.w.test", [false, false])]
    {
        assert_eq!([is_known(&shops, name), is_known(&blogs, name)], expected, "{name}");
    }
}

#[test]
fn a_backend_may_use_tls() {
    let (outer, inner) = ("127.7.7.1", "127.7.7.2");
    let (outer_port, inner_port) = (free_port(outer), free_port(inner));
    let (trust, pairs) = certificates(&["inner.test"]);
    let listeners = format!(
        "    - {{ name: https, port: {inner_port}, protocol: HTTPS, tls: {{ certificateRefs: [{{ name: s }}] }} }}"
    );
    let inside =
        [gateway(inner, &listeners), backend("a", echo("inside")), route("all", "", &whole("a"))].concat();
    let _upstream = Served::start(&[("all.yaml", &(inside + &secret("s", &pairs[0], true)))]);
    let upstream: SocketAddr = format!("{inner}:{inner_port}").parse().expect("an address");
    let sealed = backend("b", upstream).replace(" }] }", " }], tls: { ca: ca.pem, sni: inner.test } }");
    let listeners = format!("    - {{ name: http, port: {outer_port}, protocol: HTTP }}");
    let outside = [gateway(outer, &listeners), sealed, route("all", "", &whole("b"))].concat();
    let mut served = Served::start(&[("all.yaml", &outside), ("ca.pem", &trust.pem)]);
    let address = served.gateway.addresses()[0];
    let answer = ask(address, "GET /x\r\nHost: h\r\n");
    assert!(answer.contains("\ninside: GET /x HTTP/1.1\n"), "{answer}");
    write(served.dir.path(), "all.yaml", &outside.replace("ca.pem", "none.pem"));
    let lines = served.reload();
    assert!(lines[0].contains("Backend default/b: spec.tls.ca: cannot read `none.pem`"), "{lines:#?}");
}
