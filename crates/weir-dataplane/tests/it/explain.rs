//! What `explain` says against what a gateway does, over a socket, for many routes and requests.

use std::sync::Arc;

use weir_config::{Batch, Change, Configuration, Policy, Rewrite, Route, Scope, State, Table};
use weir_dataplane::{Outcome, explain};

use crate::draw::{Draw, Drawn};
use crate::setup::{Answer, Client, Origin, Proxy};

const CONFIGURATIONS: u64 = 40;
const REQUESTS: usize = 250;
const ROUTES: usize = 10;

/// Answers with its name, and with what it was asked.
fn echo(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while let Some(request) = served.request() {
            let length = request.len();
            served.send(&format!(
                "HTTP/1.1 200 OK\r\nX-Backend: {name}\r\nContent-Length: {length}\r\n\r\n{request}"
            ));
        }
    })
}

/// A configuration at random: routes to three backends, of which one has no endpoint, some with a rewrite.
fn table(draw: &mut Draw<'_>, frame: &str) -> Arc<Table> {
    let mut configuration: Configuration = weir_document::read("drawn.yaml", frame).unwrap();
    configuration.paths = draw.rules();
    for _ in 0..ROUTES {
        let mut route = draw.route();
        route.backend = Some(["a", "b", "none"][draw.below(3)].to_owned());
        route.rewrite = draw.once_in(3).then(|| Rewrite::Prefix("/new/place".to_owned()));
        filter(draw, &mut route);
        configuration.routes.push(route);
    }
    let changes = configuration.into_resources().into_iter().map(|(key, r)| Change::Put(key, r)).collect();
    // Routes that contradict others are left out by this.
    let batch = Batch { version: 1, policy: Policy::EachAlone, changes };
    State::default().apply(batch).table.unwrap()
}

/// Gives the route one of the filters, or none.
fn filter(draw: &mut Draw<'_>, route: &mut Route) {
    let filters = [
        "{ redirect: { host: away.test, prefix: /moved } }",
        "{ respond: { status: 418, body: no coffee } }",
        "{ rewrite: { host: up.test, path: /whole } }",
        "{ request_headers: { set: { X-Set: s }, remove: [x-a, accept] } }",
    ];
    let Some(filter) = filters.get(draw.below(8)) else { return };
    let Route { redirect, respond, rewrite, request_headers, .. } =
        weir_document::read("filter.yaml", filter).unwrap();
    if redirect.is_some() || respond.is_some() {
        (route.backend, route.rewrite) = (None, None);
    }
    route.rewrite = rewrite.or(route.rewrite.take());
    (route.redirect, route.respond, route.request_headers) = (redirect, respond, request_headers);
}

/// The request as a client sends it.
fn text(request: &Drawn) -> String {
    let Drawn { method, host, target, fields } = request;
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

/// What the answer shows of the outcome.
fn outcome(answer: &Answer) -> (u16, String, String) {
    let field = |name: &str| answer.field(name).unwrap_or_default().to_owned();
    match answer.status {
        200 => (200, field("x-backend"), answer.body.clone()),
        status => (status, field("x-weir-error"), field("location")),
    }
}

#[test]
fn a_gateway_does_what_is_explained() {
    let origins = [echo("a"), echo("b")];
    let frame = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nbackends: {{ a: {{ endpoints: ['{}'] }}, \
         b: {{ endpoints: ['{}'] }}, none: {{ endpoints: [] }} }}",
        origins[0].address, origins[1].address
    );
    let proxy = Proxy::with(&frame);
    let mut client = proxy.connect();
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for seed in 0..CONFIGURATIONS {
        let mut draw = Draw::from_seed(seed);
        let table = table(&mut draw, &frame);
        proxy.gateway.apply(Arc::clone(&table)).unwrap();
        for _ in 0..REQUESTS {
            let request = text(&draw.request());
            let explanation = explain(&table, request.as_bytes(), Scope::default(), false).unwrap();
            let expected = match explanation.outcome.clone() {
                Outcome::Sent { backend, head, .. } => (200, backend, head),
                Outcome::ByRoute { status, head } => {
                    let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
                    (status, String::new(), location.unwrap_or_default().to_owned())
                }
                Outcome::Answered { cause, location, .. } => {
                    (cause.status(), cause.name().to_owned(), location.unwrap_or_default())
                }
            };
            let answer = client.ask(&request);
            assert_eq!(outcome(&answer), expected, "{request}\n{explanation}\nseed {seed}");
            assert_eq!(
                explanation.route.is_some(),
                matches!(answer.status, 200 | 302 | 418 | 503),
                "{explanation}"
            );
            *statuses.entry(answer.status).or_default() += 1;
            if answer.field("connection") == Some("close") {
                client = Client::connect(proxy.gateway.addresses()[0]);
            }
        }
    }
    let told = statuses.values().sum::<usize>();
    assert_eq!(told, CONFIGURATIONS as usize * REQUESTS);
    assert_eq!(statuses.keys().copied().collect::<Vec<_>>(), [200, 302, 307, 400, 404, 418, 503]);
    assert!(statuses.values().all(|&count| count > 30), "{statuses:?}");
}

