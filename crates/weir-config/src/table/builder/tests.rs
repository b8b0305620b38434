//! Incremental builds: a change rebuilds the parts that it affects, and shares all others.

use super::*;
use crate::change::{Batch, Change, Key, Policy, Resource};
use crate::collections::Sharded;
use crate::filters::Respond;
use crate::matching::RequestView;
use crate::model::{Listener, OneOrMany, Route, Settings};
use crate::state::State;
use crate::table::Table;

const HOSTS: usize = 3_000;

fn route(host: usize, path: &str, backend: &str) -> Change {
    let route = Route {
        hosts: vec![format!("h{host}.test")],
        exact: Some(OneOrMany::One(path.to_owned())),
        backend: Some(backend.to_owned()),
        ..Route::default()
    };
    put_route(&format!("r{host}{path}"), route)
}

fn put_route(key: &str, route: Route) -> Change {
    Change::Put(Key::Route(key.to_owned()), Resource::Route(Arc::new(route)))
}

fn backend(name: &str, port: u16) -> Change {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let backend = Backend { endpoints: vec![address.into()], ..Backend::default() };
    Change::Put(Key::Backend(name.to_owned()), Resource::Backend(Arc::new(backend)))
}

fn apply(state: &mut State, changes: Vec<Change>) -> Arc<Table> {
    let applied = state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused))
}

/// Many hosts, each with two routes and a backend.
fn large() -> (State, Arc<Table>) {
    let listener = Listener::plain("127.0.0.1:80".parse().unwrap());
    let mut changes = vec![Change::Put(Key::Listener("l".to_owned()), Resource::Listener(listener))];
    for host in 0..HOSTS {
        let name = format!("b{host}");
        changes.extend([backend(&name, 1), route(host, "/a", &name), route(host, "/b", &name)]);
    }
    let mut state = State::default();
    let table = apply(&mut state, changes);
    (state, table)
}

/// Numbers of parts that the new table does not share with the old one: pages of `routes`, `backends`, `filters` and
/// `series`, single `hosts`, and `shards` of hosts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rebuilt {
    routes: usize,
    backends: usize,
    filters: usize,
    series: usize,
    hosts: usize,
    shards: usize,
}

fn rebuilt(before: &Table, after: &Table) -> Rebuilt {
    fn pages<T>(before: &Pages<T>, after: &Pages<T>) -> usize {
        (0..after.page_count()).filter(|&page| !after.shares_page(before, page)).count()
    }
    let [was, is] = [before, after].map(|table| &table.parts.scopes.hosts(Scope::default()).exact);
    let is_other = |host: &usize| {
        let host = format!("h{host}.test");
        was.get(&host).map(Arc::as_ptr) != is.get(&host).map(Arc::as_ptr)
    };
    Rebuilt {
        routes: pages(&before.parts.routes, &after.parts.routes),
        backends: pages(before.backends(), after.backends()),
        filters: pages(before.filters(), after.filters()),
        series: pages(before.series(), after.series()),
        hosts: (0..HOSTS).filter(is_other).count(),
        shards: is.differing_from(was).0,
    }
}

#[test]
fn change_rebuilds_only_the_affected_parts() {
    let (mut state, first) = large();
    assert!(
        first.parts.routes.page_count() > 20
            && first.parts.scopes.hosts(Scope::default()).exact.differing_from(&Sharded::default()).0 > 20
    );
    let mut before = first;
    let mut check = |changes: Vec<Change>, expected: Rebuilt| {
        let after = apply(&mut state, changes);
        assert_eq!(rebuilt(&before, &after), expected);
        assert!(Arc::ptr_eq(&before.listeners, &after.listeners));
        before = after;
    };
    // A route that now matches different requests: rebuilds its host.
    let other = Route {
        hosts: vec!["h7.test".to_owned()],
        path: Some("/b".to_owned()),
        backend: Some("b7".to_owned()),
        ..Route::default()
    };
    check(vec![put_route("r7/b", other)], Rebuilt { routes: 1, hosts: 1, shards: 1, ..Rebuilt::default() });
    // A route that matches the same requests, but selects another backend: rebuilds no host.
    check(vec![route(8, "/a", "b9")], Rebuilt { routes: 1, ..Rebuilt::default() });
    // A backend with changed endpoints: rebuilds no routes.
    check(vec![backend("b9", 2)], Rebuilt { backends: 1, ..Rebuilt::default() });
    // Equal content: rebuilds nothing.
    check(vec![backend("b9", 2), route(8, "/a", "b9")], Rebuilt::default());
    // Removal of routes and their backend.
    let gone = ["r5/a", "r5/b"].map(|key| Change::Remove(Key::Route(key.to_owned())));
    let changes = gone.into_iter().chain([Change::Remove(Key::Backend("b5".to_owned()))]).collect();
    check(changes, Rebuilt { routes: 1, backends: 1, series: 1, hosts: 1, shards: 1, ..Rebuilt::default() });
    // Changing the number of workers rebuilds nothing.
    let settings = Settings { workers: Some(3), ..Settings::default() };
    check(vec![Change::Put(Key::Settings, Resource::Settings(Box::new(settings)))], Rebuilt::default());
}

