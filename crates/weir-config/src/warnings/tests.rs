//! Warnings for valid configurations that are probably mistakes.

use std::collections::BTreeMap;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;
use crate::change::{Batch, Change, Key, Policy, Resource};
use crate::model::Configuration;

/// 2026-03-01 in seconds since 1970.
const NOW_S: u64 = 1_772_323_200;

const HEAD: &str = "listeners: [{ address: 127.0.0.1:1 }]\nbackends: { a: { endpoints: ['127.0.0.1:2'] } }\n";

/// A certificate for these names, valid until this month and day of 2026.
fn pair(names: &[&str], until: (u8, u8)) -> (String, String) {
    let mut params =
        CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
    (params.not_before, params.not_after) =
        (date_time_ymd(2026, 1, 1), date_time_ymd(2026, until.0, until.1));
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn warnings(text: &str, files: &BTreeMap<&str, String>, now_s: u64) -> Vec<String> {
    let configuration: Configuration = weir_document::read("test.yaml", text).unwrap();
    let put = |(name, content): (&&str, &String)| {
        Change::Put(Key::File((*name).to_owned()), Resource::File(content.clone().into_bytes().into()))
    };
    let resources =
        configuration.into_resources().into_iter().map(|(key, resource)| Change::Put(key, resource));
    let changes = resources.chain(files.iter().map(put)).collect();
    let mut state = State::default();
    let applied = state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    let table = applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused));
    let found = state.warnings(&table, now_s);
    assert!(found.iter().all(|problem| !problem.remedy.is_empty()), "{found:?}");
    found.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(warnings(text, &BTreeMap::new(), NOW_S), expected, "{text}");
}

/// Checks the warnings about these routes, which all forward to backend `a`.
#[track_caller]
fn check_routes(routes: &[&str], expected: &[&str]) {
    let routes: String = routes.iter().map(|route| format!("  - {{ {route}, backend: a }}\n")).collect();
    check(&format!("{HEAD}routes:\n{routes}"), expected);
}

#[test]
fn does_not_warn_about_intended_configurations() {
    check_routes(&["path: /"], &[]);
    check_routes(&["path: /a", "exact: [/a, /a/b]", "path: /a, methods: [GET]", "path: /"], &[]);
    check_routes(&["path: /, hosts: [b.test]", "path: /, hosts: ['*.test']", "path: /"], &[]);
    check_routes(&["path: /, methods: [GET]", "path: /, headers: { x: '1' }"], &[]);
    check_routes(&["path: /, headers: { x: '1' }", "path: /, headers: { x: { present: true } }"], &[]);
    check_routes(&["regex: '/a/[0-9]+'", "path: /", "path: /a/b", "path: /a, methods: [POST]"], &[]);
    check_routes(&["regex: '/a/[0-9]+', hosts: [b.test]", "path: /a"], &[]);
    check_routes(&["regex: '/a/[0-9]+', hosts: [b.test, c.test]", "path: /a, hosts: [b.test]"], &[]);
}

