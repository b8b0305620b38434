//! Which route a request gets: every kind of condition, through a socket.

use crate::setup::{Origin, Proxy};

/// A gateway with these routes, whose backends answer with their names.
struct Routed {
    proxy: Proxy,
    origins: [Origin; 2],
}

impl Routed {
    fn by(routes: &str) -> Routed {
        let origins = [
            Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"),
            Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"),
        ];
        let proxy = Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{routes}]\n\
             backends: {{ a: {{ endpoints: ['{}'] }}, b: {{ endpoints: ['{}'] }} }}",
            origins[0].address, origins[1].address
        ));
        Routed { proxy, origins }
    }

    /// Asks with this start line's beginning and these field lines; the name of the backend that answers, or the error.
    fn check(&self, start: &str, fields: &str, expected: &str) {
        let answer = self.proxy.connect().ask(&format!("{start} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        let found = answer.field("x-weir-error").unwrap_or(&answer.body);
        assert_eq!(found, expected, "{start} {fields:?}");
    }
}

#[test]
fn by_method() {
    let routed =
        Routed::by("{ path: /, methods: [POST, PUT], backend: a }, { path: /x, methods: [GET], backend: b }");
    routed.check("POST /", "Content-Length: 0\r\n", "a");
    routed.check("PUT /x", "Content-Length: 0\r\n", "a");
    routed.check("GET /x", "", "b");
    routed.check("GET /", "", "no_route");
    routed.check("put /", "", "no_route");
}

#[test]
fn by_fields() {
    let routed = Routed::by(
        "{ path: /, headers: { X-Version: '2' }, backend: a },
         { path: /, headers: { x-tenant: { regex: 'blue-[0-9]+' }, cookie: { present: true } }, backend: b },
         { path: /, headers: { accept: { exact: 'text/html, */*' } }, backend: b }",
    );
    routed.check("GET /", "x-version: 2\r\n", "a");
    routed.check("GET /", "x-version: 20\r\n", "no_route");
    routed.check("GET /", "X-Tenant: blue-42\r\nCookie: c=d\r\n", "b");
    routed.check("GET /", "X-Tenant: blue-42\r\n", "no_route");
    routed.check("GET /", "X-Tenant: xblue-42\r\nCookie: c=d\r\n", "no_route");
    routed.check("GET /", "X-Tenant: blue-42\r\nCookie: c=d\r\nX-Version: 2\r\n", "b");
    routed.check("GET /", "Accept: text/html\r\nAccept: */*\r\n", "b");
    routed.check("GET /", "Accept: */*\r\n", "no_route");
}

#[test]
fn by_query() {
    let routed = Routed::by(
        "{ path: /, query: { page size: '10' }, backend: a },
         { path: /, query: { q: { regex: '.+' } }, backend: b },
         { path: /, query: { debug: { present: true } }, backend: a }",
    );
    routed.check("GET /?page+size=%310", "", "a");
    routed.check("GET /?page%20size=10&q=x", "", "a");
    routed.check("GET /?q=&q=x", "", "no_route");
    routed.check("GET /?q=x", "", "b");
    routed.check("GET /?debug", "", "a");
    routed.check("GET /", "", "no_route");
}

#[test]
fn by_regular_expression_of_the_normal_path() {
    let routed = Routed::by(
        "{ regex: '/users/[0-9]+(/.*)?', backend: a, rewrite: /user },
         { regex: '(?i)/static/.*', methods: [GET, HEAD], backend: b }",
    );
    routed.check("GET /users/42?x", "", "a");
    routed.check("GET /x/../users/%34%32/y", "", "a");
    routed.check("GET /users/x", "", "no_route");
    routed.check("GET /Static/logo", "", "b");
    routed.check("POST /static/logo", "", "no_route");
    routed.check("OPTIONS *", "", "no_route");
    let sent = routed.origins[0].requests();
    assert_eq!(sent[0], "GET /user?x HTTP/1.1\r\nHost: h\r\n\r\n", "the whole path is replaced");
}

#[test]
fn conditions_hold_for_each_request_of_a_connection() {
    let routed = Routed::by("{ path: /, headers: { x: '1' }, backend: a }, { path: /, backend: b }");
    let mut client = routed.proxy.connect();
    for turn in 0..10 {
        let (field, expected) = if turn % 2 == 0 { ("x: 1\r\n", "a") } else { ("", "b") };
        assert_eq!(client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n")).body, expected);
    }
}
