//! A table after many incremental changes equals a table that is compiled from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::{
    Backend, BackendLimits, Batch, Change, Content, Key, Listener, NormalTarget, Policy, RequestView,
    Resource, Retries, Route, Settings, State, Table, WeightedBackend,
};
use weir_http::Field;

use crate::draw::{Draw, Drawn, PATH_PATTERNS};

const ROUTES: usize = 14;
const BACKENDS: [&str; 3] = ["b", "c", "d"];
const FILES: [&str; 2] = ["s", "t"];
/// The listeners' keys and ports. The first listener has no name and is never removed.
const LISTENERS: [(&str, u16); 3] = [("listeners[0]", 80), ("listeners[1]", 81), ("listeners[2]", 82)];

/// A state, and the resources that it should contain after all batches.
#[derive(Default)]
struct World {
    state: State,
    resources: BTreeMap<Key, Resource>,
}

impl World {
    fn new() -> World {
        let mut world = World::default();
        let listener = Resource::Listener(listener(0, false));
        let changes = vec![
            Change::Put(Key::Settings, Resource::Settings(Box::default())),
            Change::Put(Key::Listener(LISTENERS[0].0.to_owned()), listener),
        ];
        assert!(world.apply(Policy::AllOrNothing, changes).is_some());
        world
    }

    /// Applies a batch with at most one change per resource, and updates the expected resources.
    fn apply(&mut self, policy: Policy, changes: Vec<Change>) -> Option<Arc<Table>> {
        let applied = self.state.apply(Batch { version: 1, policy, changes: changes.clone() });
        let refused: BTreeSet<&Key> = applied.refused.iter().map(|(key, _)| key).collect();
        let table = applied.table?;
        for change in changes {
            match change {
                Change::Put(key, _) | Change::Remove(key) if refused.contains(&key) => {}
                Change::Put(key, resource) => drop(self.resources.insert(key, resource)),
                Change::Remove(key) => drop(self.resources.remove(&key)),
            }
        }
        Some(table)
    }

    fn made_anew(&self) -> Arc<Table> {
        let changes = self.resources.iter().map(|(key, r)| Change::Put(key.clone(), r.clone())).collect();
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let applied = State::default().apply(batch);
        applied.table.unwrap_or_else(|| panic!("the active resources are consistent: {:?}", applied.refused))
    }
}

fn listener(index: usize, is_named: bool) -> Listener {
    let plain = Listener::plain(SocketAddr::from(([127, 0, 0, 1], LISTENERS[index].1)));
    Listener { name: is_named.then(|| format!("l{index}")), ..plain }
}

fn batch(draw: &mut Draw<'_>, there: &BTreeMap<Key, Resource>) -> Vec<Change> {
    let mut changes: BTreeMap<Key, Change> = BTreeMap::new();
    for _ in 0..1 + draw.below(6) {
        let (key, mut resource) = resource(draw);
        if let (Resource::Route(drawn), Some(Resource::Route(route))) = (&resource, there.get(&key))
            && !draw.once_in(3)
        {
            resource = Resource::Route(Arc::new(altered(route, drawn, draw.below(9 + PATH_PATTERNS.len()))));
        }
        let is_gone = draw.once_in(4) && !matches!(&key, Key::Listener(name) if name == LISTENERS[0].0);
        let change = match is_gone {
            true => Change::Remove(key.clone()),
            false => Change::Put(key.clone(), resource),
        };
        changes.insert(key, change);
    }
    // The order of changes in a batch must not matter.
    let mut changes: Vec<Change> = changes.into_values().collect();
    let first = draw.below(changes.len());
    changes.rotate_left(first);
    changes
}

fn resource(draw: &mut Draw<'_>) -> (Key, Resource) {
    match draw.below(12) {
        0 => {
            let settings = Settings { paths: draw.rules(), ..Settings::default() };
            (Key::Settings, Resource::Settings(Box::new(settings)))
        }
        1 => {
            let index = draw.below(LISTENERS.len());
            let is_named = index > 0 && !draw.once_in(3);
            (Key::Listener(LISTENERS[index].0.to_owned()), Resource::Listener(listener(index, is_named)))
        }
        2 | 3 => {
            let requests = draw.once_in(2).then_some(5);
            let limits = BackendLimits { requests, ..BackendLimits::default() };
            let backend = Backend { limits, ..Backend::default() };
            (Key::Backend(pick(draw, &BACKENDS)), Resource::Backend(Arc::new(backend)))
        }
        4 => {
            let content = Content::from(format!("token{}\n", draw.below(3)).into_bytes());
            (Key::File(pick(draw, &FILES)), Resource::File(content))
        }
        _ => {
            let key = Key::Route(format!("routes[{}]", draw.below(ROUTES)));
            (key, Resource::Route(Arc::new(route(draw))))
        }
    }
}

