//! Certificates in secrets, and TLS that is passed on.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::served::{Served, ask, backend, echo, exchange, free_port, gateway, route, whole, write};

/// An authority that clients know, also as a file.
pub(super) struct Trust {
    roots: RootCertStore,
    pem: String,
}

/// An authority, and certificates for these names, each with its key.
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

/// The answer over TLS to a client that asks for `name` and knows these authorities.
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

fn secret(name: &str, (certificate, key): &(String, String), is_encoded: bool) -> String {
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
fn certificates_stand_in_secrets_and_come_into_force_with_them() {
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
    // A key that does not fit is told of its manifest, and what was before stays.
    write(served.dir.path(), "shop.yaml", &secret("shop", &(renewed[0].0.clone(), pairs[0].1.clone()), true));
    let lines = served.reload();
    let told = "gateway.yaml:13:97: Gateway default/edge: spec.listeners[0].tls.certificateRefs[0]: \
                `Secret default/shop tls.key` is not the key of `Secret default/shop tls.crt`";
    assert!(lines[0].ends_with(told), "{lines:#?}");
    assert!(ask_secure(address, &others, "shop.test", "GET /\r\nHost: shop.test\r\n").is_ok());
}

#[test]
fn tls_is_passed_on_to_who_has_the_key() {
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

#[test]
fn a_backend_may_speak_tls() {
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
    assert!(lines[0].contains("Backend default/b: spec.tls.ca: `none.pem` cannot be read"), "{lines:#?}");
}
