//! Files that the configuration references: read on start and on SIGHUP.

use std::io::Write as _;

use crate::process::{Gateway, config, connect, origin, response, run};

/// The status of a response to a request with this token.
fn status(gateway: &Gateway, token: &str) -> String {
    let mut stream = connect(gateway.address);
    let request = format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the gateway reads");
    let head = response(&mut stream).expect("an answer");
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_reload_reads_referenced_files_again() {
    let (address, _) = origin();
    let text = config(address).replace("path: /,", "path: /, tokens: tokens.lst,");
    let mut gateway = Gateway::start_with(&text, &[("tokens.lst", "first\n")]);
    assert_eq!((status(&gateway, "first"), status(&gateway, "second")), ("200".to_owned(), "401".to_owned()));
    gateway.write("tokens.lst", "second\n");
    assert_eq!(status(&gateway, "first"), "200", "no reload was requested yet");
    gateway.reload();
    assert_eq!((status(&gateway, "first"), status(&gateway, "second")), ("401".to_owned(), "200".to_owned()));
}

#[test]
fn invalid_referenced_files_are_reported_with_line_and_column() {
    let (address, _) = origin();
    let good = config(address);
    let tls =
        good.replace("127.0.0.1:0 }", "127.0.0.1:0, tls: { certificate: gateway.yaml, key: gateway.yaml } }");
    let expected = "gateway.yaml:1:57: listeners[0].tls.certificate: `gateway.yaml` contains no PEM certificate\n  \
                    help: use a PEM file that starts with -----BEGIN CERTIFICATE-----\n";
    assert_eq!(run(&tls, &["--check"]), (Some(2), expected.to_owned()));
    let (code, messages) = run(&tls.replace("key: gateway.yaml", "key: none.key"), &[]);
    assert_eq!(code, Some(2));
    assert!(messages.contains("listeners[0].tls.key: cannot read `none.key`: No such file"), "{messages}");
}

#[test]
fn invalid_filters_are_reported_with_line_and_column() {
    let (address, _) = origin();
    let good = config(address);
    let redirect = good.replace("path: /, backend: api", "path: /, redirect: { port: 81, status: 200 }");
    let expected = "gateway.yaml:3:51: routes[0].redirect.status: 200 is not a redirect status\n  \
                    help: use 301, 302, 303, 307 or 308\n";
    assert_eq!(run(&redirect, &["--check"]), (Some(2), expected.to_owned()));
    let weights = good.replace("backend: api", "backends: [{ backend: api }, { backend: apy }]");
    let expected = "gateway.yaml:3:61: routes[0].backends[1].backend: unknown backend `apy`\n  \
                    help: did you mean `api`?\n";
    assert_eq!(run(&weights, &["--check"]), (Some(2), expected.to_owned()));
    assert_eq!(run(&weights.replace("apy", "api"), &["--check"]), (Some(0), String::new()));
}
