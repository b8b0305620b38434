//! Redirect filters of HTTPRoutes. The Gateway has listeners on several ports.

use super::served::{Served, ask, backend, echo, free_port, gateway, route, to};
use super::tls::{ask_secure, certificates, secret};

/// Status and `Location` of a response.
fn status_and_location(answer: &str) -> (&str, &str) {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    (status, location.unwrap_or_default())
}

#[test]
fn a_redirect_defaults_to_the_listener() {
    let ip = "127.7.10.1";
    let ports = [free_port(ip), free_port(ip)];
    let secure = free_port(ip);
    let (trust, pairs) = certificates(&["shop.test"]);
    let listeners = format!(
        "    - {{ name: one, port: {}, protocol: HTTP }}
    - {{ name: other, port: {}, protocol: HTTP }}
    - {{ name: https, port: {secure}, protocol: HTTPS, tls: {{ certificateRefs: [{{ name: s }}] }} }}",
        ports[0], ports[1]
    );
    // Each case: a redirect of paths below `/old`, its status, and its URL. `OWN` is the listener's own address.
    let cases = [
        ("", "302", "OWN/old/a?b=c"),
        ("statusCode: 308", "308", "OWN/old/a?b=c"),
        ("hostname: other.test", "302", "http://other.test:PORT/old/a?b=c"),
        ("scheme: https, statusCode: 301", "301", "https://shop.test/old/a?b=c"),
        ("scheme: http", "302", "http://shop.test/old/a?b=c"),
        ("scheme: https, port: 8443", "302", "https://shop.test:8443/old/a?b=c"),
        ("port: 8080, statusCode: 303", "303", "http://shop.test:8080/old/a?b=c"),
        ("port: 80, statusCode: 307", "307", "http://shop.test/old/a?b=c"),
        ("path: { type: ReplaceFullPath, replaceFullPath: /new }", "302", "OWN/new?b=c"),
        ("path: { type: ReplacePrefixMatch, replacePrefixMatch: /new }", "302", "OWN/new/a?b=c"),
        ("path: { type: ReplacePrefixMatch, replacePrefixMatch: '' }", "302", "OWN/a?b=c"),
    ];
    let rules = cases.iter().enumerate().map(|(number, (redirect, ..))| {
        format!(
            "    - {{ matches: [{{ path: {{ value: /old }}, headers: [{{ name: X-Case, value: '{number}' }}] }}],
        filters: [{{ type: RequestRedirect, requestRedirect: {{ {redirect} }} }}] }}\n"
        )
    });
    let spec = format!("  rules:\n{}", rules.collect::<String>());
    let all = [gateway(ip, &listeners), route("r", "", &spec), secret("s", &pairs[0], true)].concat();
    let served = Served::start(&[("all.yaml", &all)]);
    let addresses = served.gateway.addresses();
    let at = |port: u16| *addresses.iter().find(|address| address.port() == port).expect("it listens");
    for (number, (redirect, status, url)) in cases.into_iter().enumerate() {
        // The port in `Host` must not matter, only the listener's port.
        let request = format!("GET /old/a?b=c\r\nHost: shop.test:9\r\nX-Case: {number}\r\n");
        for port in ports {
            let expected = url.replace("OWN", "http://shop.test:PORT").replace("PORT", &port.to_string());
            let answer = ask(at(port), &request);
            assert_eq!(status_and_location(&answer), (status, expected.as_str()), "{redirect} at {port}");
        }
    }
    let request = "GET /old/a\r\nHost: shop.test\r\nX-Case: 0\r\n";
    let answer = ask_secure(at(secure), &trust, "shop.test", request).expect("TLS");
    assert_eq!(status_and_location(&answer), ("302", format!("https://shop.test:{secure}/old/a").as_str()));
}

#[test]
fn settings_without_effect_on_a_redirect_are_allowed() {
    let spec = format!(
        "  rules:
    - timeouts: {{ request: 1s }}
      filters:
        - {{ type: RequestRedirect, requestRedirect: {{ hostname: other.test, port: 80 }} }}
        - {{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{{ name: X-A, value: b }}] }} }}
        - {{ type: RequestMirror, requestMirror: {{ backendRef: {} }} }}
        - {{ type: ResponseHeaderModifier, responseHeaderModifier: {{ set: [{{ name: X-Told, value: 'yes' }}] }} }}",
        to("a")
    );
    let (_served, address) = Served::at("127.7.10.2", &[backend("a", echo("a")), route("r", "", &spec)]);
    let answer = ask(address, "GET /x\r\nHost: h\r\n");
    assert_eq!(status_and_location(&answer), ("302", "http://other.test/x"));
    assert!(answer.lines().any(|line| line == "X-Told: yes"), "{answer}");
}