#[test]
fn rejected_changes_leave_the_table_unchanged() {
    let (mut state, first) = large();
    let changes = vec![
        route(1, "/c", "b1"),
        Change::Remove(Key::Route("r2/a".to_owned())),
        Change::Remove(Key::Backend("b3".to_owned())),
        backend("b4", 9),
        route(6, "/a", "nowhere"),
    ];
    for policy in [Policy::AllOrNothing, Policy::EachAlone] {
        let batch = Batch { version: 1, policy, changes: changes.clone() };
        let applied = state.apply(batch);
        assert_eq!(applied.refused.len(), if policy == Policy::AllOrNothing { 3 } else { 2 }, "{policy:?}");
        let table = applied.table.unwrap_or_else(|| apply(&mut state, Vec::new()));
        let finds = |path| table.find(&RequestView::get("h1.test", path)).is_some();
        match policy {
            Policy::AllOrNothing => assert_eq!(rebuilt(&first, &table), Rebuilt::default()),
            Policy::EachAlone => assert!(finds("/a") && finds("/c")),
        }
    }
}

#[test]
fn hosts_with_equal_routes_share_paths_after_a_removal() {
    let (mut state, _) = large();
    let hosts = |tag: &str| (0..4).map(|n| format!("{tag}{n}.common.test")).collect::<Vec<_>>();
    let common = Route {
        hosts: hosts("x"),
        path: Some("/".to_owned()),
        backend: Some("b1".to_owned()),
        ..Route::default()
    };
    let own =
        Route { hosts: vec!["x3.common.test".to_owned()], path: Some("/own".to_owned()), ..common.clone() };
    let is_shared = |table: &Table| {
        let exact = &table.parts.scopes.hosts(Scope::default()).exact;
        let [first, last] = ["x0.common.test", "x3.common.test"].map(|host| exact.get(host).unwrap());
        Arc::ptr_eq(first, last)
    };
    assert!(is_shared(&apply(&mut state, vec![put_route("common", common)])));
    assert!(!is_shared(&apply(&mut state, vec![put_route("own", own)])));
    assert!(is_shared(&apply(&mut state, vec![Change::Remove(Key::Route("own".to_owned()))])));
}

#[test]
fn removing_everything_frees_everything() {
    let (mut state, table) = large();
    let keys = ["a", "b"].into_iter().flat_map(|path| (0..HOSTS).map(move |host| format!("r{host}/{path}")));
    let mut changes: Vec<Change> = keys.map(|key| Change::Remove(Key::Route(key))).collect();
    changes.extend((0..HOSTS).map(|host| Change::Remove(Key::Backend(format!("b{host}")))));
    let regex = Route {
        regex: Some("/[0-9]+".to_owned()),
        respond: Some(Box::new(Respond { status: 200, body: String::new(), headers: BTreeMap::new() })),
        listeners: vec!["127.0.0.1:80".to_owned()],
        ..Route::default()
    };
    apply(&mut state, vec![put_route("last", regex)]);
    changes.push(Change::Remove(Key::Route("last".to_owned())));
    let empty = apply(&mut state, changes);
    let hosts = empty.parts.scopes.hosts(Scope::default());
    assert!(hosts.exact.is_empty() && hosts.every.is_none() && empty.parts.scopes.all().count() == 1);
    let Parts { backends, by_name, routes, filters, .. } = &empty.parts;
    let left = (
        backends.iter().count(),
        routes.iter().count(),
        filters.iter().count(),
        empty.series().iter().count(),
    );
    assert_eq!((left, by_name.is_empty()), ((0, 0, 0, 0), true));
    assert!(
        state.resources.uses.backends.names().next().is_none()
            && state.resources.uses.listeners.names().next().is_none()
    );
    assert!(table.find(&RequestView::get("h2999.test", "/b")).is_some(), "the first table is unchanged");
    let again = apply(&mut state, vec![backend("b1", 1), route(1, "/a", "b1")]);
    assert_eq!(
        again.find(&RequestView::get("h1.test", "/a")).map(|found| found.route < 2 * HOSTS + 1),
        Some(true)
    );
}
