//! Compares `explain` with the responses of a gateway for random routes and requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::{
    Batch, Change, Configuration, Key, Policy, Resource, Rewrite, Route, Scope, State, Table, stable_hash,
};
use weir_dataplane::{Cause, Explanation, Outcome, explain};

use crate::draw::{Draw, Drawn};
use crate::setup::{Answer, Client, Origin, Proxy, compile};

const CONFIGURATIONS: u64 = 60;
const REQUESTS: usize = 250;
const ROUTES: usize = 14;

/// The addresses of the listeners. Their names are `l0` and `l1`, by position.
const LISTENERS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// The backends. `A` and `B` stand for the addresses of the origins.
const BACKENDS: [(&str, &str); 6] = [
    ("a", "endpoints: ['A']"),
    ("b", "endpoints: ['B']"),
    ("mixed", "endpoints: [{ address: 'A', weight: 0 }, 'B']"),
    ("none", "endpoints: []"),
    ("idle", "endpoints: [{ address: 'A', weight: 0 }]"),
    ("kept", "endpoints: [{ address: 'A', weight: 0 }], balance: { sticky: { cookie: at } }"),
];

/// Route fields that make the gateway do something in addition to forwarding to the backend, or instead of it.
const ACTIONS: [&str; 10] = [
    "{ redirect: { host: away.test, prefix: /moved } }",
    "{ respond: { status: 418, body: no coffee, headers: { X-Kind: tea, X-Told: here } } }",
    "{ respond: { body: here } }",
    "{ rewrite: { host: up.test, path: /whole } }",
    "{ request_headers: { set: { X-Set: s }, remove: [x-a, accept] } }",
    "{ request_headers: { add: { X-A: more, X-Add: one } } }",
    "{ backends: [{ backend: a, weight: 2 }, { backend: b }, { backend: none, weight: 0 }] }",
    "{ backends: [{ backend: none, weight: 2 }, { backend: mixed }, { backend: kept }] }",
    "{ backends: [{ backend: a }, { backend: idle }], request_headers: { set: { X-Set: w } } }",
    "{ backends: [{ backend: a, weight: 0 }] }",
];

/// Route fields that change responses.
const ANSWERS: [&str; 4] = [
    "{ response_headers: { set: { X-Told: anew }, add: { Vary: X-A }, remove: [x-kind] } }",
    "{ cors: { origins: ['https://app.test'], methods: [PUT], headers: [X-A], expose: [X-Kind], max_age: 10m } }",
    "{ cors: { origins: ['https://*.test'], credentials: true, methods: ['*'], headers: ['*'] } }",
    "{ cors: { origins: ['*'] } }",
];

const PAGES: [&str; 2] = ["https://app.test", "https://other.example"];

/// The response to a request as the client sees it.
#[derive(Debug)]
struct Seen {
    status: u16,
    /// Who responded: the name of the origin, or `route`; for an error, its cause.
    by: String,
    /// The response content to compare: the request that the origin received, the headers of a route's own response, or
    /// the `Location` header of an error (empty if there is none). `None` if unknown.
    rest: Option<String>,
}

/// The outcomes of all requests.
#[derive(Debug, Default)]
struct Tally {
    kinds: BTreeMap<(u16, String), usize>,
    /// Requests that went to a weighted backend other than the first one.
    by_another: usize,
    /// How many responses of routes contain each of [`FIELDS`].
    fields: [usize; FIELDS.len()],
}

/// Fields that routes add to their own responses.
const FIELDS: [&str; 3] =
    ["Access-Control-Allow-Origin: https://app.test", "Access-Control-Max-Age: 600", "X-Told: anew"];

impl Seen {
    fn is(&self, expected: &Seen) -> bool {
        let is_as_told = expected.rest.is_none() || self.rest == expected.rest;
        (self.status, &self.by) == (expected.status, &expected.by) && is_as_told
    }
}