#[test]
fn warns_about_rules_that_another_spelling_of_the_path_bypasses() {
    let check = |rules: &str, routes: &[&str], expected: &[String]| {
        let routes: String = routes.iter().map(|route| format!("  - {{ {route} }}\n")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&format!("{HEAD}paths: {{ {rules} }}\nroutes:\n{routes}"), &expected);
    };
    let reported = |place: &str, spelling: &str, other: &str, readers: &str, path: &str| {
        format!(
            "{place}: requests for `{spelling}` bypass this route and match {other}, but {readers} read the path as `{path}`"
        )
    };
    const NGINX: &str = "nginx, Tomcat and others";
    const TOMCAT: &str = "Tomcat and other servlet containers";
    const EXPRESS: &str = "Express, Spring before version 6 and others";
    let refused = ["path: /admin, respond: { status: 403 }", "path: /, backend: a"];
    check("", &refused, &[]);
    check(
        "merge_slashes: false",
        &refused,
        &[reported("routes[0].path", "//admin", "routes[1]", NGINX, "/admin")],
    );
    let escaped = reported("routes[0].path", "/%2Fadmin", "routes[1]", "nginx and others", "/admin");
    check("escaped_slashes: keep", &refused, &[escaped]);
    check("escaped_slashes: redirect, path_parameters: strip", &refused, &[]);
    let dots = reported("routes[0].path", "/x/..;/admin", "routes[1]", TOMCAT, "/admin");
    check("path_parameters: keep", &refused, &[dots]);
    // Here only one spelling reaches the backend: `/x;x`, with a parameter after the last segment.
    let inner = [
        "path: /x, respond: { status: 403 }",
        "path: /, respond: { status: 404 }",
        "exact: /x;x, backend: a",
    ];
    check("path_parameters: keep", &inner, &[reported("routes[0].path", "/x;x", "routes[2]", TOMCAT, "/x")]);
    let exact = [
        "exact: [/a, /b], hosts: ['*.test'], methods: [PUT], respond: { status: 404 }",
        "path: /, backend: a",
    ];
    check("", &exact, &[reported("routes[0].exact", "/a/", "routes[1]", EXPRESS, "/a")]);
    // Three cases without a warning. First: no other route matches the spelling. Second: the rule rejects no requests.
    // Third: the route that matches the spelling does not forward requests.
    check("merge_slashes: false", &["path: /admin, respond: { status: 403 }", "path: /b, backend: a"], &[]);
    check("merge_slashes: false", &["path: /admin, respond: { status: 200 }", "path: /, backend: a"], &[]);
    check(
        "merge_slashes: false",
        &["path: /a, respond: { status: 403 }", "path: /, respond: { status: 200 }", "exact: /b, backend: a"],
        &[],
    );
    // The path of the rule is below the path of another route. Each of these settings allows one spelling that bypasses
    // the rule.
    let below = [
        "path: /a/admin, respond: { status: 403 }",
        "path: /a, backend: a",
        "path: /, respond: { status: 404 }",
    ];
    for (rules, spelling, readers) in [
        ("merge_slashes: false", "/a//admin", NGINX),
        ("escaped_slashes: keep", "/a/%2Fadmin", "nginx and others"),
        ("path_parameters: keep", "/a/x/..;/admin", TOMCAT),
    ] {
        check(rules, &below, &[reported("routes[0].path", spelling, "routes[1]", readers, "/a/admin")]);
    }
    // The other route's path is beside the rule's path (`/a/b` beside `/admin`) or below it (`/admin/public`). The
    // spelling that bypasses the rule starts with the other route's path, and goes up with `..`.
    let beside = ["path: /admin, respond: { status: 403 }", "path: /a/b, backend: a"];
    let up = reported("routes[0].path", "/a/b/..;/..;/admin", "routes[1]", TOMCAT, "/admin");
    check("path_parameters: keep", &beside, &[up]);
    let public = ["path: /admin, respond: { status: 403 }", "path: /admin/public, backend: a"];
    let up = reported("routes[0].path", "/admin/public/..;/..;/admin", "routes[1]", TOMCAT, "/admin");
    check("path_parameters: keep", &public, &[up]);
    let several = [refused[0], "path: /b, respond: { status: 403 }", "path: /, backend: a"];
    let more =
        reported("routes[0].path", "//admin", "routes[2]", NGINX, "/admin") + "; the same for 1 more route";
    check("merge_slashes: false", &several, &[more]);
}

#[test]
fn warns_about_bypassed_rules_per_host_listener_and_method() {
    let head = HEAD.replace(
        "[{ address: 127.0.0.1:1 }]",
        "[{ address: 127.0.0.1:1 }, { address: 127.0.0.1:3, name: in }]",
    );
    let check = |routes: &[&str], by: &str, other: usize| {
        let routes: String = routes.iter().map(|route| format!("  - {{ {route} }}\n")).collect();
        let text = format!("{head}paths: {{ merge_slashes: false }}\nroutes:\n{routes}");
        let expected = format!(
            "routes[0].path: requests for `//admin` bypass this route{by} and match routes[{other}], but nginx, Tomcat \
             and others read the path as `/admin`"
        );
        assert_eq!(warnings(&text, &BTreeMap::new(), NOW_S), [expected], "{text}");
    };
    let rule = "path: /admin, respond: { status: 403 }";
    let lax = "regex: '//.*', backend: a";
    check(&[rule, &format!("hosts: [a.test], {lax}")], " (host `a.test`)", 1);
    check(
        &[&format!("hosts: ['*.test'], {rule}"), &format!("hosts: [a.test], {lax}")],
        " (host `a.test`)",
        1,
    );
    check(
        &[&format!("hosts: [a.test, b.test], {rule}"), "hosts: [b.test], path: /, backend: a"],
        " (host `b.test`)",
        1,
    );
    check(&[rule, "listeners: [in], path: /, backend: a"], " (listener `in`)", 1);
    check(&[rule, "methods: [POST], path: /, backend: a"], " (method `POST`)", 1);
    check(
        &[
            &format!("methods: [PUT, POST], {rule}"),
            "methods: [POST], hosts: [b.test], regex: '//.*', backend: a",
        ],
        " (host `b.test`, method `POST`)",
        1,
    );
}

