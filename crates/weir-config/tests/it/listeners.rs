//! Routes for specific listeners, and routes with an explicit precedence.

use std::sync::Arc;

use weir_config::{
    Applied, Batch, Change, Configuration, Key, Policy, Precedence, RequestView, Resource, Route, State,
    Table,
};

const FRAME: &str = "listeners:
  - { address: 127.0.0.1:80, name: plain }
  - { address: 127.0.0.2:80, name: plain }
  - { address: 127.0.0.1:81 }
  - { address: 127.0.0.1:82, name: other }
backends: { b: { endpoints: [] } }
routes:
";

fn resources(routes: &str) -> Vec<(Key, Resource)> {
    let configuration: Configuration = weir_document::read("test.yaml", &format!("{FRAME}{routes}")).unwrap();
    configuration.into_resources()
}

fn apply(state: &mut State, resources: Vec<(Key, Resource)>, policy: Policy) -> Applied {
    let changes = resources.into_iter().map(|(key, resource)| Change::Put(key, resource)).collect();
    state.apply(Batch { version: 1, policy, changes })
}

fn table(routes: &str) -> Arc<Table> {
    let applied = apply(&mut State::default(), resources(routes), Policy::AllOrNothing);
    applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused))
}

/// The key of the route that matches a GET for `host` at the listener with this address; `none` if none matches.
fn found(table: &Table, address: &str, host: &str) -> String {
    let scope = table.scope(address.parse::<std::net::SocketAddr>().unwrap());
    let found = table.find(&RequestView { scope, ..RequestView::get(host, "/x") });
    found.map_or("none".to_owned(), |found| table.key(found.route).to_owned())
}

#[test]
fn route_matches_only_clients_of_its_listeners() {
    let table = table(
        "  - { listeners: [plain], hosts: [a.test], path: /, backend: b }
  - { listeners: ['127.0.0.1:81', other], hosts: [a.test], path: /, backend: b }
  - { path: /x, backend: b }
",
    );
    for (address, of_a, of_b) in [
        ("127.0.0.1:80", "routes[0]", "routes[2]"),
        ("127.0.0.2:80", "routes[0]", "routes[2]"),
        ("127.0.0.1:81", "routes[1]", "routes[2]"),
        ("127.0.0.1:82", "routes[1]", "routes[2]"),
        ("127.0.0.1:99", "routes[2]", "routes[2]"),
    ] {
        assert_eq!(found(&table, address, "a.test"), of_a, "{address}");
        assert_eq!(found(&table, address, "b.test"), of_b, "{address}");
    }
}

#[test]
fn rejects_duplicate_routes_on_the_same_listener() {
    let refused = |routes: &str| {
        let applied = apply(&mut State::default(), resources(routes), Policy::AllOrNothing);
        applied.refused.into_iter().map(|(_, problem)| problem.to_string()).collect::<Vec<_>>()
    };
    let apart =
        "  - { listeners: [plain], path: /, backend: b }\n  - { listeners: [other], path: /, backend: b }\n";
    assert!(refused(apart).is_empty());
    assert_eq!(
        refused(&apart.replace("[other]", "[other, plain]")),
        ["routes[1].path: routes[0] already matches path `/` for every host"]
    );
    assert_eq!(
        refused(&apart.replace("listeners: [other], ", "")),
        ["routes[1].path: routes[0] already matches path `/` for every host"]
    );
}

#[test]
fn rejects_unknown_listener() {
    let routes = "  - { listeners: [plain, 'othr'], path: /, backend: b }\n";
    let applied = apply(&mut State::default(), resources(routes), Policy::AllOrNothing);
    let [(key, problem)] = &applied.refused[..] else { panic!("{:?}", applied.refused) };
    assert_eq!(key, &Key::Route("routes[0]".to_owned()));
    assert_eq!(problem.to_string(), "routes[0].listeners[1]: unknown listener `othr`");
    assert_eq!(problem.remedy, "did you mean `other`?");
}

#[test]
fn keeps_a_listener_that_a_route_uses() {
    let mut state = State::default();
    let routes = "  - { listeners: [other], path: /, backend: b }\n";
    assert!(apply(&mut state, resources(routes), Policy::AllOrNothing).table.is_some());
    let gone = Key::Listener("listeners[3]".to_owned());
    let changes = vec![Change::Remove(gone.clone())];
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes });
    assert_eq!(applied.refused.len(), 1);
    assert_eq!(applied.refused[0].0, gone);
    assert_eq!(applied.refused[0].1.to_string(), "listeners: listener `other` is still used by routes[0]");
}

#[test]
fn explains_routes_of_other_listeners() {
    let table = table(
        "  - { listeners: [plain], path: /, backend: b }\n  - { listeners: [other], path: /x, backend: b }\n",
    );
    let scope = table.scope("127.0.0.1:80".parse::<std::net::SocketAddr>().unwrap());
    let (reported, _) = table.passed_over(&RequestView { scope, ..RequestView::get("a.test", "/x") }, 5);
    let reported: Vec<_> =
        reported.iter().map(|other| (other.route.as_str(), other.reason.as_str())).collect();
    assert_eq!(reported, [("routes[1]", "matches only the listener `other`")]);
}

/// Resources with several routes that match the same requests. `routes` lists the precedence of each route: creation
/// time, resource name, position of the rule.
fn ranked(routes: &[(i64, &str, usize)], conditions: &str) -> Vec<(Key, Resource)> {
    let mut all = resources("");
    for (created_s, name, rule) in routes {
        let route: Route =
            weir_document::read("route.yaml", &format!("{{ path: /, backend: b{conditions} }}")).unwrap();
        let precedence =
            Precedence { created_s: *created_s, resource: (*name).to_owned(), position: (*rule, 0) };
        let route = Route { precedence: Some(Box::new(precedence)), ..route };
        all.push((Key::Route(format!("{name} {rule}")), Resource::Route(Arc::new(route))));
    }
    all
}

#[test]
fn oldest_route_wins_then_the_first_by_name() {
    let check = |routes: &[(i64, &str, usize)], expected: &str| {
        for conditions in ["", ", methods: [GET, PUT]"] {
            let applied = apply(&mut State::default(), ranked(routes, conditions), Policy::AllOrNothing);
            let table = applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused));
            assert_eq!(found(&table, "127.0.0.1:80", "a.test"), expected, "{routes:?}");
        }
    };
    check(&[(20, "a/a", 0), (10, "z/z", 0)], "z/z 0");
    check(&[(10, "b/a", 0), (10, "a/z", 0)], "a/z 0");
    check(&[(10, "a/a", 10), (10, "a/a", 9)], "a/a 9");
    check(&[(i64::MAX, "a/a", 0), (10, "b/b", 1)], "b/b 1");
}

#[test]
fn rejects_duplicate_routes_if_only_one_has_a_precedence() {
    let mut all = ranked(&[(10, "a/a", 0)], "");
    let route: Route = weir_document::read("route.yaml", "{ path: /, backend: b }").unwrap();
    all.push((Key::Route("routes[0]".to_owned()), Resource::Route(Arc::new(route))));
    let applied = apply(&mut State::default(), all, Policy::AllOrNothing);
    let reported: Vec<String> = applied.refused.iter().map(|(_, problem)| problem.to_string()).collect();
    assert_eq!(reported, ["a/a 0.path: routes[0] already matches path `/` for every host"]);
}