impl Tally {
    fn count(&mut self, seen: Seen, first_in_turn: &Seen) {
        self.by_another += usize::from(!seen.is(first_in_turn));
        if seen.by == "route" {
            let head = seen.rest.as_deref().unwrap_or_default();
            let has = |field: &str| head.lines().any(|line| line == field);
            self.fields.iter_mut().zip(FIELDS).for_each(|(count, field)| *count += usize::from(has(field)));
        }
        *self.kinds.entry((seen.status, seen.by)).or_default() += 1;
    }

    /// Checks that every possible outcome occurred.
    fn check(&self) {
        assert_eq!(self.kinds.values().sum::<usize>(), CONFIGURATIONS as usize * REQUESTS);
        let kinds: Vec<(u16, &str)> = self.kinds.keys().map(|(status, by)| (*status, by.as_str())).collect();
        let all = [
            (200, "a"),
            (200, "b"),
            (200, "route"),
            (204, "route"),
            (302, "route"),
            (307, "escaped_slashes"),
            (400, "bad_path"),
            (400, "malformed_request"),
            (401, "no_token"),
            (401, "unknown_token"),
            (404, "no_route"),
            (413, "body_too_large"),
            (418, "route"),
            (500, "no_backend"),
            (501, "connect_unsupported"),
            (503, "no_endpoint"),
        ];
        assert_eq!(kinds, all);
        let mut counts = self.kinds.values().chain(&self.fields).chain([&self.by_another]);
        assert!(counts.all(|&count| count >= 20), "{self:?}");
    }
}

/// An origin that responds with its name and with the request that it got.
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

/// Two listeners and the backends, without routes.
fn frame(a: SocketAddr, b: SocketAddr) -> String {
    let listeners: Vec<String> = (0..)
        .zip(LISTENERS)
        .map(|(number, ip)| format!("{{ address: '{ip}:0', name: l{number} }}"))
        .collect();
    let backends = BACKENDS.map(|(name, text)| {
        let text = text.replace("'A'", &format!("'{a}'")).replace("'B'", &format!("'{b}'"));
        format!("{name}: {{ {text} }}")
    });
    format!(
        "listeners: [{}]\nworkers: 1\nlimits: {{ body: 4B }}\nbackends: {{ {} }}",
        listeners.join(", "),
        backends.join(", ")
    )
}

/// A random configuration, and its routes.
fn table(draw: &mut Draw<'_>, frame: &str) -> (Arc<Table>, Vec<Route>) {
    let mut configuration: Configuration = weir_document::read("drawn.yaml", frame).unwrap();
    configuration.paths = draw.rules();
    configuration.routes = (0..ROUTES).map(|_| route(draw)).collect();
    let routes = configuration.routes.clone();
    let tokens = (Key::File("t.lst".to_owned()), Resource::File(b"known\n".to_vec().into()));
    let resources = configuration.into_resources().into_iter().chain([tokens]);
    let changes = resources.map(|(key, resource)| Change::Put(key, resource)).collect();
    // This policy rejects only the routes that conflict with others.
    let batch = Batch { version: 1, policy: Policy::EachAlone, changes };
    (State::default().apply(batch).table.unwrap(), routes)
}

fn route(draw: &mut Draw<'_>) -> Route {
    let mut route = draw.route();
    route.backend = Some(BACKENDS[draw.below(BACKENDS.len())].0.to_owned());
    route.rewrite = draw.once_in(3).then(|| Rewrite::Prefix("/new/place".to_owned()));
    if draw.once_in(3) {
        route.listeners = vec![format!("l{}", draw.below(LISTENERS.len()))];
    }
    route.tokens = draw.once_in(5).then(|| "t.lst".to_owned());
    if !draw.once_in(3) {
        put_in(&mut route, ACTIONS[draw.below(ACTIONS.len())]);
    }
    if draw.once_in(2) {
        put_in(&mut route, ANSWERS[draw.below(ANSWERS.len())]);
    }
    route
}

