//! The request that the upstream gets.

use crate::setup::{Origin, Proxy};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Checks the upstream request for `request` and the route `route`. `{origin}` stands for the address of the upstream.
fn check(route: &str, request: &str, expected: &str) {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{route}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ));
    assert_eq!(proxy.ask(request).body, "ok");
    assert_eq!(origin.requests(), [expected.replace("{origin}", &origin.address.to_string())]);
}

const EVERYTHING: &str = "{ path: /, backend: b }";

#[test]
fn forwards_end_to_end_headers_and_drops_hop_by_hop_ones() {
    check(
        EVERYTHING,
        "GET /a?b=c HTTP/1.1\r\nX-One: 1\r\nConnection: keep-alive, X-Own\r\nhost: Example.com:80\r\nX-Own: 2\r\n\
         Keep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n",
        "GET /a?b=c HTTP/1.1\r\nHost: Example.com:80\r\nX-One: 1\r\nAccept: */*\r\n\r\n",
    );
}

#[test]
fn rewrite_replaces_the_matched_part() {
    check(
        "{ path: /api, backend: b, rewrite: / }",
        "GET /api/x?q=1 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /x?q=1 HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    check(
        "{ exact: [/get/1], backend: b, rewrite: / }",
        "GET /get/1?q HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /?q HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    check(
        "{ path: /, backend: b, rewrite: /v2 }",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    );
}

#[test]
fn converts_absolute_form_to_origin_form() {
    check(
        "{ hosts: [example.com], path: /, backend: b }",
        "GET http://example.com/a?b HTTP/1.1\r\nHost: example.com\r\n\r\n",
        "GET /a?b HTTP/1.1\r\nHost: example.com\r\n\r\n",
    );
}

#[test]
fn other_spelling_of_a_host_does_not_bypass_a_route() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes:\n\
         - {{ hosts: [admin.test], path: /, respond: {{ status: 403 }} }}\n- {{ path: /, backend: b }}\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ));
    let status = |target: &str, host: &str| {
        proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    for host in ["admin.test", "ADMIN.test", "admin.test.", "admin.test.:80"] {
        assert_eq!((status("/", host), status(&format!("http://{host}/"), host)), (403, 403), "{host}");
    }
    for host in
        ["%61dmin.test", "admin%2Etest", "admin.test..", "admin..test", ".admin.test", "admin.test..:80"]
    {
        assert_eq!((status("/", host), status(&format!("http://{host}/"), host)), (400, 400), "{host}");
    }
    assert_eq!(status("/", "other.test"), 200);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn converts_http_1_0_requests_to_http_1_1() {
    check(
        EVERYTHING,
        "GET /a HTTP/1.0\r\nExpect: 100-continue\r\nX: y\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: {origin}\r\nX: y\r\n\r\n",
    );
    check(
        EVERYTHING,
        "GET http://example.com/a HTTP/1.0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n",
    );
}

#[test]
fn does_not_forward_upgrades_to_http2() {
    check(
        EVERYTHING,
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: H2C\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    );
}

#[test]
fn forwards_bodies() {
    check(
        EVERYTHING,
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    );
}

#[test]
fn requests_reuse_upstream_connections() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    for _ in 0..5 {
        assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body, "ok");
    }
    for _ in 0..5 {
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body, "ok");
    }
    assert_eq!(origin.connections(), 1);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.responses, stats.by_status.success), (10, 10, 10));
    assert_eq!((stats.upstream.connects, stats.upstream.reused), (1, 9));
    assert_eq!(stats.listeners["main"].requests, 10);
}

#[test]
fn serves_pipelined_requests_in_order() {
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len()));
        }
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send(
        "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
         GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    );
    let bodies: Vec<String> = (0..3).map(|_| client.response().body).collect();
    assert_eq!(bodies, ["/1", "/2", "/3"]);
    assert!(client.is_closed());
}

#[test]
fn reads_a_request_byte_by_byte() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    for byte in
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n".split("")
    {
        client.send(byte);
    }
    assert_eq!(client.response().body, "ok");
}

#[test]
fn half_closed_client_gets_a_response() {
    let origin = Origin::answering(OK).address;
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0, half_close: true }}]\nworkers: 1\nroutes: [{EVERYTHING}]\n\
         backends: {{ b: {{ endpoints: ['{origin}'] }} }}"
    ));
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.response().body, "ok");
    assert!(client.is_closed());
}

#[test]
fn distributes_requests_evenly() {
    let origins = [Origin::answering(OK), Origin::answering(OK)];
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{EVERYTHING}]\n\
         backends: {{ b: {{ endpoints: ['{}', '{}'] }} }}",
        origins[0].address, origins[1].address
    ));
    let mut client = proxy.connect();
    for _ in 0..10 {
        assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
    }
    assert_eq!(origins.map(|o| o.requests().len()), [5, 5]);
}
