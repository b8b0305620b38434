//! The table against an oracle that tries every route in turn.

use super::*;
use crate::change::{Batch, Change, Policy};
use crate::model::{Configuration, OneOrMany};

/// A small generator of numbers, the same for a seed everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn path(&mut self) -> String {
        let segments = self.below(4);
        let mut path: String =
            (0..segments).map(|_| format!("/{}", self.pick(&["a", "b", "ab", ""]))).collect();
        if path.is_empty() || self.below(4) == 0 {
            path.push('/');
        }
        path
    }

    fn host(&mut self) -> String {
        let labels = 1 + self.below(4);
        (0..labels).map(|_| self.pick(&["x", "y", "com"])).collect::<Vec<_>>().join(".")
    }
}

fn table_of(routes: Vec<Route>) -> Option<Arc<Table>> {
    let configuration = Configuration {
        listeners: vec![Listener { address: "127.0.0.1:80".parse().unwrap(), name: None, tls: None }],
        workers: None,
        routes,
        backends: BTreeMap::from([("b".to_owned(), Backend { endpoints: vec![] })]),
        paths: PathRules::default(),
        limits: Limits::default(),
        timeouts: Timeouts::default(),
    };
    let changes = configuration.into_resources().into_iter().map(|(k, r)| Change::Put(k, r)).collect();
    State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes }).table
}

fn route(hosts: Vec<String>, path: String, exact: bool, tag: usize) -> Route {
    let (path, exact) = if exact { (None, Some(OneOrMany::One(path))) } else { (Some(path), None) };
    Route {
        name: None,
        hosts,
        path,
        exact,
        backend: "b".to_owned(),
        rewrite: Some(format!("/{tag}")),
        tokens: None,
    }
}

/// How specific the route is for the request, largest wins; and how many bytes of the path matched.
fn specificity(route: &Route, host: &str, path: &str) -> Option<((usize, usize, usize), usize)> {
    let host_rank = |pattern: &String| match pattern.strip_prefix('*') {
        None => (pattern == host).then_some(1000),
        Some(suffix) => (host.ends_with(suffix) && host.len() > suffix.len()).then_some(suffix.len()),
    };
    let by_host = if route.hosts.is_empty() { 0 } else { route.hosts.iter().filter_map(host_rank).max()? };
    if let Some(exact) = &route.exact {
        return exact.as_slice().iter().any(|e| e == path).then_some(((by_host, 1, 0), path.len()));
    }
    let prefix = route.path.as_deref()?;
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(((by_host, 0, prefix.len()), prefix.len()))
}

#[test]
fn finds_what_an_oracle_finds() {
    let mut compared = 0;
    for seed in 0..300 {
        let mut numbers = Numbers(seed);
        let mut routes: Vec<Route> = Vec::new();
        for tag in 0..1 + numbers.below(12) {
            let hosts = (0..numbers.below(3))
                .map(|_| if numbers.below(3) == 0 { format!("*.{}", numbers.host()) } else { numbers.host() })
                .collect();
            let candidate = route(hosts, numbers.path(), numbers.below(3) == 0, tag);
            routes.push(candidate);
            if table_of(routes.clone()).is_none() {
                routes.pop();
            }
        }
        let Some(table) = table_of(routes.clone()) else { continue };
        for _ in 0..60 {
            let (host, path) = (numbers.host(), numbers.path());
            let expected = routes
                .iter()
                .filter_map(|r| specificity(r, &host, &path).map(|(rank, matched)| (rank, matched, r)))
                .max_by_key(|(rank, ..)| *rank)
                .map(|(_, matched, r)| (r.rewrite.clone().unwrap_or_default(), matched));
            let authority = format!("{}:8080", host.to_ascii_uppercase());
            let found = table
                .find(&authority, &path)
                .map(|m| (m.target.rewrite.as_deref().unwrap_or_default().to_owned(), m.matched));
            assert_eq!(found, expected, "seed {seed}, {host}{path}, routes {routes:?}");
            compared += usize::from(expected.is_some());
        }
    }
    assert!(compared > 1000, "only {compared} of the lookups found anything");
}

#[test]
fn hosts_with_the_same_routes_share_their_paths() {
    let hosts = (0..1000).map(|n| format!("h{n}.example.com")).collect();
    let paths = (0..100).map(|n| format!("/get/{n}")).collect();
    let mut many = route(hosts, "/".to_owned(), true, 0);
    many.exact = Some(OneOrMany::Many(paths));
    let table = table_of(vec![many]).unwrap();
    assert_eq!(table.path_tables.len(), 1);
    assert!(table.find("h999.example.com", "/get/99").is_some());
    assert!(table.find("h999.example.com", "/get/100").is_none());
    assert!(table.find("other.example.com", "/get/1").is_none());
}

#[test]
fn a_hundred_thousand_routes_are_no_matter() {
    let routes = (0..100_000)
        .map(|n| route(vec![format!("h{}.x", n / 100)], format!("/p/{}", n % 100), n % 2 == 0, n))
        .collect();
    let table = table_of(routes).unwrap();
    let found = table.find("h777.x", "/p/55").unwrap();
    assert_eq!(found.target.rewrite.as_deref(), Some("/77755"));
    assert_eq!(table.find("h777.x", "/p/55/deeper").unwrap().matched, 5);
    assert!(table.find("h777.x", "/p/56/deeper").is_none());
}
