//! A property test: for all routes and requests, the compiled table finds the same route as the oracle.

use weir_config::{
    Batch, Change, Configuration, NormalTarget, Policy, RequestView, Route, State, Unroutable,
};
use weir_http::Field;

use crate::draw::{Draw, Drawn};
use crate::oracle::{self, Becomes};

const ROUTES_MAX: usize = 12;
const FRAME: &str = "listeners: [{ address: 127.0.0.1:80 }]\nbackends: { b: { endpoints: [] } }\n";

/// Draws a random configuration and `requests` random requests, and compares the table with the oracle. Returns how
/// many requests matched a route, and how many were rejected or redirected because of their path.
pub(crate) fn check(draw: &mut Draw<'_>, requests: usize) -> (usize, usize) {
    let rules = draw.rules();
    let drawn: Vec<Route> = (0..1 + draw.below(ROUTES_MAX)).map(|_| draw.route()).collect();
    let mut configuration: Configuration = weir_document::read("drawn.yaml", FRAME).expect("a valid frame");
    configuration.paths = rules;
    configuration.routes = drawn.clone();
    let changes =
        configuration.into_resources().into_iter().map(|(key, resource)| Change::Put(key, resource));
    // This policy rejects only the routes that conflict with others or that no request reaches.
    let batch = Batch { version: 1, policy: Policy::EachAlone, changes: changes.collect() };
    let applied = State::default().apply(batch);
    let table = applied.table.expect("the frame has a listener");
    let is_refused = |number: usize| applied.refused.iter().any(|(refused, _)| refused.name() == key(number));
    let routes: Vec<(usize, Route)> =
        drawn.into_iter().enumerate().filter(|(number, _)| !is_refused(*number)).collect();
    assert!(routes.iter().all(|(_, route)| oracle::reachable(route, &rules)), "{rules:?} {routes:?}");

    let mut tally = (0, 0);
    for _ in 0..requests {
        let request = draw.request();
        let (path, query) = split(&request.target);
        let normal = match (NormalTarget::of(&request.target, &rules), oracle::normal(path, &rules)) {
            (Ok(normal), Becomes::Path { matched, sent })
                if normal.path() == matched && normal.as_str() == sent.clone() + &with_mark(query) =>
            {
                normal
            }
            (Err(Unroutable::Refused(_)), Becomes::Refused) => {
                tally.1 += 1;
                continue;
            }
            (Err(Unroutable::Redirect(target)), Becomes::Led(path))
                if target == path.clone() + &with_mark(query) =>
            {
                tally.1 += 1;
                continue;
            }
            (found, expected) => panic!("{rules:?} {request:?}: {found:?}, not {expected:?}"),
        };
        assert_eq!(normal.query(), query, "{request:?}");
        let fields = fields(&request);
        let (path, query) = (normal.path(), normal.query());
        let view = RequestView {
            method: request.method,
            query,
            fields: &fields,
            ..RequestView::get(&request.host, path)
        };
        let found = table.find(&view).map(|found| (table.key(found.route).to_owned(), found.matched));
        let expected = oracle::find(&routes, &request, path).map(|(number, matched)| (key(number), matched));
        assert_eq!(found, expected, "{request:?}, routes {routes:?}");
        tally.0 += usize::from(found.is_some());
    }
    tally
}

fn key(number: usize) -> String {
    format!("routes[{number}]")
}

fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

fn with_mark(query: Option<&str>) -> String {
    query.map_or(String::new(), |query| format!("?{query}"))
}

fn fields(request: &Drawn) -> Vec<Field<'_>> {
    let field = |&(name, value): &(&'static str, &'static str)| Field { name, value: value.as_bytes() };
    request.fields.iter().map(field).collect()
}
