//! Valid and invalid batches.

use super::*;
use crate::change::{Change, Resource};
use crate::matching::RequestView;
use crate::model::Configuration;

fn resources(text: &str) -> Vec<(Key, Resource)> {
    weir_document::read::<Configuration>("test.yaml", text).unwrap().into_resources()
}

fn batch(policy: Policy, text: &str) -> Batch {
    let changes = resources(text).into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    Batch { version: 1, policy, changes }
}

const GOOD: &str = "
listeners: [{ address: 127.0.0.1:8080 }]
workers: 1
routes:
  - { hosts: [example.com], path: /api, backend: api }
  - { exact: [/get/1, /get/2], backend: api, rewrite: / }
backends: { api: { endpoints: [127.0.0.1:9000] } }
";

fn check_refused(text: &str, expected: &[(&str, &str)]) {
    let mut state = State::default();
    let applied = state.apply(batch(Policy::AllOrNothing, text));
    let reported: Vec<(String, String)> =
        applied.refused.iter().map(|(_, p)| (p.to_string(), p.remedy.clone())).collect();
    let expected: Vec<(String, String)> =
        expected.iter().map(|(m, r)| ((*m).to_owned(), (*r).to_owned())).collect();
    assert_eq!(reported, expected);
    assert!(applied.table.is_none());
    assert!(state.resources.routes.is_empty(), "a refused file changes nothing");
}

#[test]
fn compiles_a_valid_configuration() {
    let table = State::default().apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    assert_eq!(table.find(&RequestView::get("example.com:8080", "/api/x")).unwrap().matched, 4);
    assert_eq!(
        table.find(&RequestView::get("example.com", "/get/2")).unwrap().target.rewrite.as_deref(),
        Some("/")
    );
    assert!(table.find(&RequestView::get("example.org", "/api/x")).is_none());
}

#[test]
fn problems_name_the_field_and_the_remedy() {
    check_refused(
        &GOOD.replace("/api, backend: api", "/api, backend: apy"),
        &[("routes[0].backend: unknown backend `apy`", "did you mean `api`?")],
    );
    check_refused(
        &GOOD.replace("[example.com]", "['exa mple']"),
        &[(
            "routes[0].hosts[0]: `exa mple` is not a host name",
            "write `example.com`, or `*.example.com` for its subdomains",
        )],
    );
    check_refused(
        &GOOD.replace("path: /api", "path: api"),
        &[("routes[0].path: `api` does not start with `/`", "write `/api`")],
    );
    check_refused(
        &GOOD.replace("[/get/1, /get/2]", "[/get/1, /get/1]"),
        &[(
            "routes[1].exact: duplicate exact `/get/1` for every host in this route",
            "remove one of them; hosts ignore case, and prefixes ignore a trailing slash",
        )],
    );
    check_refused(
        &GOOD.replace("[example.com]", "[example.com, Example.COM]"),
        &[(
            "routes[0].path: duplicate path `/api` for `example.com` in this route",
            "remove one of them; hosts ignore case, and prefixes ignore a trailing slash",
        )],
    );
    check_refused(
        &GOOD.replace("{ exact: [/get/1, /get/2],", "{ hosts: [EXAMPLE.com], path: /api/,"),
        &[(
            "routes[1].path: routes[0] already matches path `/api/` for `example.com`",
            "remove one of the routes, or make them differ in `methods`, `headers` or `query`",
        )],
    );
    check_refused(
        &GOOD.replace("workers: 1", "workers: 0"),
        &[("workers: 0 is out of range; allowed: 1 to 1024", "remove the field to use one worker per CPU")],
    );
    check_refused(
        &GOOD.replace("127.0.0.1:9000", "127.0.0.1:9000, '[::1]:0'"),
        &[("backends.api.endpoints[1]: [::1]:0 has port 0", "write the port that the service listens on")],
    );
    check_refused(
        &GOOD.replace("[{ address: 127.0.0.1:8080 }]", "[]"),
        &[("listeners: no listener is configured", "add one: `listeners: [{ address: 127.0.0.1:8080 }]`")],
    );
    check_refused(
        &GOOD.replace(
            "[{ address: 127.0.0.1:8080 }]",
            "[{ address: 127.0.0.1:80 }, { address: 127.0.0.1:80 }]",
        ),
        &[(
            "listeners[1].address: 127.0.0.1:80 is already the address of listeners[0]",
            "give each listener its own address",
        )],
    );
    check_refused(
        &format!("{GOOD}drain: {{ delay: 5s, timeout: 5s }}\n"),
        &[(
            "drain.delay: `drain.delay` (5s) must be shorter than `drain.timeout` (5s)",
            "make `timeout` longer than `delay`; both start at the signal",
        )],
    );
    check_refused(
        &format!("{GOOD}drain: {{ delay: 0s, timeout: 0s }}\n"),
        &[(
            "drain.timeout: 0s is out of range; allowed: 1ns to 30 days",
            "write a time in this range; this timeout cannot be turned off",
        )],
    );
    check_refused(
        &format!("{GOOD}limits: {{ connections_per_address: 0 }}\n"),
        &[(
            "limits.connections_per_address: 0 would reject every request",
            "remove the field to use the default, no limit",
        )],
    );
}

