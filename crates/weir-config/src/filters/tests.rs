//! Valid and rejected filters of a route.

use crate::change::{Batch, Change, Policy};
use crate::matching::RequestView;
use crate::model::Configuration;
use crate::model::Precedence;
use crate::model::Route;
use crate::state::{Applied, State};

/// Applies a configuration that has a route with these fields.
fn apply(fields: &str) -> Applied {
    apply_with(fields, None)
}

/// Like [`apply`], but with this precedence for the route.
fn apply_with(fields: &str, precedence: Option<Precedence>) -> Applied {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:80 }}]\nroutes: [{{ path: /, backend: a }}, {{ path: /x, {fields} }}]\n\
         backends: {{ a: {{ endpoints: [127.0.0.1:1] }}, b: {{ endpoints: [] }} }}\n"
    );
    let mut configuration: Configuration = weir_document::read("test.yaml", &text).unwrap();
    configuration.routes[1].precedence = precedence.map(Box::new);
    let changes = configuration.into_resources().into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes })
}

fn check_refused(fields: &str, problem: &str, remedy: &str) {
    let applied = apply(fields);
    let reported: Vec<_> = applied.refused.iter().map(|(_, p)| (p.to_string(), p.remedy.clone())).collect();
    assert_eq!(reported, [(format!("routes[1]{problem}"), remedy.to_owned())], "{fields}");
    assert!(applied.table.is_none());
}

fn check_form_refused(fields: &str, message: &str) {
    let text = format!("listeners: []\nroutes: [{{ path: /, {fields} }}]\n");
    let error = weir_document::read::<Configuration>("test.yaml", &text).unwrap_err();
    assert!(error.to_string().contains(message), "{fields}: {error}");
}

#[test]
fn rejects_routes_without_exactly_one_action() {
    let remedy = "add `backend`, `backends`, `redirect` or `respond`";
    check_refused("rewrite: /", ": the route has no action", remedy);
    let remedy = "remove one of them";
    check_refused(
        "backend: a, backends: []",
        ".backends: `backend` and `backends` cannot be combined",
        remedy,
    );
    check_refused(
        "redirect: { port: 1 }, respond: {}",
        ".respond: `redirect` and `respond` cannot be combined",
        remedy,
    );
    for (field, value) in [
        ("rewrite", "/"),
        ("request_headers", "{ remove: [a] }"),
        ("compress", "{}"),
        ("mirror", "{ backend: a }"),
        ("timeouts", "{ request: 1s }"),
        ("retries", "{}"),
    ] {
        for (action, of) in [("redirect", "{ scheme: https }"), ("respond", "{}")] {
            check_refused(
                &format!("{action}: {of}, {field}: {value}"),
                &format!(".{field}: no effect with `{action}`: the route sends no requests to a backend"),
                &format!("remove `{field}`"),
            );
        }
    }
}

#[test]
fn rejects_invalid_backends() {
    let remedy = "known backends: a, b";
    check_refused("backend: other", ".backend: unknown backend `other`", remedy);
    check_refused(
        "backends: [{ backend: a }, { backend: other }]",
        ".backends[1].backend: unknown backend `other`",
        remedy,
    );
    check_refused(
        "backend: a, mirror: { backend: other }",
        ".mirror.backend: unknown backend `other`",
        remedy,
    );
    check_refused(
        "backend: a, mirror: { backend: a }",
        ".mirror.backend: the route already sends its requests to this backend",
        "use another backend, or remove `mirror`",
    );
    check_refused(
        "backends: [{ backend: a, weight: 1000001 }]",
        ".backends[0].weight: 1000001 is larger than 1000000",
        "use smaller weights; only their ratio matters",
    );
}