/// Sets these fields of the route, and removes fields that can't be combined with them.
fn put_in(route: &mut Route, fields: &str) {
    let more: Route = weir_document::read("fields.yaml", fields).unwrap();
    if more.redirect.is_some() || more.respond.is_some() {
        route.rewrite = None;
    }
    if more.redirect.is_some() || more.respond.is_some() || more.backends.is_some() {
        route.backend = None;
    }
    route.redirect = more.redirect.or(route.redirect.take());
    route.respond = more.respond.or(route.respond.take());
    route.backends = more.backends.or(route.backends.take());
    route.rewrite = more.rewrite.or(route.rewrite.take());
    route.request_headers = more.request_headers.or(route.request_headers.take());
    route.response_headers = more.response_headers.or(route.response_headers.take());
    route.cors = more.cors.or(route.cors.take());
}

/// The cookie value that selects the endpoint at this address for a sticky client.
fn id(address: SocketAddr) -> String {
    format!("{:016x}", stable_hash(address.to_string().as_bytes()))
}

/// The headers and the body of a random request. Some requests have the cookie of the endpoint at `kept`.
fn request(draw: &mut Draw<'_>, kept: SocketAddr) -> (String, String) {
    let Drawn { mut method, host, target, fields } = draw.request();
    if draw.once_in(50) {
        let target = ["h.test:443", "[::1]:80", "h..test:80", "/"][draw.below(4)];
        return (format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"), String::new());
    }
    let mut fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    if draw.once_in(3) {
        fields += &format!("Origin: {}\r\n", PAGES[draw.below(PAGES.len())]);
    }
    if draw.once_in(3) {
        method = "OPTIONS";
        fields += "Access-Control-Request-Method: PUT\r\n";
        fields += if draw.once_in(2) { "Access-Control-Request-Headers: x-a\r\n" } else { "" };
    }
    if draw.once_in(2) {
        fields += ["Authorization: Bearer known\r\n", "Authorization: Bearer other\r\n"][draw.below(2)];
    }
    if draw.once_in(2) {
        let id = if draw.once_in(4) { "00ff".to_owned() } else { id(kept) };
        fields += &format!("Cookie: x=1; at={id}\r\n");
    }
    let body = ["", "", "", "body", "too long"][draw.below(5)];
    if !body.is_empty() {
        fields += &format!("Content-Length: {}\r\n", body.len());
    }
    (format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"), body.to_owned())
}

fn seen(answer: &Answer) -> Seen {
    let status = answer.status;
    let seen = |by: &str, rest: String| Seen { status, by: by.to_owned(), rest: Some(rest) };
    match (answer.field("x-backend"), answer.field("x-weir-error")) {
        (Some(origin), _) => seen(origin, answer.body.clone()),
        (None, Some(cause)) => seen(cause, answer.field("location").unwrap_or_default().to_owned()),
        (None, None) => {
            let is_own = |line: &&str| {
                line.starts_with("Date: ") || line.starts_with("Connection: ") || *line == "\r\n"
            };
            seen("route", answer.head.split_inclusive("\r\n").filter(|line| !is_own(line)).collect())
        }
    }
}

/// The expected response if the request goes to this backend. `sent` is the upstream request; `None` if unknown.
fn seen_of(backend: &str, request: &str, sent: Option<String>, kept: SocketAddr) -> Seen {
    let origin = match backend {
        "a" => "a",
        "b" | "mixed" => "b",
        "kept" if request.contains(&id(kept)) => "a",
        _ => return Seen { status: 503, by: "no_endpoint".to_owned(), rest: Some(String::new()) },
    };
    Seen { status: 200, by: origin.to_owned(), rest: sent }
}

/// The possible responses according to the explanation. An explanation shows only one of several weighted backends, but
/// any of them can get the request.
fn expected(
    explanation: &Explanation,
    route: Option<&Route>,
    (request, body): (&str, &str),
    kept: SocketAddr,
) -> Vec<Seen> {
    let weighted = route.and_then(|route| route.backends.as_deref()).unwrap_or_default();
    let in_turn = || weighted.iter().filter(|weighted| weighted.weight > 0);
    let any = |sent: Option<String>| -> Vec<Seen> {
        in_turn().map(|weighted| seen_of(&weighted.backend, request, sent.clone(), kept)).collect()
    };
    match &explanation.outcome {
        Outcome::Sent { backend, head, .. } => {
            let sent = Some(format!("{head}{body}"));
            let reported = seen_of(backend, request, sent.clone(), kept);
            assert_eq!(reported.status, 200, "{request}{explanation}");
            if weighted.is_empty() {
                return vec![reported];
            }
            assert!(in_turn().any(|weighted| weighted.backend == *backend), "{explanation}");
            any(sent)
        }
        Outcome::Answered { cause: Cause::NoEndpoint, .. } if !weighted.is_empty() => any(None),
        Outcome::Answered { cause, location, .. } => {
            let rest = Some(location.clone().unwrap_or_default());
            vec![Seen { status: cause.status(), by: cause.name().to_owned(), rest }]
        }
        Outcome::ByRoute { status, head } => {
            vec![Seen { status: *status, by: "route".to_owned(), rest: Some(head.clone()) }]
        }
    }
}

/// The route of an explanation. Routes of this test have no names.
fn route_of<'r>(explanation: &Explanation, routes: &'r [Route]) -> Option<&'r Route> {
    let key = explanation.route.as_deref()?;
    let position = key.strip_prefix("routes[").and_then(|rest| rest.strip_suffix(']')).unwrap();
    Some(&routes[position.parse::<usize>().unwrap()])
}

