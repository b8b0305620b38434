//! Which of several matching routes wins for a request: the precedence of Gateway API, case by case.

use weir_config::{Batch, Change, Configuration, Policy, RequestView, State};
use weir_http::Field;

/// Checks which route wins for each request, by its key; `none` if none matches. A request consists of its method, its
/// URL without scheme, and its headers: `GET h/a?b=c X-A:1`.
fn check(routes: &str, expected: &[(&str, &str)]) {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:80 }}]\nbackends: {{ b: {{ endpoints: [] }} }}\nroutes:\n{}",
        routes
            .trim()
            .lines()
            .map(|route| format!("  - {{ {}, backend: b }}\n", route.trim()))
            .collect::<String>()
    );
    let configuration: Configuration = weir_document::read("test.yaml", &text).unwrap();
    let changes = configuration.into_resources().into_iter().map(|(key, r)| Change::Put(key, r)).collect();
    let applied = State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    let table = applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused));
    for (request, key) in expected {
        let mut words = request.split(' ');
        let (method, url) = (words.next().unwrap(), words.next().unwrap());
        let (host, target) = url.split_at(url.find(['/', '*']).unwrap());
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let fields: Vec<Field<'_>> = words
            .map(|word| word.split_once(':').unwrap())
            .map(|(name, value)| Field { name, value: value.as_bytes() })
            .collect();
        let found =
            table.find(&RequestView { method, query, fields: &fields, ..RequestView::get(host, path) });
        assert_eq!(found.map_or("none", |found| table.key(found.route)), *key, "{request}");
    }
}

#[test]
fn exact_host_wins_over_longer_wildcard_over_every_host() {
    check(
        "path: /
         hosts: ['*.com'], path: /
         hosts: ['*.x.com'], path: /
         hosts: [a.x.com], path: /only",
        &[
            ("GET a.x.com/only/1", "routes[3]"),
            ("GET a.x.com/other", "routes[2]"),
            ("GET b.a.x.com/only", "routes[2]"),
            ("GET x.com/only", "routes[1]"),
            ("GET com/", "routes[0]"),
        ],
    );
}

#[test]
fn exact_path_wins_over_longer_prefix_over_pattern_over_root() {
    check(
        "exact: /a/b
         path: /a
         path: /a/b
         regex: '/(a|x)/.*'
         regex: '/x.*'
         path: /",
        &[
            ("GET h/a/b", "routes[0]"),
            ("GET h/a/b/", "routes[2]"),
            ("GET h/a/bc", "routes[1]"),
            ("GET h/x/b", "routes[3]"),
            ("GET h/x", "routes[4]"),
            ("GET h/", "routes[5]"),
            ("OPTIONS h*", "routes[5]"),
        ],
    );
}

#[test]
fn longer_pattern_wins() {
    check(
        "regex: '/a/b/.*'
         regex: '/a/(b|c|dd)/.*'
         regex: '/a/[b]/.*'
         regex: '/[^/]*/b/x'",
        &[
            ("GET h/a/b/x", "routes[1]"),
            ("GET h/a/c/x", "routes[1]"),
            ("GET h/z/b/x", "routes[3]"),
            ("GET h/z/b/y", "none"),
            ("GET h/a/b", "none"),
        ],
    );
}

#[test]
fn method_wins_over_headers_over_query() {
    check(
        "path: /a
         path: /a, query: { p: '1', q: '1' }
         path: /a, headers: { x-a: '1' }
         path: /a, headers: { x-a: '1', x-b: '1' }
         path: /a, methods: [POST]
         path: /a, headers: { x-a: '1' }, query: { p: '1' }",
        &[
            ("GET h/a", "routes[0]"),
            ("GET h/a?p=1", "routes[0]"),
            ("GET h/a?q=1&p=1", "routes[1]"),
            ("GET h/a?q=1&p=1 X-A:1", "routes[5]"),
            ("GET h/a?q=1 x-a:1", "routes[2]"),
            ("GET h/a?p=1 x-a:1 x-b:1", "routes[3]"),
            ("POST h/a?q=1&p=1 x-a:1 x-b:1", "routes[4]"),
            ("post h/a", "routes[0]"),
        ],
    );
}

#[test]
fn first_route_wins_a_tie() {
    let routes: String =
        (0..12).map(|n| format!("path: /a, headers: {{ x-{n}: {{ present: true }} }}\n")).collect();
    check(
        &routes,
        &[
            ("GET h/a x-11:1 x-2:1 x-10:1", "routes[2]"),
            ("GET h/a x-11:1 x-10:1", "routes[10]"),
            ("GET h/a", "none"),
        ],
    );
}

#[test]
fn failed_condition_falls_back_to_a_less_specific_route() {
    check(
        "hosts: [a.x], exact: /p/q, methods: [PUT]
         hosts: [a.x], path: /p, headers: { x-a: { regex: '[0-9]+' } }
         hosts: ['*.x'], path: /p/q, query: { v: { regex: 'a.*' } }
         regex: '/p/.*', methods: [GET, HEAD]",
        &[
            ("PUT a.x/p/q x-a:1", "routes[0]"),
            ("GET a.x/p/q x-a:1", "routes[1]"),
            ("GET a.x/p/q?v=ab x-a:b", "routes[2]"),
            ("HEAD a.x/p/q?v=b x-a:b", "routes[3]"),
            ("POST a.x/p/q?v=b x-a:b", "none"),
        ],
    );
}

#[test]
fn compares_whole_values_and_joined_lists() {
    check(
        "path: /h, headers: { X-A: '1, 2' }
         path: /h, headers: { x-b: { regex: '.*(^|, )gold(,.*|$)' } }
         path: /h, headers: { x-c: { exact: '' } }
         path: /q, query: { a b: c d, e: { present: true } }",
        &[
            ("GET h/h x-a:1 x-A:2", "routes[0]"),
            ("GET h/h x-a:2 x-a:1", "none"),
            ("GET h/h x-b:red X-B:gold x-b:blue", "routes[1]"),
            ("GET h/h x-b:golden", "none"),
            ("GET h/h x-c:", "routes[2]"),
            ("GET h/h x-c:1", "none"),
            ("GET h/q?e&a+b=c%20d", "routes[3]"),
            ("GET h/q?a%20b=c+d&e=1", "routes[3]"),
            ("GET h/q?a+b=c&a+b=c+d&e", "none"),
        ],
    );
}