#[test]
fn rejects_invalid_rewrites() {
    let check = |rewrite: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, rewrite: {rewrite}"), &format!(".rewrite{problem}"), remedy);
    };
    check("{}", ": the rewrite changes nothing", "set `host`, `path` or `prefix`");
    check("api", ": `api` does not start with `/`", "write `/api`");
    check("{ path: api }", ".path: `api` does not start with `/`", "write `/api`");
    check(
        "{ prefix: '/a?b' }",
        ".prefix: `/a?b` contains a query; this field matches only the path",
        "write `/a`",
    );
    check(
        "{ path: /, prefix: / }",
        ".prefix: `path` and `prefix` cannot be combined",
        "use `path` to replace the whole path, or `prefix` to replace the matched part",
    );
    let name = "write a name like `example.com`";
    check("{ host: '*.a' }", ".host: `*.a` is a wildcard; a single host name is required", name);
    check("{ host: 'a b' }", ".host: `a b` is not a host name", name);
    let port = "write `a`, or use a port from 1 to 65535";
    check("{ host: 'a:' }", ".host: `a:` has no valid port", port);
    check("{ host: 'a:99999' }", ".host: `a:99999` has no valid port", port);
    check_form_refused("backend: a, rewrite: 5", "a path, or a mapping with `host`, `path` or `prefix`");
    check_form_refused("backend: a, rewrite: { hosts: a }", "unknown field `hosts`");
}

#[test]
fn rejects_invalid_redirects() {
    let check = |redirect: &str, problem: &str, remedy: &str| {
        check_refused(&format!("redirect: {redirect}"), &format!(".redirect{problem}"), remedy);
    };
    let remedy = "set `scheme`, `host`, `port`, `path` or `prefix`";
    check("{ status: 301 }", ": redirect loop: the target is the URL of the request", remedy);
    let statuses = "use 301, 302, 303, 307 or 308";
    check("{ scheme: https, status: 300 }", ".status: 300 is not a redirect status", statuses);
    check("{ scheme: https, status: 200 }", ".status: 200 is not a redirect status", statuses);
    check("{ port: 0 }", ".port: port 0 is not valid", "write a port from 1 to 65535, or remove `port`");
    check(
        "{ host: 'a:80' }",
        ".host: `a:80` contains a port; a host matches on every port",
        "write a name like `example.com`",
    );
    check("{ path: a }", ".path: `a` does not start with `/`", "write `/a`");
    check(
        "{ path: /, prefix: / }",
        ".prefix: `path` and `prefix` cannot be combined",
        "use `path` to replace the whole path, or `prefix` to replace the matched part",
    );
    check_form_refused("redirect: { scheme: ftp }", "ftp");
}

#[test]
fn rejects_invalid_responses() {
    let check = |respond: &str, problem: &str, remedy: &str| {
        check_refused(&format!("respond: {respond}"), &format!(".respond.{problem}"), remedy);
    };
    for status in [0, 199, 600] {
        check(
            &format!("{{ status: {status} }}"),
            &format!("status: status {status} is out of range; allowed: 200 to 599"),
            "remove the field to use the default, 200",
        );
    }
    check(
        "{ status: 204, body: a }",
        "body: a response with status 204 cannot have a body",
        "remove the body",
    );
    check(
        "{ headers: { Date: a } }",
        "headers.Date: the gateway sets this header itself",
        "remove the header",
    );
    check(
        "{ headers: { Content-Length: '1' } }",
        "headers.Content-Length: cannot change `Content-Length`: it describes the body, which the gateway does not change",
        "remove this name",
    );
    check(
        "{ headers: { A: b, a: b } }",
        "headers.a: duplicate header `a`",
        "list each header once; header names ignore case",
    );
}

