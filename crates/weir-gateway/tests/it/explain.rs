//! `weir-gateway explain`, run as an operator runs it.

use std::process::Command;

const CONFIG: &str = "listeners: [{ address: 127.0.0.1:1 }]
paths: { escaped_slashes: redirect }
routes:
  - { hosts: [shop.test], path: /cart, methods: [GET], rewrite: /v2/cart, backend: shop, name: cart }
  - { hosts: [shop.test], path: /cart, headers: { x-preview: { present: true } }, backend: shop }
backends: { shop: { endpoints: ['127.0.0.1:2'] } }
";

/// Exit code, output and messages.
fn explain(arguments: &[&str]) -> (Option<i32>, String, String) {
    explain_by(CONFIG, arguments)
}

fn explain_by(config: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("gateway.yaml"), config).expect("a configuration file");
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway"))
        .current_dir(dir.path())
        .arg("explain")
        .args(arguments)
        .output()
        .expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn check(arguments: &[&str], expected: &str) {
    let arguments = [&["gateway.yaml"], arguments].concat();
    assert_eq!(explain(&arguments), (Some(0), expected.to_owned(), String::new()), "{arguments:?}");
}

#[test]
fn a_request_is_explained_with_its_backend() {
    check(
        &["GET", "https://SHOP.test/x/../cart?item=1", "-H", "Accept: */*"],
        "path      /cart (requested as /x/../cart)\nroute     routes[0] `cart`\nsent      to backend `shop`:\n          GET /v2/cart?item=1 HTTP/1.1\n          \
         Host: SHOP.test\n          Accept: */*\n\
         skipped   routes[1]: the request has no header `x-preview`; required: any value\n",
    );
}

#[test]
fn a_response_of_the_gateway_is_explained_with_similar_routes() {
    check(
        &["PUT", "http://shop.test/cart/2"],
        "path      /cart/2\nroute     none\nresponse  404 no_route: no route matches this request\n\
         skipped   routes[1]: the request has no header `x-preview`; required: any value\n\
         skipped   routes[0] `cart`: matches only the method `GET`\n",
    );
    check(
        &["GET", "http://shop.test/cart%2f2"],
        "route     none\nresponse  307 escaped_slashes: path contains encoded slashes; follow the redirect\n          \
         Location: /cart/2\n",
    );
}

/// The gateway answers CONNECT with 501, whatever its routes.
#[test]
fn connect_is_explained_like_its_response() {
    for url in ["shop.test:443", "https://shop.test", "http://shop.test/cart"] {
        let output = explain(&["gateway.yaml", "CONNECT", url]).1;
        assert_eq!(
            output, "route     none\nresponse  501 connect_unsupported: CONNECT is not supported\n",
            "{url}"
        );
    }
}

#[test]
fn the_normalized_path_is_shown() {
    let config =
        "listeners: [{ address: 127.0.0.1:1 }]\nroutes: [{ path: /admin, respond: { status: 403 } }]\n";
    let reported = |path: &str| explain_by(config, &["gateway.yaml", "GET", &format!("http://h{path}")]).1;
    for spelling in ["//admin", "/.//admin", "/%61dmin", "/admin;x"] {
        let start = format!("path      /admin (requested as {spelling})\nroute     routes[0]\n");
        assert!(reported(spelling).starts_with(&start), "{}", reported(spelling));
    }
    for spelling in ["/%2fadmin", "/x/..;/admin", "/;/admin", "/%5cadmin"] {
        let start = "route     none\nresponse  400 bad_path: path contains ";
        assert!(reported(spelling).starts_with(start), "{}", reported(spelling));
    }
}

