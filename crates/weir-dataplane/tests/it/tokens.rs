//! Routes that require a bearer token.

use crate::setup::{Answer, Origin, Proxy};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn gateway(origin: &Origin) -> Proxy {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /open, backend: b }}, {{ path: /shut, backend: b, tokens: t.lst }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\nlimits: {{ body: 4B }}\n",
        origin.address
    );
    Proxy::with_files(&text, &[("t.lst", "first\nse.co-nd~==\n")])
}

fn ask(proxy: &Proxy, method: &str, path: &str, fields: &str) -> Answer {
    let mut client = proxy.connect();
    client.send(&format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    if method == "HEAD" { client.head() } else { client.response() }
}

#[test]
fn accepts_requests_with_a_known_token() {
    let origin = Origin::answering(OK);
    let proxy = gateway(&origin);
    for field in ["Bearer first", "bearer first", "BEARER  se.co-nd~==", "Bearer first  "] {
        let answer = ask(&proxy, "GET", "/shut/x", &format!("Authorization: {field}\r\n"));
        assert_eq!(answer.body, "ok", "{field:?}");
    }
    assert!(origin.requests().iter().all(|r| r.to_ascii_lowercase().contains("authorization: bearer ")));
    assert_eq!(ask(&proxy, "GET", "/open", "").body, "ok");
}

#[test]
fn rejects_other_requests_with_the_cause() {
    let origin = Origin::answering(OK);
    let proxy = gateway(&origin);
    let check = |fields: &str, cause: &str, challenge: &str| {
        let answer = ask(&proxy, "GET", "/shut", fields);
        assert_eq!(answer.error(), (401, cause), "{fields:?}");
        assert_eq!(answer.field("www-authenticate"), Some(challenge), "{fields:?}");
        assert_eq!(answer.field("connection"), None, "the connection stays open");
    };
    for fields in [
        "",
        "Authorization: first\r\n",
        "Authorization: Basic first\r\n",
        "Authorization: Bearerfirst\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: \r\n",
        "X-Authorization: Bearer first\r\n",
        "Authorization: Bearer first\r\nAuthorization: Bearer first\r\n",
    ] {
        check(fields, "no_token", "Bearer");
    }
    for token in ["third", "FIRST", "firs", "first second", "first,", "se.co-nd~="] {
        check(
            &format!("Authorization: Bearer {token}\r\n"),
            "unknown_token",
            "Bearer error=\"invalid_token\"",
        );
    }
    assert_eq!((proxy.errors("no_token"), proxy.errors("unknown_token")), (8, 6));
    assert_eq!(ask(&proxy, "HEAD", "/shut", "").error(), (401, "no_token"));
    assert_eq!(ask(&proxy, "GET", "/none", "").error(), (404, "no_route"), "no route, no token");
    let post = ask(&proxy, "POST", "/shut", "Content-Length: 9\r\n");
    assert_eq!(post.error(), (401, "no_token"), "the token is checked before the body limit");
    assert_eq!(post.field("connection"), Some("close"), "the gateway does not read the body");
    assert_eq!(origin.requests().len(), 0);
}
