//! What a configuration may say of a route's filters, and what it is told where it may not.

use super::*;
use crate::change::{Batch, Change, Policy};
use crate::model::Configuration;
use crate::precedence::Precedence;
use crate::state::{Applied, State};
use crate::view::RequestView;

/// A configuration with a route of these fields.
fn apply(fields: &str) -> Applied {
    apply_with(fields, None)
}

/// The same where the route has this place.
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
    let told: Vec<_> =
        applied.refused.iter().map(|(_, p)| (p.to_string(), p.remedy.clone().unwrap_or_default())).collect();
    assert_eq!(told, [(format!("routes[1]{problem}"), remedy.to_owned())], "{fields}");
    assert!(applied.table.is_none());
}

fn check_form_refused(fields: &str, message: &str) {
    let text = format!("listeners: []\nroutes: [{{ path: /, {fields} }}]\n");
    let error = weir_document::read::<Configuration>("test.yaml", &text).unwrap_err();
    assert!(error.to_string().contains(message), "{fields}: {error}");
}

#[test]
fn a_route_does_one_thing() {
    let remedy = "give it a `backend`, several `backends`, a `redirect` or a `respond`";
    check_refused("rewrite: /", ": the route leads nowhere", remedy);
    let remedy = "leave one of them out";
    check_refused("backend: a, backends: []", ".backends: `backend` and `backends` stand together", remedy);
    check_refused(
        "redirect: { port: 1 }, respond: {}",
        ".respond: `redirect` and `respond` stand together",
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
                &format!(".{field}: the route has a `{action}`, so none of its requests goes to a backend"),
                "leave it out",
            );
        }
    }
}

#[test]
fn every_backend_that_is_named_must_be_there() {
    let remedy = "there are: a, b";
    check_refused("backend: other", ".backend: no backend is named `other`", remedy);
    check_refused(
        "backends: [{ backend: a }, { backend: other }]",
        ".backends[1].backend: no backend is named `other`",
        remedy,
    );
    check_refused(
        "backend: a, mirror: { backend: other }",
        ".mirror.backend: no backend is named `other`",
        remedy,
    );
    check_refused(
        "backend: a, mirror: { backend: a }",
        ".mirror.backend: the route's requests go there already",
        "name another backend, or leave `mirror` out",
    );
    check_refused(
        "backends: [{ backend: a, weight: 1000001 }]",
        ".backends[0].weight: 1000001 is more than 1000000",
        "only the weights' ratios count, so write smaller ones",
    );
}

#[test]
fn a_rewrite_says_what_it_replaces() {
    let check = |rewrite: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, rewrite: {rewrite}"), &format!(".rewrite{problem}"), remedy);
    };
    check("{}", ": it rewrites nothing", "say a `host`, a `path` or a `prefix`");
    check("api", ": `api` does not begin with `/`", "write `/api`");
    check("{ path: api }", ".path: `api` does not begin with `/`", "write `/api`");
    check("{ prefix: '/a?b' }", ".prefix: `/a?b` has a query; routes match the path alone", "write `/a`");
    check(
        "{ path: /, prefix: / }",
        ".prefix: `path` and `prefix` stand together",
        "`path` replaces the whole path, `prefix` what the route has matched of it",
    );
    let name = "write a name like `example.com`";
    check("{ host: '*.a' }", ".host: `*.a` is many names, and one is wanted", name);
    check("{ host: 'a b' }", ".host: `a b` is not a host name", name);
    check("{ host: 'a:' }", ".host: `a:` has no port behind its colon", "write `a`, or a port");
    check("{ host: 'a:99999' }", ".host: `a:99999` has no port behind its colon", "write `a`, or a port");
    check_form_refused("backend: a, rewrite: 5", "a path, or `host`, `path` and `prefix`");
    check_form_refused("backend: a, rewrite: { hosts: a }", "unknown field `hosts`");
}