#[test]
fn rejects_changes_of_connection_and_body_fields() {
    let one_connection =
        "it applies to one connection; the gateway sets it for clients and upstreams separately";
    let length = "it describes the body, which the gateway does not change";
    let refused = |head: &str, change: &str, place: &str, name: &str, reason: &str, remedy: &str| {
        check_refused(
            &format!("backend: a, {head}: {{ {change} }}"),
            &format!(".{head}.{place}: cannot change `{name}`: {reason}"),
            remedy,
        );
    };
    for head in ["request_headers", "response_headers"] {
        for name in ["Connection", "keep-alive", "Proxy-Connection", "TE", "Upgrade"] {
            let (set, remove) = (format!("set: {{ {name}: a }}"), format!("remove: [b, {name}]"));
            refused(head, &set, &format!("set.{name}"), name, one_connection, "remove this name");
            refused(head, &remove, "remove[1]", name, one_connection, "remove this name");
        }
        for name in ["Content-Length", "transfer-encoding", "Trailer"] {
            let add = format!("add: {{ {name}: a }}");
            refused(head, &add, &format!("add.{name}"), name, length, "remove this name");
        }
    }
    let host = "`rewrite` sets the host";
    let remedy = "write `rewrite: { host: NAME }` in the route";
    refused("request_headers", "set: { Host: a }", "set.Host", "Host", host, remedy);
    let expect = "the gateway handles 100-continue itself";
    refused("request_headers", "remove: [expect]", "remove[0]", "expect", expect, "remove this name");
    assert!(apply("backend: a, response_headers: { set: { Host: a } }").table.is_some());
}

#[test]
fn rejects_invalid_header_changes() {
    let check = |change: &str, problem: &str, remedy: &str| {
        check_refused(
            &format!("backend: a, response_headers: {change}"),
            &format!(".response_headers{problem}"),
            remedy,
        );
    };
    check("{}", ": no change is listed", "add `set`, `add` or `remove`");
    let name = "use letters, digits and hyphens, as in `X-Request-Id`";
    check("{ remove: ['a b'] }", ".remove[0]: invalid header name `a b`", name);
    check("{ set: { '': a } }", ".set.: invalid header name ``", name);
    check(
        "{ set: { a: \"b\\r\\nc: d\" } }",
        ".set.a: the value contains a line break or another control character",
        "write one line of text",
    );
    check(
        "{ add: { a: ' b' } }",
        ".add.a: the value starts or ends with whitespace, which HTTP removes",
        "remove the whitespace",
    );
    let twice = "list each header once; header names ignore case";
    check("{ set: { a: b }, add: { A: c } }", ".add.A: duplicate header `A`", twice);
    check("{ set: { a: b }, remove: [A] }", ".remove[0]: duplicate header `A`", twice);
    check("{ remove: [a, a] }", ".remove[1]: duplicate header `a`", twice);
}

#[test]
fn rejects_invalid_cors_policies() {
    let check = |cors: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, cors: {{ {cors} }}"), &format!(".cors.{problem}"), remedy);
    };
    check(
        "origins: []",
        "origins: the list of origins is empty",
        "add `https://app.example.org`, `https://*.example.org` or `*`, or remove `cors`",
    );
    let like = "write it like `https://app.example.org` or `https://*.example.org`";
    check(
        "origins: ['https://a', a.example]",
        "origins[1]: `a.example` is not an origin: it has no scheme",
        like,
    );
    check(
        "origins: ['https://a/']",
        "origins[0]: `https://a/` is not an origin: only a host and a port may follow the scheme",
        like,
    );
    check(
        "origins: ['https://a', '*']",
        "origins[1]: `*` already allows every origin",
        "keep either `*` or the other origins",
    );
    check(
        "origins: ['*'], credentials: true",
        "origins[0]: `*` together with `credentials` would let every website act as the user",
        "list the origins, for example `https://*.example.org`",
    );
    check(
        "origins: ['https://a', 'https://*:8443'], credentials: true",
        "origins[1]: `*` together with `credentials` would let every website act as the user",
        "list the origins, for example `https://*.example.org`",
    );
    assert!(apply("backend: a, cors: { origins: ['https://*'] }").table.is_some());
    check(
        "origins: ['https://a'], methods: [PUT, 'A B']",
        "methods[1]: invalid name `A B`",
        "write one name per list item",
    );
    check(
        "origins: ['https://a'], credentials: true, expose: ['*']",
        "expose: with `credentials`, browsers treat `*` as a literal header name, not as a wildcard",
        "list the header names",
    );
    check(
        "origins: ['https://a'], max_age: 1500ms",
        "max_age: `1500ms` is not a whole number of seconds",
        "write whole seconds, for example `600s`",
    );
}