fn route(draw: &mut Draw<'_>) -> Route {
    let mut route = draw.route();
    route.backend = Some(pick(draw, &BACKENDS));
    if draw.once_in(4) {
        let weigh = |backend: &&str| WeightedBackend { backend: (*backend).to_owned(), weight: 1 };
        route.backends = Some(BACKENDS[..1 + draw.below(3)].iter().map(weigh).collect());
        route.backend = None;
    }
    route.metrics_group = draw.once_in(3).then(|| pick(draw, &["g", "b"]));
    route.retries = draw.once_in(5).then(|| Box::new(Retries::default()));
    route.tokens = draw.once_in(5).then(|| pick(draw, &FILES));
    if draw.once_in(5) {
        route.listeners = vec![format!("l{}", 1 + draw.below(2))];
    }
    route
}

/// A copy of `route` with one property of `other`; `thing` selects the property.
fn altered(route: &Route, other: &Route, thing: usize) -> Route {
    let (mut route, other) = (route.clone(), other.clone());
    match thing {
        0 => route.methods = other.methods,
        1 => route.headers = other.headers,
        2 => route.query = other.query,
        3 => route.hosts = other.hosts,
        4 => route.listeners = other.listeners,
        5 => (route.backend, route.backends) = (other.backend, other.backends),
        6 => (route.path, route.exact, route.regex) = (other.path, other.exact, other.regex),
        7 => route.retries = other.retries,
        9.. if route.regex.is_some() => route.regex = Some(PATH_PATTERNS[thing - 9].0.to_owned()),
        _ => route.tokens = other.tokens,
    }
    route
}

fn pick(draw: &mut Draw<'_>, words: &[&str]) -> String {
    words[draw.below(words.len())].to_owned()
}

/// What `table` returns for `request`, as text. The request arrives at the listener with port `port`.
fn reported(table: &Table, request: &Drawn, port: u16) -> String {
    let Ok(normal) = NormalTarget::of(&request.target, &table.paths) else { return "not routed".to_owned() };
    let field = |&(name, value): &(&'static str, &'static str)| Field { name, value: value.as_bytes() };
    let fields: Vec<Field<'_>> = request.fields.iter().map(field).collect();
    let view = RequestView {
        method: request.method,
        query: normal.query(),
        fields: &fields,
        scope: table.scope(SocketAddr::from(([127, 0, 0, 1], port))),
        ..RequestView::get(&request.host, normal.path())
    };
    let (passed_over, _) = table.passed_over(&view, 4);
    let Some(found) = table.find(&view) else { return format!("no route, {passed_over:?}") };
    let target = found.target;
    let backend = |position: usize| {
        let entry = table.backends().get(position)?;
        assert_eq!(table.backend_named(&entry.name), Some(position));
        Some((entry.name.as_str(), &entry.backend, entry.counts_requests))
    };
    let series = |position: u32| &table.series()[position as usize];
    let filters = target.filters.map(|position| &table.filters()[position as usize]);
    let weighted = filters.map(|filters| match filters.action() {
        weir_config::Action::OneOf(weighted) => {
            weighted.iter().map(|w| (backend(w.backend), w.weight, series(w.series))).collect()
        }
        _ => Vec::new(),
    });
    let tokens: Option<Vec<bool>> = target
        .tokens
        .as_ref()
        .map(|tokens| (0..3).map(|number| tokens.has(format!("token{number}").as_bytes())).collect());
    let route = filters.map(|filters| (&filters.key, &filters.route));
    format!(
        "{} {} to {:?} {:?} {:?} {:?} {tokens:?} {weighted:?} {route:?}, {passed_over:?}",
        table.label(found.route),
        found.matched,
        backend(target.backend),
        target.rewrite,
        series(target.series),
        target.filters.is_some(),
    )
}

/// Compares both tables with random requests. Returns how many requests matched a route.
fn compare(table: &Table, scratch: &Table, draw: &mut Draw<'_>, requests: usize) -> usize {
    assert_eq!(table.shown(), scratch.shown());
    let mut routed = 0;
    for _ in 0..requests {
        let (request, port) = (draw.request(), LISTENERS[draw.below(LISTENERS.len())].1);
        let (found, expected) = (reported(table, &request, port), reported(scratch, &request, port));
        assert_eq!(found, expected, "{request:?}");
        routed += usize::from(found.starts_with("routes["));
    }
    routed
}

#[test]
fn incremental_changes_equal_a_fresh_build() {
    let (mut routed, mut whole, mut refused) = (0, 0, 0);
    for seed in 0..60 {
        let draw = &mut Draw::from_seed(seed);
        let mut world = World::new();
        let mut former: Option<(Arc<Table>, Arc<Table>)> = None;
        for _ in 0..40 {
            let policy = if draw.once_in(3) { Policy::AllOrNothing } else { Policy::EachAlone };
            let Some(table) = world.apply(policy, batch(draw, &world.resources)) else {
                refused += 1;
                continue;
            };
            whole += 1;
            let scratch = world.made_anew();
            routed += compare(&table, &scratch, draw, 12);
            // The previous version is unchanged.
            if let Some((before, scratch)) = former.replace((table, scratch)) {
                compare(&before, &scratch, draw, 2);
            }
        }
        // Rejected batches changed nothing.
        let table = world.apply(Policy::EachAlone, Vec::new()).unwrap();
        compare(&table, &world.made_anew(), draw, 20);
    }
    assert!(
        routed > 2_000 && whole > 1_000 && refused > 100,
        "{routed} requests matched a route, {whole} batches applied, {refused} rejected: not enough coverage"
    );
}