#[test]
fn rejects_paths_that_no_request_has() {
    let check = |path: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api", &format!("path: '{path}'"));
        check_refused(&text, &[(&format!("routes[0].path: {message}"), remedy)]);
    };
    check("/a?b=c", "`/a?b=c` contains a query; this field matches only the path", "write `/a`");
    check("/a#b", "`/a#b` contains a fragment, which clients do not send", "write `/a`");
    check("/ä", "`/ä` contains `ä`, which clients send percent-encoded", "write `%C3%A4` instead");
    check("/a b", "`/a b` contains ` `, which clients send percent-encoded", "write `%20` instead");
    let not_normal = "is not in normal form and would match no request; the gateway normalizes request paths";
    check("/a/../b", &format!("`/a/../b` {not_normal}"), "write `/b`");
    check("/%61%2f", &format!("`/%61%2f` {not_normal}"), "write `/a%2F`");
    check(
        "/100%",
        "requests for `/100%` get 400: path contains a percent sign without two hexadecimal digits",
        "write `%25` for a percent sign",
    );
    check(
        "/a%2F..",
        "requests for `/a%2F..` get 400: path contains a dot segment next to an encoded slash or a backslash",
        "remove the dot segment (`.` or `..`)",
    );
}

#[test]
fn rejects_paths_that_path_rules_exclude() {
    let check = |rules: &str, path: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api", &format!("path: {path}"));
        check_refused(
            &format!("{text}paths: {{ {rules} }}\n"),
            &[(&format!("routes[0].path: {message}"), remedy)],
        );
    };
    check(
        "merge_slashes: true",
        "//api",
        "`//api` is not in normal form and would match no request; the gateway normalizes request paths",
        "write `/api`",
    );
    check(
        "escaped_slashes: redirect",
        "/a%2Fb",
        "no request matches: `paths.escaped_slashes` redirects requests for `/a%2Fb`",
        "write `/a/b`",
    );
    check(
        "escaped_slashes: reject",
        "/a%2Fb",
        "requests for `/a%2Fb` get 400: path contains an encoded slash or a backslash; send `/`",
        "write `/`, or set `paths.escaped_slashes: keep`",
    );
    let keep = "remove the parameters (`;` and the text after it), or set `paths.path_parameters: keep`";
    for rules in ["path_parameters: ignore", "path_parameters: strip"] {
        check(
            rules,
            "/a;b/c",
            "`/a;b/c` matches no request: the gateway removes path parameters (`;` and what follows in the segment) before it matches routes",
            "write `/a/c`, or set `paths.path_parameters: keep`",
        );
        let hidden = "a path parameter (`;`) in a dot segment or an empty segment";
        check(rules, "/..;/a", &format!("requests for `/..;/a` get 400: path contains {hidden}"), keep);
    }
    check(
        "path_parameters: reject",
        "/a;b",
        "requests for `/a;b` get 400: path contains a path parameter (`;`)",
        keep,
    );
}