#[test]
fn warns_about_routes_that_never_match() {
    check_routes(
        &["path: /, headers: { x: { present: true } }", "path: /, headers: { x: '1' }"],
        &["routes[1]: this route never matches: routes[0] matches all of its requests first"],
    );
    check_routes(
        &["path: /, query: { x: { regex: '[0-9]+' } }, name: digits", "path: /, query: { x: '17' }"],
        &["routes[1]: this route never matches: routes[0] `digits` matches all of its requests first"],
    );
    let below = "matches all paths below `/a`, and a prefix wins over a regular expression";
    check_routes(
        &["regex: '/a/b/[0-9]+'", "path: /a/"],
        &[&format!("routes[0].regex: this route never matches: routes[1] {below}")],
    );
    check_routes(
        &[
            "regex: '/a/[0-9]+', hosts: [b.test], methods: [GET]",
            "path: /a, hosts: [B.test], methods: [GET, PUT]",
        ],
        &[&format!("routes[0].regex: this route never matches: routes[1] {below}")],
    );
    check_routes(&["regex: 'a/.*'"], &["routes[0].regex: the regex matches no path: paths start with `/`"]);
}

#[test]
fn warns_about_dropped_fields_and_fields_that_clients_set() {
    let dropped = "the gateway drops the request header";
    check_routes(
        &["path: /, headers: { x_a: '1' }", "path: /b, headers: { X-A: '1', proxy: '2' }"],
        &[
            &format!("routes[0].headers.x_a: {dropped} `x_a`, so the header is always missing"),
            &format!("routes[1].headers.proxy: {dropped} `proxy`, so the header is always missing"),
        ],
    );
    let routes = "routes: [{ path: /, backend: a, headers: { x_a: '1' } }]\n";
    check(&format!("{HEAD}{routes}underscores_in_headers: true\n"), &[]);
    let hashed = |header: &str| {
        let backend = format!("endpoints: ['127.0.0.1:2'], balance: {{ hash: {{ header: {header} }} }}");
        HEAD.replace("endpoints: ['127.0.0.1:2']", &backend) + "routes: [{ path: /, backend: a }]\n"
    };
    let place = "backends.a.balance.hash.header";
    check(&hashed("X-User"), &[]);
    check(&hashed("x.user"), &[&format!("{place}: {dropped} `x.user`, so the header is always missing")]);
    let message = "is hashed as the client sends it, so clients can choose their endpoint";
    check(&hashed("X-Forwarded-For"), &[&format!("{place}: `X-Forwarded-For` {message}")]);
}

#[test]
fn warns_about_missing_routes_and_endpoints() {
    check(
        "listeners: [{ address: 127.0.0.1:1 }]\n",
        &["routes: no route is configured: every request gets 404"],
    );
    check(
        &HEAD
            .replace("a: ", "b: { endpoints: [] }, c: { endpoints: [] }, a: ")
            .replace("backends", "routes: [{ path: /, backend: a, mirror: { backend: b } }]\nbackends"),
        &[
            "backends.c: no route uses this backend",
            "backends.b.endpoints: the list is empty: requests for this backend get 503",
        ],
    );
    check(
        &format!("{HEAD}routes: [{{ path: /, backends: [{{ backend: a, weight: 0 }}] }}]\n"),
        &["routes[0].backends: all weights are 0: every request gets 500"],
    );
    let weightless = |more: &str, expected: &[&str]| {
        let idle = "{ address: '127.0.0.1:2', weight: 0 }, { address: 'a.test:2', weight: 0 }";
        let backends = format!("endpoints: [{idle}]{more} }} }}\nroutes: [{{ path: /, backend: a }}]\n");
        check(&HEAD.replace("endpoints: ['127.0.0.1:2'] } }\n", &backends), expected);
    };
    let none = "backends.a.endpoints: all weights are 0: requests for this backend get 503";
    weightless("", &[none]);
    weightless(
        ", balance: { sticky: { cookie: at } }",
        &[&format!("{none}, except requests with a valid sticky cookie")],
    );
    check(
        &format!("{HEAD}routes: [{{ path: /, backend: a }}]\n")
            .replace("['127.0.0.1:2']", "[{ address: '127.0.0.1:2', weight: 0 }, '127.0.0.1:3']"),
        &[],
    );
    check_routes(
        &["path: /, methods: [GET], cors: { origins: ['*'] }"],
        &[
            "routes[0].methods: `cors` requires OPTIONS for preflight requests, but the route does not match OPTIONS",
        ],
    );
}