#[test]
fn a_redirect_leads_elsewhere() {
    let check = |redirect: &str, problem: &str, remedy: &str| {
        check_refused(&format!("redirect: {redirect}"), &format!(".redirect{problem}"), remedy);
    };
    let remedy = "say a `scheme`, `host`, `port`, `path` or `prefix`";
    check("{ status: 301 }", ": it leads to where the request came", remedy);
    let statuses = "write 301, 302, 303, 307 or 308";
    check("{ scheme: https, status: 300 }", ".status: 300 is no redirect", statuses);
    check("{ scheme: https, status: 200 }", ".status: 200 is no redirect", statuses);
    check("{ port: 0 }", ".port: nobody can be sent to port 0", "write the port, or leave it out");
    check(
        "{ host: 'a:80' }",
        ".host: `a:80` has a port; hosts match on any port, so leave it out",
        "write a name like `example.com`",
    );
    check("{ path: a }", ".path: `a` does not begin with `/`", "write `/a`");
    check(
        "{ path: /, prefix: / }",
        ".prefix: `path` and `prefix` stand together",
        "`path` replaces the whole path, `prefix` what the route has matched of it",
    );
    check_form_refused("redirect: { scheme: ftp }", "ftp");
}

#[test]
fn an_answer_is_one_that_can_be_sent() {
    let check = |respond: &str, problem: &str, remedy: &str| {
        check_refused(&format!("respond: {respond}"), &format!(".respond.{problem}"), remedy);
    };
    for status in [0, 199, 600] {
        check(
            &format!("{{ status: {status} }}"),
            &format!("status: {status} is not within 200 and 599"),
            "leave it out for 200",
        );
    }
    check("{ status: 204, body: a }", "body: an answer with status 204 has no body", "leave the body out");
    check("{ headers: { Date: a } }", "headers.Date: the gateway writes it itself", "leave it out");
    check(
        "{ headers: { Content-Length: '1' } }",
        "headers.Content-Length: `Content-Length` can't be changed: it says how long the body is, which passes as it comes",
        "leave it out",
    );
    check(
        "{ headers: { A: b, a: b } }",
        "headers.a: `a` stands here twice",
        "name each field once; names ignore case",
    );
}

#[test]
fn fields_of_a_connection_are_left_alone() {
    let one_connection = "it belongs to one connection, of which the gateway has one on each side";
    let length = "it says how long the body is, which passes as it comes";
    let refused = |head: &str, change: &str, place: &str, name: &str, reason: &str, remedy: &str| {
        check_refused(
            &format!("backend: a, {head}: {{ {change} }}"),
            &format!(".{head}.{place}: `{name}` can't be changed: {reason}"),
            remedy,
        );
    };
    for head in ["request_headers", "response_headers"] {
        for name in ["Connection", "keep-alive", "Proxy-Connection", "TE", "Upgrade"] {
            let (set, remove) = (format!("set: {{ {name}: a }}"), format!("remove: [b, {name}]"));
            refused(head, &set, &format!("set.{name}"), name, one_connection, "leave it out");
            refused(head, &remove, "remove[1]", name, one_connection, "leave it out");
        }
        for name in ["Content-Length", "transfer-encoding", "Trailer"] {
            let add = format!("add: {{ {name}: a }}");
            refused(head, &add, &format!("add.{name}"), name, length, "leave it out");
        }
    }
    let host = "it says what the request is for";
    let remedy = "write `rewrite: { host: NAME }` in the route";
    refused("request_headers", "set: { Host: a }", "set.Host", "Host", host, remedy);
    let expect = "it says who of the two sides sends next";
    refused("request_headers", "remove: [expect]", "remove[0]", "expect", expect, "leave it out");
    assert!(apply("backend: a, response_headers: { set: { Host: a } }").table.is_some());
}