#[test]
fn rejects_path_rules_that_exclude_an_active_route() {
    let mut state = State::default();
    let text = GOOD.replace("path: /api", "path: //api");
    let as_sent = format!("{text}paths: {{ merge_slashes: false }}\n");
    assert!(state.apply(batch(Policy::EachAlone, &as_sent)).table.is_some());
    let applied = state.apply(batch(Policy::EachAlone, &format!("{text}paths: {{ merge_slashes: true }}\n")));
    assert_eq!(applied.refused.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&Key::Settings]);
    let table = applied.table.unwrap();
    assert!(!table.paths.merge_slashes && table.find(&RequestView::get("example.com", "//api")).is_some());
}

#[test]
fn rejects_invalid_conditions() {
    let check = |field: &str, place: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api,", &format!("{field},"));
        check_refused(&text, &[(&format!("routes[0]{place}: {message}"), remedy)]);
    };
    check("name: x", "", "the route has no path", "add `path: /` to match every path");
    check("path: /a, regex: /a", "", "`path` and `regex` cannot be combined", "write two routes");
    check("exact: /a, regex: /a", "", "`exact` and `regex` cannot be combined", "write two routes");
    check("regex: '/a('", ".regex", "`/a(`: unclosed group, at character 3", "fix the regular expression");
    let methods = |methods: &str, message: &str, remedy: &str| {
        check(&format!("path: /, methods: [{methods}]"), ".methods[0]", message, remedy);
    };
    methods("get", "unknown method `get`; methods are case-sensitive", "write `GET`");
    methods("'A B'", "invalid method `A B`", "use a method such as `GET`");
    methods("CONNECT", "CONNECT is not supported (status 501)", "remove `CONNECT`");
    check("path: /, methods: [A, A]", ".methods[1]", "duplicate method `A`", "remove one of them");
    let header = |header: &str, place: &str, message: &str, remedy: &str| {
        check(&format!("path: /, headers: {{ {header} }}"), &format!(".headers.{place}"), message, remedy);
    };
    header("a b: c", "a b", "invalid header name `a b`", "use letters, digits and hyphens");
    header("a: b, A: c", "a", "duplicate header `a`; header names ignore case", "remove one of them");
    let remedy = "remove control characters, and whitespace at both ends";
    header("a: ' b'", "a", "no header can have the value ` b`", remedy);
    header("a: { exact: \"b\\nc\" }", "a", "no header can have the value `b\\nc`", remedy);
    header(
        "a: { regex: '[' }",
        "a.regex",
        "`[`: unclosed character class, at character 1",
        "fix the regular expression",
    );
    check(
        "path: /, query: { a: { regex: '*' } }",
        ".query.a.regex",
        "`*`: repetition operator missing expression, at character 1",
        "fix the regular expression",
    );
    check(
        "path: /, query: { '': a }",
        ".query",
        "a query parameter has an empty name",
        "write `name: value`, or remove the parameter",
    );
}

#[test]
fn rejects_conditions_of_the_wrong_form() {
    let check = |value: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api,", &format!("path: /api, headers: {{ a: {value} }},"));
        let error = weir_document::read::<Configuration>("test.yaml", &text).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.remedy.as_str(), error.place.line),
            (message, remedy, 5),
            "{value}"
        );
    };
    check(
        "{ present: false }",
        "`present: false` is not supported",
        "write `present: true`, or remove the condition",
    );
    for several in ["{ exact: b, regex: c }", "{}"] {
        check(
            several,
            "more than one condition for one value",
            "write only one of `exact`, `regex` and `present`",
        );
    }
    check("{ exakt: b }", "unknown field `exakt`", "did you mean `exact`?");
    let form = "a string (numbers in quotes), or `{ exact: .. }`, `{ regex: .. }` or `{ present: true }`";
    check("[b]", &format!("a list is not {form}"), &format!("write {form}"));
}

#[test]
fn rejects_limits_out_of_range_and_names_the_default() {
    let check = |limits: &str, message: &str, remedy: &str| {
        check_refused(&format!("{GOOD}limits: {{ {limits} }}\n"), &[(message, remedy)]);
    };
    check(
        "head: 2MiB",
        "limits.head: 2MiB is out of range; allowed: 1KiB to 1MiB",
        "remove the field to use the default, 32KiB",
    );
    check(
        "fields: 7",
        "limits.fields: 7 is out of range; allowed: 8 to 128",
        "remove the field to use the default, 100",
    );
    check(
        "connections: 0",
        "limits.connections: 0 would reject every request",
        "remove the field to use the default, 10000",
    );
}