#[test]
fn warns_about_plain_text_on_public_addresses() {
    let (certificate, key) = pair(&["a.test"], (12, 31));
    let files = BTreeMap::from([("a.pem", certificate), ("a.key", key), ("t.lst", "one\n".to_owned())]);
    let text = |plain: &str, tokens: &str| {
        format!(
            "listeners:\n  - {{ address: '{plain}' }}\n  - address: 127.0.0.1:2\n    \
             tls: {{ certificate: a.pem, key: a.key, client_ca: a.pem }}\nroutes: [{{ path: /, {tokens}backend: a }}]\n\
             backends: {{ a: {{ endpoints: ['127.0.0.1:3'] }} }}\n"
        )
    };
    assert_eq!(warnings(&text("127.0.0.1:1", "tokens: t.lst, "), &files, NOW_S), [""; 0]);
    assert_eq!(
        warnings(&text("0.0.0.0:1", "tokens: t.lst, "), &files, NOW_S),
        [
            "listeners[0]: 0.0.0.0:1 accepts plain HTTP, but listeners[1] requires client certificates for the same routes",
            "listeners[0]: bearer tokens for routes[0] reach 0.0.0.0:1 unencrypted",
        ]
    );
}

#[test]
fn warns_about_expired_and_mismatched_certificates() {
    let mut files = BTreeMap::new();
    for (certificate_file, key_file, names, until) in [
        ("a.pem", "a.key", ["a.test"], (12, 31)),
        ("b.pem", "b.key", ["b.test"], (3, 2)),
        ("c.pem", "c.key", ["c.test"], (2, 27)),
    ] {
        let (certificate, key) = pair(&names, until);
        files.insert(certificate_file, certificate);
        files.insert(key_file, key);
    }
    let text = "listeners:
  - address: 127.0.0.1:2
    tls:
      certificate: a.pem
      key: a.key
      certificates: [{ certificate: b.pem, key: b.key }, { certificate: c.pem, key: c.key }]
routes: [{ hosts: [b.test], path: /, backend: a }]
backends: { a: { endpoints: ['127.0.0.1:3'], tls: { ca: c.pem } } }
";
    assert_eq!(
        warnings(text, &files, NOW_S),
        [
            "listeners[0].tls.certificates[1].certificate: `c.pem` is valid for none of the hosts in `routes`",
            "listeners[0].tls.certificates[0].certificate: a certificate in `b.pem` expires in 1 day",
            "listeners[0].tls.certificates[1].certificate: a certificate in `c.pem` expired 2 days ago",
        ]
    );
    let hosts = text
        .replace("key: b.key }", "key: b.key, hosts: ['*'] }")
        .replace("key: c.key }", "key: c.key, hosts: ['*', C.test, '*.test', b.test, '*.c.test'] }")
        .replace("hosts: [b.test]", "hosts: [c.test]");
    let reported = warnings(&hosts, &files, NOW_S);
    for (position, (index, host)) in [(3, "b.test"), (4, "*.c.test")].into_iter().enumerate() {
        let expected = format!(
            "listeners[0].tls.certificates[1].hosts[{index}]: clients of `{host}` get the certificate in `c.pem`, which is not valid for this host"
        );
        assert_eq!(reported[1 + position], expected, "{reported:#?}");
    }
    assert_eq!(reported.len(), 5, "{reported:#?}");
    let alone = text
        .replace(
            "      certificates: [{ certificate: b.pem, key: b.key }, { certificate: c.pem, key: c.key }]\n",
            "",
        )
        .replace(", tls: { ca: c.pem }", "");
    let none = "listeners[0].tls.certificate: `a.pem` is valid for none of the hosts in `routes`";
    assert_eq!(warnings(&alone, &files, NOW_S), [none]);
    let early = "listeners[0].tls.certificate: a certificate in `a.pem` is not valid yet; it becomes valid in 31 days";
    assert_eq!(warnings(&alone, &files, NOW_S - 90 * 86_400), [none, early]);
}

#[test]
fn warns_about_syntax_of_other_gateways() {
    let none = "header values have no variables";
    check_routes(
        &["path: /, request_headers: { set: { X-Real-IP: $remote_addr, X-Price: '5 $', X-Share: '10%' } }"],
        &[&format!(
            "routes[0].request_headers.set.X-Real-IP: the gateway sends `$remote_addr` literally; {none}"
        )],
    );
    check_routes(
        &["path: /, response_headers: { add: { Via: 'a ${hostname}', X-Id: '%{request_id}i' } }"],
        &[
            &format!(
                "routes[0].response_headers.add.Via: the gateway sends `${{hostname}}` literally; {none}"
            ),
            &format!(
                "routes[0].response_headers.add.X-Id: the gateway sends `%{{request_id}}` literally; {none}"
            ),
        ],
    );
    check_routes(
        &["path: /, hosts: [a.test, _]"],
        &["routes[0].hosts[1]: `_` is not a wildcard here; it matches only the host `_`"],
    );
    check_routes(
        &["path: '/a/*'", "path: /"],
        &["routes[0].path: `*` in `/a/*` is not a wildcard; it matches only `*`"],
    );
    check_routes(&["path: '/a*b'", "path: /, request_headers: { set: { X: '$5, ${' } }"], &[]);
}