/// Gateway API allows these values, so checks that apply to configuration files do not apply to manifests.
#[test]
fn manifests_allow_values_that_the_compact_form_rejects() {
    let place = || Some(Precedence { created_s: 0, resource: "default/r".to_owned(), position: (0, 0) });
    for fields in [
        "mirror: { backend: a }",
        "cors: { origins: [] }",
        "cors: { origins: ['*'], credentials: true }",
        "cors: { origins: ['https://*'], credentials: true }",
        "request_headers: { set: { A: b }, add: { a: c }, remove: [A] }",
    ] {
        let fields = format!("backend: a, {fields}");
        assert!(apply(&fields).table.is_none(), "{fields}");
        assert!(apply_with(&fields, place()).table.is_some(), "{fields}");
    }
    for fields in ["cors: { origins: ['https://a', '*'] }", "request_headers: { remove: [a, A] }"] {
        assert!(apply_with(&format!("backend: a, {fields}"), place()).table.is_none(), "{fields}");
    }
}

#[test]
fn rejects_invalid_route_timeouts() {
    let check = |timeouts: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, timeouts: {timeouts}"), &format!(".timeouts{problem}"), remedy);
    };
    check("{}", ": no timeout is set", "set `request`, `backend`, `response`, `body` or `upgraded`");
    let remedy = "remove the field to set no timeout for this route";
    check("{ request: 0s }", ".request: 0s is out of range; allowed: 1ns to 30 days", remedy);
    check("{ backend: 721h }", ".backend: 721h is out of range; allowed: 1ns to 30 days", remedy);
    let remedy = "remove the field to use the value of the gateway";
    check("{ body: 0s }", ".body: 0s is out of range; allowed: 1ns to 30 days", remedy);
    let of_backend =
        "remove the field to use the value of the backend, or of the gateway if the backend has none";
    check("{ response: 0s }", ".response: 0s is out of range; allowed: 1ns to 30 days", of_backend);
    check(
        "{ request: 1s, upgraded: 721h }",
        ".upgraded: 721h is out of range; allowed: 1ns to 30 days",
        remedy,
    );
    check(
        "{ request: 1s, backend: 2s }",
        ".backend: `backend` (2s) is longer than `request` (1s)",
        "make `backend` at most as long as `request`",
    );
    for timeouts in
        ["{ request: 1s, backend: 1s }", "{ response: 720h, body: 1s }", "{ request: 1s, upgraded: 2h }"]
    {
        assert!(apply(&format!("backend: a, timeouts: {timeouts}")).table.is_some(), "{timeouts}");
    }
}

#[test]
fn only_routes_with_filters_get_a_filter_entry() {
    let filters = |fields: &str| {
        let table = apply(fields).table.unwrap();
        let target = table.find(&RequestView::get("h", "/x")).unwrap().target;
        target.filters.map(|position| table.filters()[position as usize].key.clone())
    };
    for plain in ["backend: a", "backend: a, rewrite: /v2", "backend: a, rewrite: { prefix: /v2 }"] {
        assert_eq!(filters(plain), None, "{plain}");
    }
    for filtered in [
        "backends: []",
        "respond: {}",
        "redirect: { port: 1 }",
        "backend: a, rewrite: { host: h }",
        "backend: a, rewrite: { path: / }",
        "backend: a, request_headers: { remove: [a] }",
        "backend: a, response_headers: { remove: [a] }",
        "backend: a, cors: { origins: ['*'] }",
        "backend: a, mirror: { backend: b, share: 10% }",
        "backend: a, timeouts: { backend: 1s }",
    ] {
        assert_eq!(filters(filtered).as_deref(), Some("routes[1]"), "{filtered}");
    }
}