#[test]
fn invalid_arguments_are_reported() {
    let messages_of = |arguments: &[&str]| {
        let (code, _, messages) = explain(arguments);
        assert_eq!(code, Some(2), "{messages}");
        messages
    };
    assert_eq!(
        messages_of(&["gateway.yaml", "GET", "/cart"]),
        "error: the request has no host\n help: write http://HOST/PATH, or add -H 'Host: HOST'\n"
    );
    assert_eq!(
        messages_of(&["gateway.yaml", "GET", "ftp://shop.test/cart"]),
        "error: unsupported URL scheme `ftp`\n help: use http:// or https://\n"
    );
    assert!(messages_of(&["none.yaml", "GET", "h/"]).starts_with("none.yaml: cannot read"));
    assert!(messages_of(&["gateway.yaml", "GET"]).contains("<URL>"));
    assert!(messages_of(&["gateway.yaml", "GET", "h/", "--admin", "127.0.0.1:1"]).contains("--admin"));
}

#[test]
fn a_redirect_depends_on_the_scheme_of_the_url() {
    let config = "listeners: [{ address: 127.0.0.1:1 }]\nroutes: [{ path: /, redirect: { host: b.test } }]\n";
    for (url, location) in [
        ("https://a.test/x", "https://b.test/x"),
        ("HTTPS://a.test", "https://b.test/"),
        ("http://a.test:81/x", "http://b.test:81/x"),
        ("a.test/x", "http://b.test/x"),
    ] {
        let expected = format!(
            "path      {}\nroute     routes[0]\nresponse  from the route:\n          HTTP/1.1 302 Found\n          \
             Location: {location}\n          Content-Length: 0\n",
            if url.ends_with("/x") { "/x" } else { "/" }
        );
        let output = explain_by(config, &["gateway.yaml", "GET", url]);
        assert_eq!(output, (Some(0), expected, String::new()), "{url}");
    }
}

#[test]
fn the_listener_is_chosen_by_port_or_by_name() {
    let config = "listeners: [{ address: 127.0.0.1:80, name: plain }, { address: 127.0.0.1:81 }]
routes:
  - { listeners: [plain], path: /, respond: { status: 201 } }
  - { listeners: ['127.0.0.1:81'], path: /, respond: { status: 202 } }
";
    let status = |arguments: &[&str]| {
        let (code, output, messages) = explain_by(config, &[&["gateway.yaml", "GET"], arguments].concat());
        let status = output.split("HTTP/1.1 ").nth(1).map(|rest| rest[..3].to_owned());
        status.ok_or((code, messages))
    };
    assert_eq!(status(&["http://a.test/"]), Ok("201".to_owned()));
    assert_eq!(status(&["http://a.test:81/"]), Ok("202".to_owned()));
    assert_eq!(status(&["http://a.test/", "--listener", "127.0.0.1:81"]), Ok("202".to_owned()));
    let failed = |message: &str| Err((Some(2), message.to_owned()));
    assert_eq!(
        status(&["http://a.test:82/"]),
        failed(
            "error: several listeners match this URL, and their routes differ\n \
             help: choose one with --listener: `plain`, `127.0.0.1:81`\n"
        )
    );
    assert_eq!(
        status(&["http://a.test/", "--listener", "x"]),
        failed("error: unknown listener `x`\n help: the listeners are: `plain`, `127.0.0.1:81`\n")
    );
    let by_port = status(&["https://a.test:81/"]);
    assert_eq!(
        by_port,
        Ok("202".to_owned()),
        "no listener has TLS, so TLS was terminated before the gateway"
    );
}

#[test]
fn listeners_with_the_same_address_are_chosen_by_name() {
    let config = "listeners: [{ address: 127.0.0.1:0, name: a }, { address: 127.0.0.1:0, name: b }]
routes:
  - { listeners: [a], path: /, respond: { status: 201 } }
  - { listeners: [b], path: /, respond: { status: 202 } }
";
    for (listener, line) in [("a", "HTTP/1.1 201 Created"), ("b", "HTTP/1.1 202 Accepted")] {
        let (_, output, messages) =
            explain_by(config, &["gateway.yaml", "GET", "http://a.test/", "--listener", listener]);
        assert!(output.contains(line), "{output}{messages}");
    }
}