#[test]
fn reports_all_problems_together() {
    let text = GOOD
        .replace("path: /api, backend: api", "path: api, methods: [get], backend: apy")
        .replace("rewrite: / }", "rewrite: / }\n  - { exact: /get/1, backend: nowhere }");
    check_refused(
        &format!("{text}limits: {{ fields: 1 }}\ntimeouts: {{ idle: 0s }}\n"),
        &[
            (
                "limits.fields: 1 is out of range; allowed: 8 to 128",
                "remove the field to use the default, 100",
            ),
            (
                "timeouts.idle: 0s is out of range; allowed: 1ns to 30 days",
                "write a time in this range; this timeout cannot be turned off",
            ),
            ("routes[0].methods[0]: unknown method `get`; methods are case-sensitive", "write `GET`"),
            ("routes[0].path: `api` does not start with `/`", "write `/api`"),
            ("routes[0].backend: unknown backend `apy`", "did you mean `api`?"),
            ("routes[2].backend: unknown backend `nowhere`", "known backends: api"),
            (
                "routes[2].exact: routes[1] already matches exact `/get/1` for every host",
                "remove one of the routes, or make them differ in `methods`, `headers` or `query`",
            ),
        ],
    );
}

#[test]
fn does_not_report_problems_caused_by_unread_resources() {
    let text = GOOD.replace("backends: { api: { endpoints: [127.0.0.1:9000] } }", "");
    let unread = BTreeSet::from([Key::Backend("api".to_owned())]);
    let applied = State::default().apply_with_unread(batch(Policy::AllOrNothing, &text), unread);
    assert_eq!((applied.refused, applied.table.is_none()), (Vec::new(), true));
    assert_eq!(State::default().apply(batch(Policy::AllOrNothing, &text)).refused.len(), 2);
}

#[test]
fn file_is_applied_completely_or_not_at_all() {
    let mut state = State::default();
    assert!(state.apply(batch(Policy::AllOrNothing, GOOD)).table.is_some());
    let routes = |state: &State| -> Vec<_> {
        state
            .resources
            .routes
            .values()
            .map(|entry| (entry.key.clone(), entry.route.clone(), entry.position))
            .collect()
    };
    let before = routes(&state);
    let bad = GOOD.replace("path: /api", "path: /new").replace("rewrite: /", "rewrite: no");
    assert!(state.apply(batch(Policy::AllOrNothing, &bad)).table.is_none());
    assert_eq!(routes(&state), before);
}

#[test]
fn dynamic_source_loses_only_its_invalid_resource() {
    let mut state = State::default();
    state.apply(batch(Policy::AllOrNothing, GOOD));
    let mixed = GOOD
        .replace("path: /api, backend: api", "path: /new, backend: nowhere")
        .replace("[/get/1, /get/2]", "[/get/3]");
    let applied = state.apply(batch(Policy::EachAlone, &mixed));
    assert_eq!(applied.refused.len(), 1);
    let table = applied.table.unwrap();
    assert!(
        table.find(&RequestView::get("example.com", "/api")).is_some(),
        "the bad route keeps its former content"
    );
    assert!(table.find(&RequestView::get("example.com", "/get/3")).is_some());
    assert!(table.find(&RequestView::get("example.com", "/get/1")).is_none());
}

#[test]
fn keeps_a_backend_that_a_route_uses() {
    let mut state = State::default();
    state.apply(batch(Policy::AllOrNothing, GOOD));
    let removal = vec![Change::Remove(Key::Backend("api".to_owned()))];
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes: removal });
    assert_eq!(applied.refused.len(), 1);
    assert!(applied.table.unwrap().find(&RequestView::get("example.com", "/api")).is_some());
}

#[test]
fn versions_share_unchanged_backends() {
    let mut state = State::default();
    let first = state.apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    let second = state.apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    assert!(second.version > first.version);
    assert!(Arc::ptr_eq(&first.backends()[0].backend, &second.backends()[0].backend));
}
