//! Batches, good and bad.

use super::*;
use crate::model::Configuration;
use crate::view::RequestView;

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
    let told: Vec<(String, String)> =
        applied.refused.iter().map(|(_, p)| (p.to_string(), p.remedy.clone().unwrap_or_default())).collect();
    let expected: Vec<(String, String)> =
        expected.iter().map(|(m, r)| ((*m).to_owned(), (*r).to_owned())).collect();
    assert_eq!(told, expected);
    assert!(applied.table.is_none());
    assert!(state.routes.is_empty(), "a refused file leaves nothing behind");
}

#[test]
fn the_example_compiles() {
    let table = State::default().apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    assert_eq!(table.find(&RequestView::get("example.com:8080", "/api/x")).unwrap().matched, 4);
    assert_eq!(
        table.find(&RequestView::get("example.com", "/get/2")).unwrap().target.rewrite.as_deref(),
        Some("/")
    );
    assert!(table.find(&RequestView::get("example.org", "/api/x")).is_none());
}

#[test]
fn problems_name_their_place_and_the_remedy() {
    check_refused(
        &GOOD.replace("/api, backend: api", "/api, backend: apy"),
        &[("routes[0].backend: no backend is named `apy`", "did you mean `api`?")],
    );
    check_refused(
        &GOOD.replace("[example.com]", "['exa mple']"),
        &[(
            "routes[0].hosts[0]: `exa mple` is not a host name",
            "write `example.com`, or `*.example.com` for the names below it",
        )],
    );
    check_refused(
        &GOOD.replace("path: /api", "path: api"),
        &[("routes[0].path: `api` does not begin with `/`", "write `/api`")],
    );
    check_refused(
        &GOOD.replace("[/get/1, /get/2]", "[/get/1, /get/1]"),
        &[(
            "routes[1].exact: every host with exact `/get/1` stands twice in this route",
            "keep one of the two; hosts ignore case, and prefixes a closing slash",
        )],
    );
    check_refused(
        &GOOD.replace("[example.com]", "[example.com, Example.COM]"),
        &[(
            "routes[0].path: `example.com` with path `/api` stands twice in this route",
            "keep one of the two; hosts ignore case, and prefixes a closing slash",
        )],
    );
    check_refused(
        &GOOD.replace("{ exact: [/get/1, /get/2],", "{ hosts: [EXAMPLE.com], path: /api/,"),
        &[(
            "routes[1].path: `example.com` with path `/api/` is taken by routes[0] already",
            "give each host and path to one route, or tell them apart by `methods`, `headers` or `query`",
        )],
    );
    check_refused(
        &GOOD.replace("workers: 1", "workers: 0"),
        &[("workers: 0 is not within 1 and 1024", "leave it out for one worker on each CPU")],
    );
    check_refused(
        &GOOD.replace("127.0.0.1:9000", "127.0.0.1:9000, '[::1]:0'"),
        &[(
            "backends.api.endpoints[1]: [::1]:0 has no port that could be connected to",
            "write the port that the service listens on",
        )],
    );
    check_refused(
        &GOOD.replace("[{ address: 127.0.0.1:8080 }]", "[]"),
        &[(
            "listeners: there is none, so nobody could connect",
            "`listeners: [{ address: 127.0.0.1:8080 }]`",
        )],
    );
    check_refused(
        &GOOD.replace(
            "[{ address: 127.0.0.1:8080 }]",
            "[{ address: 127.0.0.1:80 }, { address: 127.0.0.1:80 }]",
        ),
        &[(
            "listeners[1].address: 127.0.0.1:80 is the address of listeners[0] already",
            "give each listener an address of its own",
        )],
    );
    check_refused(
        &format!("{GOOD}drain: {{ delay: 5s, timeout: 5s }}\n"),
        &[(
            "drain.delay: 5s leaves nothing of `drain.timeout`, 5s",
            "make `timeout` longer than `delay`: it counts from the signal, too",
        )],
    );
    check_refused(
        &format!("{GOOD}drain: {{ delay: 0s, timeout: 0s }}\n"),
        &[("drain.timeout: 0s is not within 1ns and 30 days", "everything has a limit")],
    );
    check_refused(
        &format!("{GOOD}limits: {{ connections_per_address: 0 }}\n"),
        &[("limits.connections_per_address: 0 would serve nobody", "leave it out for the default, no bound")],
    );
}