#[test]
fn changes_are_of_fields_that_exist() {
    let check = |change: &str, problem: &str, remedy: &str| {
        check_refused(
            &format!("backend: a, response_headers: {change}"),
            &format!(".response_headers{problem}"),
            remedy,
        );
    };
    check("{}", ": it changes nothing", "say what to `set`, `add` or `remove`");
    let name = "write letters, digits and hyphens, as in `X-Request-Id`";
    check("{ remove: ['a b'] }", ".remove[0]: `a b` is not the name of a field", name);
    check("{ set: { '': a } }", ".set.: `` is not the name of a field", name);
    check(
        "{ set: { a: \"b\\r\\nc: d\" } }",
        ".set.a: the value has a line's end or another control character",
        "write one line of text",
    );
    check(
        "{ add: { a: ' b' } }",
        ".add.a: the value begins or ends with white space, which no reader gets",
        "leave it out",
    );
    let twice = "name each field once; names ignore case";
    check("{ set: { a: b }, add: { A: c } }", ".add.A: `A` stands here twice", twice);
    check("{ set: { a: b }, remove: [A] }", ".remove[0]: `A` stands here twice", twice);
    check("{ remove: [a, a] }", ".remove[1]: `a` stands here twice", twice);
}

#[test]
fn cors_lets_nobody_in_by_mistake() {
    let check = |cors: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, cors: {{ {cors} }}"), &format!(".cors.{problem}"), remedy);
    };
    check(
        "origins: []",
        "origins: no page of another origin is let in",
        "write `https://app.example.org`, `https://*.example.org` or `*`, or leave `cors` out",
    );
    let like = "write it like `https://app.example.org` or `https://*.example.org`";
    check(
        "origins: ['https://a', a.example]",
        "origins[1]: `a.example` is not an origin: it has no scheme",
        like,
    );
    check(
        "origins: ['https://a/']",
        "origins[0]: `https://a/` is not an origin: behind the scheme stand a host and a port alone",
        like,
    );
    check(
        "origins: ['https://a', '*']",
        "origins[1]: `*` has all origins, and there are others beside it",
        "keep one of the two",
    );
    check(
        "origins: ['*'], credentials: true",
        "origins[0]: with `credentials`, every page could act for whoever looks at it",
        "name the origins, as in `https://*.example.org`",
    );
    check(
        "origins: ['https://a', 'https://*:8443'], credentials: true",
        "origins[1]: with `credentials`, every page could act for whoever looks at it",
        "name the origins, as in `https://*.example.org`",
    );
    assert!(apply("backend: a, cors: { origins: ['https://*'] }").table.is_some());
    check(
        "origins: ['https://a'], methods: [PUT, 'A B']",
        "methods[1]: `A B` is not a name",
        "write one name in each place of the list",
    );
    check(
        "origins: ['https://a'], credentials: true, expose: ['*']",
        "expose: with `credentials`, browsers take `*` for a field of that name",
        "name the fields",
    );
    check(
        "origins: ['https://a'], max_age: 1500ms",
        "max_age: 1500ms is no whole number of seconds",
        "write it in seconds, as in `600s`",
    );
}

/// Whoever writes for Gateway API has other rules to go by.
#[test]
fn manifests_may_say_what_the_compact_form_takes_for_mistakes() {
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
fn a_routes_time_limits_can_be_kept() {
    let check = |timeouts: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, timeouts: {timeouts}"), &format!(".timeouts{problem}"), remedy);
    };
    check(
        "{}",
        ": it bounds nothing",
        "say a time for `request`, `backend`, `response`, `body` or `upgraded`",
    );
    let remedy = "leave it out for none of the route's own";
    check("{ request: 0s }", ".request: 0s is not within 1ns and 30 days", remedy);
    check("{ backend: 721h }", ".backend: 721h is not within 1ns and 30 days", remedy);
    let remedy = "leave it out for that of the gateway";
    check("{ body: 0s }", ".body: 0s is not within 1ns and 30 days", remedy);
    let of_backend = "leave it out for that of the backend or the gateway";
    check("{ response: 0s }", ".response: 0s is not within 1ns and 30 days", of_backend);
    check("{ request: 1s, upgraded: 721h }", ".upgraded: 721h is not within 1ns and 30 days", remedy);
    check(
        "{ request: 1s, backend: 2s }",
        ".backend: 2s is longer than the 1s that the whole request has",
        "make it as long as `request` at most",
    );
    for timeouts in
        ["{ request: 1s, backend: 1s }", "{ response: 720h, body: 1s }", "{ request: 1s, upgraded: 2h }"]
    {
        assert!(apply(&format!("backend: a, timeouts: {timeouts}")).table.is_some(), "{timeouts}");
    }
}

