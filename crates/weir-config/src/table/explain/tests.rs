//! Explanations for routes that do not match a request.

use weir_http::Field;

use super::*;
use crate::change::{Batch, Change, Policy};
use crate::model::Configuration;
use crate::state::State;

const ROUTES: &str = "
listeners: [{ address: 127.0.0.1:80 }]
backends: { b: { endpoints: [] } }
routes:
  - { hosts: [a.test], path: /api, backend: b }
  - { hosts: [a.test], path: /api, methods: [PUT, POST], backend: b, name: writers }
  - { hosts: [a.test], path: /api, headers: { x-tenant: { regex: 'b.*' } }, backend: b }
  - { hosts: [a.test], path: /api, headers: { x-tenant: red }, query: { v: { present: true } }, backend: b }
  - { hosts: ['*.test'], path: /, backend: b }
  - { hosts: [a.test], exact: [/api/x/1, /api/x/2, /3, /4, /5], backend: b }
  - { hosts: [a.test], regex: '/api/x/[0-9]+', backend: b }
  - { hosts: [b.test, c.test], path: /api, backend: b }
  - { hosts: [b.test], path: /other, backend: b }
";

fn check(method: &str, query: Option<&str>, tenant: &'static str, most: usize, expected: &[(&str, &str)]) {
    let configuration: Configuration = weir_document::read("test.yaml", ROUTES).unwrap();
    let changes = configuration.into_resources().into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    let applied = State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    let table = applied.table.unwrap();
    let fields = [Field { name: "X-Tenant", value: tenant.as_bytes() }];
    let request = RequestView { method, query, fields: &fields, ..RequestView::get("A.test:80", "/api/x") };
    let (reported, _) = table.passed_over(&request, most);
    let reported: Vec<(&str, &str)> =
        reported.iter().map(|p| (p.route.as_str(), p.reason.as_str())).collect();
    assert_eq!(reported, expected);
}

#[test]
fn lists_the_nearest_routes_first_with_the_failed_condition() {
    check(
        "GET",
        None,
        "red",
        8,
        &[
            ("routes[3]", "the request has no query parameter `v`; required: any value"),
            ("routes[2]", "header `x-tenant` is `red`; required: a value that matches `b.*`"),
            ("routes[1] `writers`", "matches only the methods `PUT`, `POST`"),
            ("routes[4]", "matches, but the chosen route has a more specific host"),
            ("routes[5]", "matches only the paths `/api/x/1`, `/api/x/2`, `/3` and 2 more"),
            ("routes[6]", "matches only paths of the pattern `/api/x/[0-9]+`"),
            ("routes[7]", "matches only the hosts `b.test`, `c.test`"),
        ],
    );
}

#[test]
fn explains_why_the_chosen_route_is_more_specific() {
    check(
        "PUT",
        Some("v"),
        "red",
        4,
        &[
            ("routes[2]", "header `x-tenant` is `red`; required: a value that matches `b.*`"),
            ("routes[0]", "matches, but the chosen route also requires a method"),
            ("routes[3]", "matches, but the chosen route also requires a method"),
            ("routes[4]", "matches, but the chosen route has a more specific host"),
        ],
    );
    check(
        "GET",
        Some("v"),
        "red",
        2,
        &[
            ("routes[2]", "header `x-tenant` is `red`; required: a value that matches `b.*`"),
            ("routes[1] `writers`", "matches only the methods `PUT`, `POST`"),
        ],
    );
}