#[test]
fn gateway_behaves_as_explained() {
    let origins = [echo("a"), echo("b")];
    let kept = origins[0].address;
    let frame = frame(kept, origins[1].address);
    let proxy = Proxy::with(&frame);
    let addresses = LISTENERS.map(|ip| {
        let all = proxy.gateway.addresses();
        *all.iter().find(|address| address.ip().to_string() == ip).unwrap()
    });
    let mut clients = addresses.map(Client::connect);
    let mut tally = Tally::default();
    for seed in 0..CONFIGURATIONS {
        let mut draw = Draw::from_seed(seed);
        let (table, routes) = table(&mut draw, &frame);
        proxy.gateway.apply(Arc::clone(&table)).unwrap();
        for _ in 0..REQUESTS {
            let (request, body) = request(&mut draw, kept);
            let listener = draw.below(LISTENERS.len());
            let scope = table.scope(table.listener_ids()[listener]);
            let explanation = explain(&table, request.as_bytes(), scope, false).unwrap();
            let route = route_of(&explanation, &routes);
            let expected = expected(&explanation, route, (&request, &body), kept);
            let answer = clients[listener].ask(&format!("{request}{body}"));
            let seen = seen(&answer);
            assert!(
                expected.iter().any(|expected| seen.is(expected)),
                "{request}\n{explanation}\nseed {seed}, listener {listener}: {seen:?}, not {expected:?}"
            );
            let is_unrouted =
                ["bad_path", "escaped_slashes", "no_route", "connect_unsupported", "malformed_request"]
                    .contains(&seen.by.as_str());
            assert_eq!(route.is_none(), is_unrouted, "{explanation}");
            tally.count(seen, &expected[0]);
            if answer.field("connection") == Some("close") {
                clients[listener] = Client::connect(addresses[listener]);
            }
        }
    }
    tally.check();
}