#[test]
fn an_explanation_says_what_is_sent_and_why_others_are_not_asked() {
    let mut state = State::default();
    let table = crate::setup::compile(
        &mut state,
        "listeners: [{ address: 127.0.0.1:0 }]
routes:
  - { hosts: [shop.test], path: /api, rewrite: /v2, backend: b }
  - { hosts: [shop.test], path: /api, headers: { x-tenant: blue }, backend: none, name: blue }
  - { path: /, backend: b }
backends: { b: { endpoints: ['127.0.0.1:9'] }, none: { endpoints: [] } }",
    );
    let check = |request: &str, expected: &str| {
        let explanation = explain(&table, request.as_bytes(), Scope::default(), false).unwrap();
        assert_eq!(explanation.to_string(), expected);
    };
    check(
        "GET /x/../api/%61?b=c HTTP/1.1\r\nhost: shop.test\r\nConnection: close\r\nX-A: 1\r\n\r\n",
        "path   /api/a\nroute  routes[0]\nsent   to backend `b`:\n         GET /v2/a?b=c HTTP/1.1\n         \
         Host: shop.test\n         X-A: 1\nnot    routes[1] `blue`: there is no header `x-tenant`; it wants `blue`\n\
         not    routes[2]: it takes the request too, but the other's host is more specific\n",
    );
    check(
        "GET /api HTTP/1.1\r\nhost: shop.test\r\nX-Tenant: blue\r\n\r\n",
        "path   /api\nroute  routes[1] `blue`\nanswer 503 no_endpoint: the backend has no endpoint\n\
         not    routes[0]: it takes the request too, but the other asks for more headers\n\
         not    routes[2]: it takes the request too, but the other's host is more specific\n",
    );
    check(
        "GET /a%2F.. HTTP/1.1\r\nhost: h\r\n\r\n",
        "route  none\nanswer 400 bad_path: the path has a dot segment beside an encoded slash or a backslash\n",
    );
    assert!(explain(&table, b"GET / HTTP/1.1\r\n", Scope::default(), false).is_none());
}

#[test]
fn an_explanation_shows_what_a_route_answers_by_itself() {
    let table = crate::setup::compile(
        &mut State::default(),
        "listeners: [{ address: 127.0.0.1:0 }]
routes: [{ path: /away, redirect: { host: b.test, prefix: / } }]",
    );
    for (is_secure, scheme) in [(false, "http"), (true, "https")] {
        let request = b"GET /away/x HTTP/1.1\r\nhost: h:8080\r\n\r\n";
        let explanation = explain(&table, request, Scope::default(), is_secure).unwrap();
        let expected = format!(
            "path   /away/x\nroute  routes[0]\nanswer by the route:\n         HTTP/1.1 302 Found\n         \
             Location: {scheme}://b.test:8080/x\n         Content-Length: 0\n"
        );
        assert_eq!(explanation.to_string(), expected);
    }
}