#[test]
fn paths_that_no_request_carries_are_refused() {
    let check = |path: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api", &format!("path: '{path}'"));
        check_refused(&text, &[(&format!("routes[0].path: {message}"), remedy)]);
    };
    check("/a?b=c", "`/a?b=c` has a query; routes match the path alone", "write `/a`");
    check("/a#b", "`/a#b` has a fragment, which no request carries", "write `/a`");
    check("/ä", "`/ä` has `ä`, which a request carries percent-encoded", "write `%C3%A4` in its place");
    check("/a b", "`/a b` has ` `, which a request carries percent-encoded", "write `%20` in its place");
    let not_normal = "is not in normal form, which the paths of requests are brought to";
    check("/a/../b", &format!("`/a/../b` {not_normal}"), "write `/b`");
    check("/%61%2f", &format!("`/%61%2f` {not_normal}"), "write `/a%2F`");
    check(
        "/100%",
        "requests for `/100%` are answered 400: path contains a percent sign without two hexadecimal digits",
        "write `%25` for a percent sign",
    );
    check(
        "/a%2F..",
        "requests for `/a%2F..` are answered 400: path contains a dot segment next to an encoded slash or a backslash",
        "write a path that every reader understands alike",
    );
}

#[test]
fn paths_that_the_rules_for_paths_leave_to_no_request_are_refused() {
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
        "`//api` is not in normal form, which the paths of requests are brought to",
        "write `/api`",
    );
    check(
        "escaped_slashes: redirect",
        "/a%2Fb",
        "`paths.escaped_slashes` leads requests for `/a%2Fb` away",
        "write `/a/b`",
    );
    check(
        "escaped_slashes: reject",
        "/a%2Fb",
        "requests for `/a%2Fb` are answered 400: path contains an encoded slash or a backslash; send `/`",
        "write `/`, or set `paths.escaped_slashes: keep`",
    );
    let keep = "leave out what follows `;`, or set `paths.path_parameters: keep`";
    for rules in ["path_parameters: ignore", "path_parameters: strip"] {
        check(
            rules,
            "/a;b/c",
            "`/a;b/c` matches no request: routes match paths without parameters (`;`)",
            "write `/a/c`, or set `paths.path_parameters: keep`",
        );
        let hidden = "a path parameter (`;`) in a dot segment or an empty segment";
        check(
            rules,
            "/..;/a",
            &format!("requests for `/..;/a` are answered 400: path contains {hidden}"),
            keep,
        );
    }
    check(
        "path_parameters: reject",
        "/a;b",
        "requests for `/a;b` are answered 400: path contains a path parameter (`;`)",
        keep,
    );
}

#[test]
fn rules_for_paths_that_would_strand_a_route_are_refused_and_not_the_route() {
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
fn what_is_wrong_with_conditions_is_told() {
    let check = |field: &str, place: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api,", &format!("{field},"));
        check_refused(&text, &[(&format!("routes[0]{place}: {message}"), remedy)]);
    };
    check("name: x", "", "the route says no path", "`path: /` takes every path");
    check("path: /a, regex: /a", "", "`path` and `regex` stand together", "make two routes of it");
    check("exact: /a, regex: /a", "", "`exact` and `regex` stand together", "make two routes of it");
    check("regex: '/a('", ".regex", "`/a(`: unclosed group, at character 3", "correct the pattern");
    let methods = |methods: &str, message: &str, remedy: &str| {
        check(&format!("path: /, methods: [{methods}]"), ".methods[0]", message, remedy);
    };
    methods("get", "`get` is not `GET`, for the case of methods matters", "write `GET`");
    methods("'A B'", "`A B` is not a method", "write one like `GET`");
    methods("CONNECT", "CONNECT is answered 501 here", "leave it out");
    check("path: /, methods: [A, A]", ".methods[1]", "`A` stands twice", "keep one of the two");
    let header = |header: &str, place: &str, message: &str, remedy: &str| {
        check(&format!("path: /, headers: {{ {header} }}"), &format!(".headers.{place}"), message, remedy);
    };
    header("a b: c", "a b", "`a b` is not the name of a field", "write letters, digits and `-`");
    header("a: b, A: c", "a", "`a` stands twice, for names ignore case", "keep one of the two");
    let remedy = "leave out controls, and white space around it";
    header("a: ' b'", "a", "no field has the value ` b`", remedy);
    header("a: { exact: \"b\\nc\" }", "a", "no field has the value `b\\nc`", remedy);
    header(
        "a: { regex: '[' }",
        "a.regex",
        "`[`: unclosed character class, at character 1",
        "correct the pattern",
    );
    check(
        "path: /, query: { a: { regex: '*' } }",
        ".query.a.regex",
        "`*`: repetition operator missing expression, at character 1",
        "correct the pattern",
    );
    check(
        "path: /, query: { '': a }",
        ".query",
        "a parameter has no name",
        "write `name: value`, or leave it out",
    );
}