#[test]
fn route_survives_serialization() {
    let text = "{ path: /x, backends: [{ backend: a, weight: 9 }, { backend: b }], rewrite: { host: h, path: / },
        request_headers: { set: { A: b } }, response_headers: { remove: [c] }, mirror: { backend: m, share: 10% },
        cors: { origins: ['*'], max_age: 1h }, timeouts: { request: 10s, backend: 2s } }";
    let route: Route = weir_document::read("test.yaml", text).unwrap();
    let written = serde_json::to_string(&route).unwrap();
    assert_eq!(weir_document::read::<Route>("test.json", &written).unwrap(), route, "{written}");
    let respond: Route =
        weir_document::read("test.yaml", "{ path: /, respond: { body: a }, rewrite: /b }").unwrap();
    let written = serde_json::to_string(&respond).unwrap();
    assert_eq!(written, r#"{"path":"/","respond":{"status":200,"body":"a"},"rewrite":"/b"}"#);
}

#[test]
fn rejects_invalid_retries() {
    let check = |retries: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, retries: {retries}"), &format!(".retries{problem}"), remedy);
    };
    let attempts = "write a number of at most 10 (default: 1), or remove `retries` for no retries";
    check("{ attempts: 0 }", ".attempts: 0 is out of range; allowed: 1 to 10", attempts);
    check("{ attempts: 11 }", ".attempts: 11 is out of range; allowed: 1 to 10", attempts);
    let empty = "remove the field to use the default, `[connect, reset]`, or remove `retries`";
    check("{ on: [] }", ".on: the list is empty: the gateway would retry nothing", empty);
    check("{ on: [reset, reset] }", ".on[1]: duplicate `reset`", "remove one of them");
    check("{ on: [503, '503'] }", ".on[1]: duplicate `503`", "remove one of them");
    check(
        "{ on: [302] }",
        ".on[0]: status 302 is out of range; allowed: 400 to 599",
        "use an error status, for example 503",
    );
    check(
        "{ backoff: 0s }",
        ".backoff: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to use the default, 25ms",
    );
    check_form_refused("backend: a, retries: { on: [5xx] }", "unknown retry condition `5xx`");
    check_form_refused("backend: a, retries: { on: connect }", "a list");
    check_form_refused("backend: a, retries: { attempt: 1 }", "unknown field `attempt`");
}

#[test]
fn counts_requests_only_for_backends_with_retries() {
    let counted = |route: &str| {
        let table = apply(route).table.unwrap();
        table.backends().iter().map(|entry| entry.counts_requests).collect::<Vec<_>>()
    };
    assert_eq!(counted("backend: a"), [false, false]);
    assert_eq!(counted("backend: b, retries: {}"), [false, true]);
    assert_eq!(counted("backends: [{ backend: a }, { backend: b }], retries: {}"), [true, true]);
}

#[test]
fn rejects_invalid_compression() {
    let check = |compress: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, compress: {compress}"), &format!(".compress.{problem}"), remedy);
    };
    check(
        "{ types: [] }",
        "types: the list is empty: the gateway would compress nothing",
        "remove the field to use the default types, or remove `compress`",
    );
    for wrong in ["text", "text/", "/html", "text/html; charset=utf-8", "te xt/html"] {
        check(
            &format!("{{ types: ['text/*', '{wrong}'] }}"),
            &format!("types[1]: `{wrong}` is not a media type"),
            "write it like `application/json` or `text/*`",
        );
    }
    check("{ gzip: 10 }", "gzip: level 10 is out of range; allowed: 1 to 9", "use 5, the default");
    let ahead = "use 4; higher levels are too slow to compress responses on the fly";
    check("{ brotli: 11 }", "brotli: level 11 is out of range; allowed: 1 to 6", ahead);
    let other = "to offer only Brotli, remove `gzip` and set `brotli`";
    check("{ gzip: 0 }", "gzip: level 0 is out of range; allowed: 1 to 9", other);
    check_form_refused("backend: a, compress: { level: 5 }", "unknown field `level`");
    check_form_refused("backend: a, compress: { min_size: 5 }", "has no unit");
    assert!(apply("backend: a, compress: {}").table.is_some());
}