#[test]
fn endpoint_without_weight_serves_only_its_sticky_clients() {
    let origins = [echo("a"), echo("b")];
    let kept = origins[0].address;
    let routes = "routes: [{ path: /idle, backend: idle }, { path: /kept, backend: kept }]";
    let text = format!("{}\n{routes}", frame(kept, origins[1].address));
    let mut proxy = Proxy::with(&text);
    let table = compile(&mut proxy.state, &text);
    let cookie = |id: &str| format!("Cookie: at={id}\r\n");
    let (own, other) = (cookie(&id(kept)), cookie(&id(origins[1].address)));
    for (path, fields, is_sent) in [
        ("/idle", "", false),
        ("/idle", own.as_str(), false),
        ("/kept", "", false),
        ("/kept", "Cookie: at=none\r\n", false),
        ("/kept", other.as_str(), false),
        ("/kept", own.as_str(), true),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let outcome = explain(&table, request.as_bytes(), Scope::default(), false).unwrap().outcome;
        let answer = proxy.connect().ask(&request);
        match is_sent {
            true => {
                assert!(matches!(outcome, Outcome::Sent { .. }), "{request}{outcome:?}");
                assert_eq!(answer.field("x-backend"), Some("a"), "{request}");
            }
            false => {
                let is_none = matches!(outcome, Outcome::Answered { cause: Cause::NoEndpoint, .. });
                assert!(is_none, "{request}{outcome:?}");
                assert_eq!(answer.error(), (503, "no_endpoint"), "{request}");
            }
        }
    }
}

#[test]
fn explain_shows_the_upstream_request_and_skipped_routes() {
    let mut state = State::default();
    let table = compile(
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
        "path      /api/a (requested as /x/../api/%61)\nroute     routes[0]\nsent      to backend `b`:\n          GET /v2/a?b=c HTTP/1.1\n          \
         Host: shop.test\n          X-A: 1\nskipped   routes[1] `blue`: the request has no header `x-tenant`; required: `blue`\n\
         skipped   routes[2]: matches, but the chosen route has a more specific host\n",
    );
    check(
        "GET /api HTTP/1.1\r\nhost: shop.test\r\nX-Tenant: blue\r\n\r\n",
        "path      /api\nroute     routes[1] `blue`\nresponse  503 no_endpoint: backend has no usable endpoint\n\
         skipped   routes[0]: matches, but the chosen route requires more headers\n\
         skipped   routes[2]: matches, but the chosen route has a more specific host\n",
    );
    check(
        "GET /a%2F.. HTTP/1.1\r\nhost: h\r\n\r\n",
        "route     none\nresponse  400 bad_path: path contains an encoded slash or a backslash; send `/`\n",
    );
    assert!(explain(&table, b"GET / HTTP/1.1\r\n", Scope::default(), false).is_none());
}

#[test]
fn explain_counts_further_skipped_routes() {
    let check = |count: usize, end: &str| {
        let routes: String =
            (0..count).map(|n| format!("  - {{ path: /r{n}, respond: {{ status: 204 }} }}\n")).collect();
        let text = format!("listeners: [{{ address: 127.0.0.1:0 }}]\nroutes:\n{routes}");
        let table = compile(&mut State::default(), &text);
        let request = b"GET /r0 HTTP/1.1\r\nhost: h\r\n\r\n";
        let reported = explain(&table, request, Scope::default(), false).unwrap().to_string();
        assert_eq!(reported.matches("skipped").count(), 5, "{reported}");
        assert!(reported.ends_with(end), "{reported}");
    };
    check(6, "matches only paths below `/r5`\n");
    check(7, "\n          … and 1 more route\n");
    check(20, "\n          … and 14 more routes\n");
}

#[test]
fn explain_shows_the_response_of_a_route() {
    let table = compile(
        &mut State::default(),
        "listeners: [{ address: 127.0.0.1:0 }]
routes: [{ path: /away, redirect: { host: b.test, prefix: / } }]",
    );
    for (is_secure, scheme) in [(false, "http"), (true, "https")] {
        let request = b"GET /away/x HTTP/1.1\r\nhost: h:8080\r\n\r\n";
        let explanation = explain(&table, request, Scope::default(), is_secure).unwrap();
        let expected = format!(
            "path      /away/x\nroute     routes[0]\nresponse  from the route:\n          HTTP/1.1 302 Found\n          \
             Location: {scheme}://b.test:8080/x\n          Content-Length: 0\n"
        );
        assert_eq!(explanation.to_string(), expected);
    }
}
