//! Which of several rules matches a request.

use super::served::{Served, ask, backend, echo, route, to, who};

/// A rule with this match and the backend `name`.
fn rule(name: &str, matched: &str) -> String {
    format!("    - {{ matches: [{{ {matched} }}], backendRefs: [{}] }}\n", to(name))
}

/// A route with these hosts and rules.
fn of(name: &str, metadata: &str, hostnames: &str, rules: &[String]) -> String {
    route(name, metadata, &format!("  hostnames: [{hostnames}]\n  rules:\n{}", rules.concat()))
}

/// Backends that respond with their names.
fn backends(names: &[&'static str]) -> Vec<String> {
    names.iter().map(|name| backend(name, echo(name))).collect()
}

#[test]
fn regular_expressions_match_whole_values_of_headers_and_parameters() {
    let expression =
        |name: &str, value: &str| format!("[{{ type: RegularExpression, name: {name}, value: '{value}' }}]");
    let rules = [
        rule("a", &format!("headers: {}", expression("X-Version", "v[0-9]+"))),
        rule("b", &format!("queryParams: {}", expression("page", "[1-3]|last"))),
    ];
    let documents = [backends(&["a", "b"]), vec![of("r", "", "", &rules)]].concat();
    let (_served, address) = Served::at("127.7.12.1", &documents);
    for (target, field, expected) in [
        ("/", "X-Version: v12\r\n", "a"),
        ("/", "x-version: v1\r\n", "a"),
        ("/", "X-Version: v12b\r\n", "nobody"),
        ("/", "X-Version: av1\r\n", "nobody"),
        ("/?page=2", "", "b"),
        ("/?x=1&page=last", "", "b"),
        ("/?page=22", "", "nobody"),
        ("/?Page=2", "", "nobody"),
        ("/?page=2", "X-Version: v1\r\n", "a"),
    ] {
        let answer = ask(address, &format!("GET {target}\r\nHost: h\r\n{field}"));
        assert_eq!(who(&answer), expected, "{target} {field}");
    }
}

/// Both rules of each pair match the request. The more specific one wins, whatever their order.
#[test]
fn the_more_specific_rule_wins() {
    let path = |value: &str| format!("path: {{ value: {value} }}");
    let exact = |value: &str| format!("path: {{ type: Exact, value: {value} }}");
    let (one, two) =
        ("[{ name: X-A, value: '1' }]", "[{ name: X-A, value: '1' }, { name: X-B, value: '1' }]");
    let (p, q) = ("[{ name: p, value: '1' }]", "[{ name: p, value: '1' }, { name: q, value: '1' }]");
    for (more, less) in [
        (exact("/x/y"), format!("{}, method: GET, headers: {two}", path("/x/y"))),
        (path("/x/y"), format!("{}, method: GET, headers: {two}, queryParams: {q}", path("/x"))),
        ("method: GET".to_owned(), format!("headers: {two}, queryParams: {q}")),
        (format!("headers: {one}"), format!("queryParams: {q}")),
        (format!("headers: {two}"), format!("headers: {one}, queryParams: {q}")),
        (format!("queryParams: {q}"), format!("queryParams: {p}")),
        (format!("queryParams: {p}"), path("/")),
    ] {
        let (more, less) = (rule("more", &more), rule("less", &less));
        let texts = [&more, &less].map(Clone::clone);
        for rules in [[more.clone(), less.clone()], [less, more]] {
            let documents = [backends(&["more", "less"]), vec![of("r", "", "", &rules)]].concat();
            let (_served, address) = Served::at("127.7.12.2", &documents);
            let answer = ask(address, "GET /x/y?p=1&q=1\r\nHost: h\r\nX-A: 1\r\nX-B: 1\r\n");
            assert_eq!(who(&answer), "more", "{texts:?}");
        }
    }
}

#[test]
fn the_exact_host_wins_then_the_longest_wildcard() {
    let names = ["every", "wide", "long", "exact"];
    let hosts = ["", "'*.test'", "'*.shop.test'", "www.shop.test"];
    let routes = names.iter().zip(hosts).map(|(name, host)| {
        // A more specific path does not outrank a more specific host.
        let path = if host.is_empty() { "/x" } else { "/" };
        of(name, "", host, &[rule(name, &format!("path: {{ value: {path} }}"))])
    });
    let documents: Vec<String> = backends(&names).into_iter().chain(routes).collect();
    let (_served, address) = Served::at("127.7.12.3", &documents);
    for (host, expected) in [
        ("www.shop.test", "exact"),
        ("WWW.Shop.test:8080", "exact"),
        ("m.shop.test", "long"),
        ("a.m.shop.test", "long"),
        ("shop.test", "wide"),
        ("www.blog.test", "wide"),
        ("test", "every"),
    ] {
        assert_eq!(who(&ask(address, &format!("GET /x\r\nHost: {host}\r\n"))), expected, "{host}");
    }
}

#[test]
fn ties_go_to_the_oldest_route_then_the_first_name_then_the_first_rule() {
    let (old, young) =
        (", creationTimestamp: '2024-05-01T00:00:00Z'", ", creationTimestamp: '2024-05-01T00:00:01Z'");
    let header = |name: &str| format!("headers: [{{ name: {name}, value: '1' }}]");
    let alike = |name: &str, metadata: &str| of(name, metadata, "", &[rule(name, &header("X-A"))]);
    // Matches of different headers are equally specific.
    let of_two = |first: &str, second: &str| {
        vec![of("r", "", "", &[rule("a", &header(first)), rule("b", &header(second))])]
    };
    for (routes, expected) in [
        (vec![alike("a", young), alike("b", old)], "b"),
        (vec![alike("a", ""), alike("b", young)], "b"),
        (vec![alike("b", old), alike("a", old)], "a"),
        (of_two("X-A", "X-B"), "a"),
        (of_two("X-B", "X-A"), "a"),
        (of_two("X-A", "X-A"), "a"),
    ] {
        let documents = [backends(&["a", "b"]), routes.clone()].concat();
        let (_served, address) = Served::at("127.7.12.4", &documents);
        let answer = ask(address, "GET /\r\nHost: h\r\nX-A: 1\r\nX-B: 1\r\n");
        assert_eq!(who(&answer), expected, "{routes:?}");
    }
}

#[test]
fn paths_match_after_normalization() {
    let rules =
        [rule("a", "path: { type: Exact, value: '/caf%c3%a9' }"), rule("b", "path: { value: '/%7euser' }")];
    let documents = [backends(&["a", "b"]), vec![of("r", "", "", &rules)]].concat();
    let (_served, address) = Served::at("127.7.12.5", &documents);
    for (path, expected) in [
        ("/caf%c3%a9", "a"),
        ("/caf%C3%A9", "a"),
        ("/caf%C3%A9/x", "nobody"),
        ("/~user/x", "b"),
        ("/%7Euser", "b"),
    ] {
        assert_eq!(who(&ask(address, &format!("GET {path}\r\nHost: h\r\n"))), expected, "{path}");
    }
}