#[test]
fn conditions_of_the_wrong_form_are_told() {
    let check = |value: &str, message: &str, remedy: &str| {
        let text = GOOD.replace("path: /api,", &format!("path: /api, headers: {{ a: {value} }},"));
        let error = weir_document::read::<Configuration>("test.yaml", &text).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.remedy.as_str(), error.line),
            (message, remedy, 5),
            "{value}"
        );
    };
    check(
        "{ present: false }",
        "`present: false` can't be asked for",
        "write `present: true`, or leave it out",
    );
    for several in ["{ exact: b, regex: c }", "{}"] {
        check(several, "a value is matched in one way", "write one of `exact`, `regex` and `present`");
    }
    check("{ exakt: b }", "unknown field `exakt`", "did you mean `exact`?");
    let form = "a text (numbers in quotes), or `{ exact: .. }`, `{ regex: .. }` or `{ present: true }`";
    check("[b]", &format!("a list is not {form}"), &format!("write {form}"));
}

#[test]
fn every_limit_out_of_range_is_told_with_its_default() {
    let check = |limits: &str, message: &str, remedy: &str| {
        check_refused(&format!("{GOOD}limits: {{ {limits} }}\n"), &[(message, remedy)]);
    };
    check(
        "head: 2MiB",
        "limits.head: 2MiB is not within 1KiB and 1MiB",
        "leave it out for the default, 32KiB",
    );
    check("fields: 7", "limits.fields: 7 is not within 8 and 128", "leave it out for the default, 100");
    check(
        "connections: 0",
        "limits.connections: 0 would serve nobody",
        "leave it out for the default, 10000",
    );
}

#[test]
fn everything_that_is_wrong_is_told_in_one_go() {
    let text = GOOD
        .replace("path: /api, backend: api", "path: api, methods: [get], backend: apy")
        .replace("rewrite: / }", "rewrite: / }\n  - { exact: /get/1, backend: nowhere }");
    check_refused(
        &format!("{text}limits: {{ fields: 1 }}\ntimeouts: {{ idle: 0s }}\n"),
        &[
            ("limits.fields: 1 is not within 8 and 128", "leave it out for the default, 100"),
            ("timeouts.idle: 0s is not within 1ns and 30 days", "everything has a limit"),
            ("routes[0].methods[0]: `get` is not `GET`, for the case of methods matters", "write `GET`"),
            ("routes[0].path: `api` does not begin with `/`", "write `/api`"),
            ("routes[0].backend: no backend is named `apy`", "did you mean `api`?"),
            ("routes[2].backend: no backend is named `nowhere`", "there are: api"),
            (
                "routes[2].exact: every host with exact `/get/1` is taken by routes[1] already",
                "give each host and path to one route, or tell them apart by `methods`, `headers` or `query`",
            ),
        ],
    );
}

#[test]
fn what_only_depends_on_what_could_not_be_read_is_not_told() {
    let text = GOOD.replace("backends: { api: { endpoints: [127.0.0.1:9000] } }", "");
    let unread = BTreeSet::from([Key::Backend("api".to_owned())]);
    let applied = State::default().apply_beside(batch(Policy::AllOrNothing, &text), unread);
    assert_eq!((applied.refused, applied.table.is_none()), (Vec::new(), true));
    assert_eq!(State::default().apply(batch(Policy::AllOrNothing, &text)).refused.len(), 2);
}

#[test]
fn a_file_changes_all_or_nothing() {
    let mut state = State::default();
    assert!(state.apply(batch(Policy::AllOrNothing, GOOD)).table.is_some());
    let routes = |state: &State| -> Vec<_> {
        state.routes.values().map(|entry| (entry.key.clone(), entry.route.clone(), entry.position)).collect()
    };
    let before = routes(&state);
    let bad = GOOD.replace("path: /api", "path: /new").replace("rewrite: /", "rewrite: no");
    assert!(state.apply(batch(Policy::AllOrNothing, &bad)).table.is_none());
    assert_eq!(routes(&state), before);
}

#[test]
fn a_dynamic_source_loses_only_its_bad_resource() {
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
fn a_backend_in_use_is_not_removed() {
    let mut state = State::default();
    state.apply(batch(Policy::AllOrNothing, GOOD));
    let removal = vec![Change::Remove(Key::Backend("api".to_owned()))];
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes: removal });
    assert_eq!(applied.refused.len(), 1);
    assert!(applied.table.unwrap().find(&RequestView::get("example.com", "/api")).is_some());
}

#[test]
fn unchanged_backends_are_shared_between_versions() {
    let mut state = State::default();
    let first = state.apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    let second = state.apply(batch(Policy::AllOrNothing, GOOD)).table.unwrap();
    assert!(second.version > first.version);
    assert!(Arc::ptr_eq(&first.backends()[0].backend, &second.backends()[0].backend));
}
