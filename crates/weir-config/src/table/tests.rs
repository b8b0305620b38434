//! Building a table from routes.

use std::collections::BTreeMap;

use super::*;
use crate::change::{Batch, Change, Policy};
use crate::filters::Rewrite;
use crate::model::{Backend, Configuration, OneOrMany, Route};
use crate::state::{Applied, State};

fn table_of(routes: Vec<Route>) -> Option<Arc<Table>> {
    let configuration = Configuration {
        listeners: vec![Listener::plain("127.0.0.1:80".parse().unwrap())],
        routes,
        backends: BTreeMap::from([("b".to_owned(), Backend::default())]),
        ..Configuration::default()
    };
    let changes = configuration.into_resources().into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes }).table
}

fn route(hosts: Vec<String>, tag: usize) -> Route {
    let rewrite = Some(Rewrite::Prefix(format!("/{tag}")));
    Route { hosts, backend: Some("b".to_owned()), rewrite, ..Route::default() }
}

#[test]
fn hosts_with_the_same_routes_share_their_paths() {
    let hosts = (0..1000).map(|n| format!("h{n}.example.com")).collect();
    let paths = (0..100).map(|n| format!("/get/{n}")).collect();
    let many = Route { exact: Some(OneOrMany::Many(paths)), ..route(hosts, 0) };
    let table = table_of(vec![many]).unwrap();
    let exact = &table.parts.scopes.hosts(Scope::default()).exact;
    let [first, last] = ["h0.example.com", "h999.example.com"].map(|host| exact.get(host).unwrap());
    assert!(Arc::ptr_eq(first, last));
    assert!(table.find(&RequestView::get("h999.example.com", "/get/99")).is_some());
    assert!(table.find(&RequestView::get("h999.example.com", "/get/100")).is_none());
    assert!(table.find(&RequestView::get("other.example.com", "/get/1")).is_none());
}

#[test]
fn finds_routes_among_a_hundred_thousand() {
    let routes = (0..100_000)
        .map(|n| {
            let path = format!("/p/{}", n % 100);
            let route = route(vec![format!("h{}.x", n / 100)], n);
            match n % 2 {
                0 => Route { exact: Some(OneOrMany::One(path)), ..route },
                _ => Route { path: Some(path), ..route },
            }
        })
        .collect();
    let table = table_of(routes).unwrap();
    let found = table.find(&RequestView::get("h777.x", "/p/55")).unwrap();
    assert_eq!(found.target.rewrite.as_deref(), Some("/77755"));
    assert_eq!(table.find(&RequestView::get("h777.x", "/p/55/deeper")).unwrap().matched, 5);
    assert!(table.find(&RequestView::get("h777.x", "/p/56/deeper")).is_none());
}

/// Applies a configuration with these routes to `state`.
fn apply(state: &mut State, routes: &str) -> Applied {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:80 }}]\nbackends: {{ b: {{ endpoints: [] }} }}\nroutes: [{routes}]"
    );
    let configuration: Configuration = weir_document::read("test.yaml", &text).unwrap();
    let changes = configuration.into_resources().into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes })
}

/// Checks the error that the route `second` causes if it follows the route `first`. `expected` is `None` if `second` is
/// valid.
fn check_conflict(first: &str, second: &str, expected: Option<&str>) {
    let routes = format!("{{ {first}, backend: b }}, {{ {second}, backend: b }}");
    let applied = apply(&mut State::default(), &routes);
    let reported = applied.refused.first().map(|(_, problem)| problem.to_string());
    assert_eq!(reported.as_deref(), expected, "{first} and {second}");
    assert_eq!(applied.table.is_none(), expected.is_some());
}

#[test]
fn rejects_only_routes_that_match_the_same_requests() {
    let path = Some("routes[1].path: routes[0] already matches path `/a` for every host");
    check_conflict("path: /a, methods: [GET]", "path: /a, methods: [POST, GET]", path);
    check_conflict("path: /a, methods: [GET]", "path: /a, methods: [POST, HEAD]", None);
    check_conflict("path: /a, methods: [GET]", "path: /a", None);
    check_conflict("path: /a, headers: { x: '1' }", "path: /a, headers: { X: { exact: '1' } }", path);
    check_conflict("path: /a, headers: { x: '1' }", "path: /a, headers: { x: { regex: '1' } }", None);
    check_conflict("path: /a, headers: { x: '1' }", "path: /a, query: { x: '1' }", None);
    check_conflict("path: /a, query: { x: '1' }", "path: /a, query: { X: '1' }", None);
    check_conflict("path: /a, query: { x: '1' }", "path: /a, methods: [GET], query: { x: '1' }", None);
    let regex = Some("routes[1].regex: routes[0] already matches regex `/a.*` for every host");
    check_conflict("regex: /a.*", "regex: /a.*", regex);
    check_conflict("regex: /a.*", "regex: /a.*, methods: [GET]", None);
    check_conflict("regex: /a.*", "regex: /a.+", None);
    check_conflict("exact: /a", "path: /a", None);
    let exact = Some("routes[1].exact: routes[0] already matches exact `/b` for every host");
    check_conflict("exact: [/a, /b], methods: [PUT]", "exact: [/b, /c], methods: [PUT]", exact);
}

#[test]
fn compiles_each_pattern_once_and_drops_unused_ones() {
    let mut state = State::default();
    let mut apply = |routes: &str| apply(&mut state, routes).table.unwrap();
    let of = |table: &Table| table.routes()[0].pattern.clone().unwrap();
    let first = of(&apply("{ regex: '/a[0-9]', backend: b }"));
    let second = of(&apply("{ regex: '/a[0-9]', methods: [GET], backend: b }"));
    assert!(Arc::ptr_eq(&first, &second), "versions share the pattern");
    let table = apply("{ path: /a, backend: b }");
    assert!(table.routes()[0].pattern.is_none());
    let third = of(&apply("{ regex: '/a[0-9]', backend: b }"));
    assert!(!Arc::ptr_eq(&first, &third), "the unused pattern was dropped");
}