#[test]
fn only_routes_that_want_something_have_filters() {
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
fn what_is_written_is_what_was_read() {
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
fn retries_say_what_is_tried_again_and_how_often() {
    let check = |retries: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, retries: {retries}"), &format!(".retries{problem}"), remedy);
    };
    let attempts = "leave it out for 1, or leave `retries` out for none";
    check("{ attempts: 0 }", ".attempts: 0 is not within 1 and 10", attempts);
    check("{ attempts: 11 }", ".attempts: 11 is not within 1 and 10", attempts);
    let empty = "leave it out for `[connect, reset]`, or leave `retries` out";
    check("{ on: [] }", ".on: the list is empty, so nothing is sent again", empty);
    check("{ on: [reset, reset] }", ".on[1]: `reset` stands twice", "keep one of the two");
    check("{ on: [503, '503'] }", ".on[1]: `503` stands twice", "keep one of the two");
    check("{ on: [302] }", ".on[0]: 302 is not within 400 and 599", "write the status of a failure");
    check("{ backoff: 0s }", ".backoff: 0s is not within 1ns and 30 days", "leave it out for 25ms");
    check_form_refused("backend: a, retries: { on: [5xx] }", "`5xx` is nothing that is tried again");
    check_form_refused("backend: a, retries: { on: connect }", "a list");
    check_form_refused("backend: a, retries: { attempt: 1 }", "unknown field `attempt`");
}

#[test]
fn requests_are_counted_only_where_something_depends_on_it() {
    let counted = |route: &str| {
        let table = apply(route).table.unwrap();
        table.backends().iter().map(|entry| entry.counts_requests).collect::<Vec<_>>()
    };
    assert_eq!(counted("backend: a"), [false, false]);
    assert_eq!(counted("backend: b, retries: {}"), [false, true]);
    assert_eq!(counted("backends: [{ backend: a }, { backend: b }], retries: {}"), [true, true]);
}

#[test]
fn compression_says_what_of_and_how() {
    let check = |compress: &str, problem: &str, remedy: &str| {
        check_refused(&format!("backend: a, compress: {compress}"), &format!(".compress.{problem}"), remedy);
    };
    check(
        "{ types: [] }",
        "types: the list is empty, so nothing is compressed",
        "leave it out for the usual types, or leave `compress` out",
    );
    for wrong in ["text", "text/", "/html", "text/html; charset=utf-8", "te xt/html"] {
        check(
            &format!("{{ types: ['text/*', '{wrong}'] }}"),
            &format!("types[1]: `{wrong}` is no media type"),
            "write one like `application/json` or `text/*`",
        );
    }
    check("{ gzip: 10 }", "gzip: 10 is not within 1 and 9", "5 is usual");
    let ahead = "higher levels are for files that are compressed ahead; 4 is usual";
    check("{ brotli: 11 }", "brotli: 11 is not within 1 and 6", ahead);
    let other = "leave it out, and say a level for the other coding alone";
    check("{ gzip: 0 }", "gzip: 0 is not within 1 and 9", other);
    check_form_refused("backend: a, compress: { level: 5 }", "unknown field `level`");
    check_form_refused("backend: a, compress: { min_size: 5 }", "has no unit");
    assert!(apply("backend: a, compress: {}").table.is_some());
}
