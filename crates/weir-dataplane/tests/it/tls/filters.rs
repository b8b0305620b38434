//! Filters with TLS: redirects keep the scheme, and copies reach a TLS mirror.

use super::authority::Authority;
use super::origin::SecureOrigin;
use super::{GET, OK, address};
use crate::setup::{Origin, Proxy};

#[test]
fn redirect_keeps_the_scheme_of_the_client() {
    let ca = Authority::new("ca");
    let leaf = ca.signs(&["a.test"]);
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let text = "listeners: [{ address: 127.0.0.1:0, tls: { certificate: a.pem, key: a.key } }]\nworkers: 1\n\
                routes: [{ path: /, redirect: { host: b.test } }, { path: /plain, redirect: { scheme: http } }]\n";
    let proxy = Proxy::with_files(text, &files);
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    for (request, location) in [
        ("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n", "https://b.test/x"),
        ("GET /x HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "https://b.test/x"),
        ("GET /x HTTP/1.1\r\nHost: a.test:8443\r\n\r\n", "https://b.test:8443/x"),
        ("GET /plain HTTP/1.1\r\nHost: a.test:8443\r\n\r\n", "http://a.test/plain"),
    ] {
        let answer = client.ask(request);
        assert_eq!((answer.status, answer.field("location")), (302, Some(location)));
    }
}

#[test]
fn mirrors_requests_over_tls() {
    let ca = Authority::new("ca");
    let (origin, mirror) =
        (Origin::answering(OK), SecureOrigin::answering(&ca.signs(&["up.test"]), None, OK));
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b, mirror: {{ backend: m }} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }}, m: {{ endpoints: ['{}'], tls: {{ ca: ca.pem, sni: up.test }} }} }}\n",
        origin.address, mirror.address
    );
    let proxy = Proxy::with_files(&text, &[("ca.pem", &ca.pem())]);
    assert_eq!(proxy.ask(GET).body, "ok");
    proxy.wait_for("the copy", |stats| stats.upstream.handshakes == 1);
    let copied = || mirror.seen().iter().map(|seen| seen.requests.len()).sum::<usize>();
    while copied() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(copied(), 1);
    assert_eq!(proxy.gateway.stats().upstream.mirror.failures, 0);
}
