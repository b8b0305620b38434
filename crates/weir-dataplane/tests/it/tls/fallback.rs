//! Routes and certificates come and go under load, with clients of every kind. Each response must come from a route
//! that was active at some time during the request, and each handshake must use a certificate that was active at some
//! time during the handshake.
//!
//! ```text
//! case       exact host --> wildcard --> wider wildcard --> every host
//! versions        7           absent           2              always present
//! ```
//!
//! Every step of a case is a route that matches the request of the case. Steps are added and removed independently. The
//! first present step must get the request, whichever steps follow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::ClientConfig;
use weir_config::{Change, Key, Listener, Resource, Route};

use super::authority::{Authority, Leaf, SecureClient, connect};
use super::changes::{ANSWERS_A_CHANGE, bring, echo, wait_for_answers};
use crate::setup::{Client, Origin, Proxy};
use crate::versions::Versions;

const CHANGES: usize = 600;
/// Maximum number of steps that one batch adds, removes or changes. A step is one route or one certificate of a
/// [`Case`].
const STEPS_A_CHANGE: usize = 4;
const BACKENDS: usize = 4;
/// Number of certificates of a step. Version `v` of the step uses the certificate at index `v % LEAVES`.
const LEAVES: usize = 2;

/// A request and the routes that can match it, from the most specific to the least. If none of them is present, the
/// route for every host matches.
struct Case {
    host: &'static str,
    start: &'static str,
    fields: &'static str,
    routes: &'static [&'static str],
    /// The certificate names that match the case's host, the most specific first.
    certificates: &'static [&'static str],
}

static CASES: [Case; 6] = [
    Case {
        host: "a.b.hosts.test",
        start: "GET /x",
        fields: "",
        routes: &[
            "hosts: [a.b.hosts.test, c.b.hosts.test], path: /",
            "hosts: ['*.b.hosts.test'], path: /",
            "hosts: ['*.hosts.test'], path: /x",
            "hosts: ['*.hosts.test'], path: /",
        ],
        certificates: &["a.b.hosts.test", "*.b.hosts.test"],
    },
    Case {
        host: "paths.test",
        start: "GET /p/q/r",
        fields: "",
        routes: &[
            "hosts: [paths.test], exact: [/p/q/s, /p/q/r]",
            "hosts: [paths.test], path: /p/q/r",
            "hosts: [paths.test], path: /p/q",
            "hosts: [paths.test], path: /p",
            "hosts: [paths.test], regex: '/(p|pp)/[a-z]+/.*'",
            "hosts: [paths.test], regex: '/p/[a-z]+/r'",
            "hosts: [paths.test], path: /",
        ],
        certificates: &["paths.test"],
    },
    Case {
        host: "conditions.test",
        start: "GET /c?p=1&q=1",
        fields: "X: 1\r\nY: 1\r\n",
        routes: &[
            "hosts: [conditions.test], path: /c, methods: [GET]",
            "hosts: [conditions.test], path: /c, headers: { x: '1', y: { regex: '[0-9]' } }",
            "hosts: [conditions.test], path: /c, headers: { x: { present: true } }",
            "hosts: [conditions.test], path: /c, query: { p: '1', q: '1' }",
            "hosts: [conditions.test], path: /c, query: { p: { regex: '[0-9]' } }",
            "hosts: [conditions.test], path: /c",
        ],
        certificates: &[],
    },
    Case {
        host: "l.listeners.test",
        start: "GET /l/m",
        fields: "",
        routes: &[
            "hosts: [l.listeners.test], listeners: [plain], exact: /l/m",
            "hosts: [l.listeners.test], listeners: [secure], path: /l",
            "hosts: [l.listeners.test], listeners: [plain, secure], path: /",
        ],
        certificates: &["*.listeners.test"],
    },
    Case {
        host: "every.test",
        start: "POST /every/one",
        fields: "Content-Length: 0\r\n",
        routes: &["exact: /every/one", "path: /every", "regex: '/every/[a-z]*'"],
        certificates: &[],
    },
    Case {
        host: "x.y.mixed.test",
        start: "GET /m/1",
        fields: "X: 1\r\n",
        routes: &[
            "hosts: ['*.mixed.test', x.mixed.test], regex: '/m/[0-9]', headers: { x: '1' }",
            "hosts: ['*.mixed.test'], regex: '/m/[0-9]'",
            "exact: /m/1, headers: { x: '1' }",
        ],
        certificates: &["x.y.mixed.test", "*.y.mixed.test"],
    },
];

/// The name of the route that matches every host.
const REST: &str = "rest";

/// The routes and certificates that are active at one time. Both lists are indexed by case, then by step. A value is
/// the version that last changed the route or certificate of this step; `None` if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Snapshot {
    routes: Vec<Vec<Option<usize>>>,
    certificates: Vec<Vec<Option<usize>>>,
    /// The present routes: case and step of each route, by its route key. A new route gets the first free key.
    keys: BTreeMap<usize, (usize, usize)>,
}

struct World {
    plain: SocketAddr,
    secure: SocketAddr,
    tls: Arc<ClientConfig>,
    /// All snapshots, in the order in which they become active.
    snapshots: Vec<Snapshot>,
    versions: Versions,
    /// The default certificate, for all other server names.
    default: Leaf,
    /// The certificates, by case and step.
    leaves: Vec<Vec<[Leaf; LEAVES]>>,
    answered: AtomicU64,
    /// The names of the steps whose route responded or whose certificate was used.
    met: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
}

impl Snapshot {
    /// Adds, removes or changes a step.
    fn change(&mut self, draw: &mut fastrand::Rng, version: usize) {
        let is_route = draw.u8(..5) > 0;
        let cases = if is_route { &mut self.routes } else { &mut self.certificates };
        let case = draw.usize(..cases.len());
        let steps = &mut cases[case];
        if steps.is_empty() {
            return;
        }
        let step = draw.usize(..steps.len());
        let was_there = steps[step].is_some();
        let is_there = draw.u8(..if was_there { 3 } else { 2 }) == 0;
        steps[step] = is_there.then_some(version);
        match (was_there, is_there) {
            (true, false) if is_route => self.keys.retain(|_, of| *of != (case, step)),
            (false, true) if is_route => {
                let free = (0..).find(|key| !self.keys.contains_key(key));
                self.keys.insert(free.unwrap(), (case, step));
            }
            _ => {}
        }
    }
}

/// Creates all snapshots. The first one is empty; each later one adds, removes or changes steps of the one before.
fn snapshots() -> Vec<Snapshot> {
    let mut draw = fastrand::Rng::with_seed(1);
    let steps = |of: fn(&Case) -> usize| CASES.iter().map(|case| vec![None; of(case)]).collect();
    let (routes, certificates) = (steps(|case| case.routes.len()), steps(|l| l.certificates.len()));
    let mut snapshot = Snapshot { routes, certificates, ..Snapshot::default() };
    let mut snapshots = vec![snapshot.clone()];
    for version in 1..=CHANGES {
        let mut left = draw.usize(1..=STEPS_A_CHANGE);
        // Changes of one batch can undo each other. If the batch has no effect as a whole, the loop adds changes.
        while left > 0 || snapshots.last() == Some(&snapshot) {
            left = left.saturating_sub(1);
            snapshot.change(&mut draw, version);
        }
        snapshots.push(snapshot.clone());
    }
    snapshots
}

fn backend(case: usize, step: usize, version: usize) -> usize {
    (case + step + version) % BACKENDS
}

/// The route of a step. It sets the request header `X-Version` to `case.step.version`.
fn route(case: usize, step: usize, version: usize) -> String {
    format!(
        "{{ {}, backend: b{}, request_headers: {{ set: {{ X-Version: '{case}.{step}.{version}' }} }} }}",
        CASES[case].routes[step],
        backend(case, step, version)
    )
}

/// The certificate files of a step.
fn pair(case: usize, step: usize) -> [String; 2] {
    [format!("{case}.{step}.pem"), format!("{case}.{step}.key")]
}

/// The TLS listener with all certificates that are present.
fn secure_listener(address: SocketAddr, certificates: &[Vec<Option<usize>>]) -> String {
    let steps = certificates.iter().enumerate().flat_map(|(case, steps)| {
        let there = steps.iter().enumerate().filter(|(_, version)| version.is_some());
        there.map(move |(step, _)| pair(case, step))
    });
    let pairs: Vec<String> =
        steps.map(|[certificate, key]| format!("{{ certificate: {certificate}, key: {key} }}")).collect();
    let pairs = pairs.join(", ");
    format!(
        "{{ address: '{address}', name: secure, tls: {{ certificate: d.pem, key: d.key, certificates: [{pairs}] }} }}"
    )
}

fn configuration(plain: SocketAddr, secure: &str, origins: &[Origin]) -> String {
    let backends: Vec<String> = (0..)
        .zip(origins)
        .map(|(number, origin)| format!("b{number}: {{ endpoints: ['{}'] }}", origin.address))
        .collect();
    format!(
        "listeners: [{{ address: '{plain}', name: plain }}, {secure}]\nworkers: 2\n\
         routes: [{{ path: /, backend: b0, request_headers: {{ set: {{ X-Version: {REST} }} }} }}]\n\
         backends: {{ {} }}\n",
        backends.join(", ")
    )
}

impl World {
    /// Returns the route that matches the requests of `case` while the snapshot `at` is active. The result is
    /// `CASE.STEP.VERSION`, or `REST` if only the default route matches.
    fn who(&self, at: usize, case: usize, is_secure: bool) -> String {
        let is_here = |text: &str| {
            let own = if is_secure { "secure" } else { "plain" };
            text.split_once("listeners: [")
                .is_none_or(|(_, names)| names.split(']').next().unwrap().contains(own))
        };
        let steps = CASES[case].routes.iter().zip(&self.snapshots[at].routes[case]).enumerate();
        let mut there =
            steps.filter(|(_, (text, _))| is_here(text)).filter_map(|(s, (_, v))| Some((s, (*v)?)));
        there.next().map_or(REST.to_owned(), |(step, version)| format!("{case}.{step}.{version}"))
    }

    /// Finds the certificate that the snapshot `at` has for the host of `case`. Returns the name of the step that sets
    /// it, and the certificate.
    fn certificate(&self, at: usize, case: usize) -> (String, &Leaf) {
        let steps = self.snapshots[at].certificates[case].iter().enumerate();
        let mut there = steps.filter_map(|(step, version)| Some((step, (*version)?)));
        match there.next() {
            Some((step, version)) => {
                (format!("certificate {case}.{step}"), &self.leaves[case][step][version % LEAVES])
            }
            None => (format!("certificate {case} {REST}"), &self.default),
        }
    }

    fn meet(&self, what: &str) {
        self.met.lock().unwrap().insert(what.to_owned());
    }

    /// A connection to the host of a case. Checks that its certificate was active during the handshake.
    fn secure(&self, case: usize) -> SecureClient {
        let connecting = || connect(&self.tls, self.secure, CASES[case].host).expect("a handshake");
        let (client, times) = self.versions.during(connecting);
        let shown = &client.stream.conn.peer_certificates().expect("certificates")[0];
        let mut allowed = times.clone().map(|at| self.certificate(at, case));
        let (step, _) = allowed
            .find(|(_, leaf)| leaf.der() == *shown)
            .unwrap_or_else(|| panic!("{}: not a certificate of {times:?}", CASES[case].host));
        self.meet(&step);
        client
    }

    /// Sends the request of a case. Checks that the response comes from a route that was active during the request.
    fn exchange<S: Read + Write>(&self, client: &mut Client<S>, case: usize, is_secure: bool) {
        let Case { host, start, fields, .. } = &CASES[case];
        let request = format!("{start} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let (answer, times) = self.versions.during(|| client.ask(&request));
        assert_eq!((answer.status, answer.whole), (200, true), "{request}{}{}", answer.head, answer.body);
        let said: Vec<&str> = answer.body.split(' ').collect();
        assert!(self.may_answer(&times, case, is_secure, said[1]), "{request}{said:?} at {times:?}");
        let numbers: Vec<usize> = said[1].split('.').filter_map(|number| number.parse().ok()).collect();
        let expected = if let [case, step, version] = numbers[..] { backend(case, step, version) } else { 0 };
        assert_eq!(said[0], expected.to_string(), "{}: leads elsewhere", said[1]);
        assert_eq!(Some(said[2]), start.split(' ').nth(1), "another request's answer");
        let step = said[1].rsplit_once('.').map_or(format!("{case} {REST}"), |(step, _)| step.to_owned());
        self.meet(&step);
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    fn may_answer(&self, times: &RangeInclusive<usize>, case: usize, is_secure: bool, who: &str) -> bool {
        times.clone().any(|at| self.who(at, case, is_secure) == who)
    }

    /// The changes from the previous snapshot to the one at `at`.
    fn changes(&self, at: usize) -> Vec<Change> {
        let (former, now) = (&self.snapshots[at - 1], &self.snapshots[at]);
        let mut changes = changed_routes(former, now);
        let certificates = differing(&former.certificates, &now.certificates);
        for &(case, step, version) in &certificates {
            let [certificate, key] = pair(case, step).map(Key::File);
            let put = |key, text: &str| Change::Put(key, Resource::File(text.as_bytes().to_vec().into()));
            match version {
                None => changes.extend([certificate, key].map(Change::Remove)),
                Some(version) => {
                    let leaf = &self.leaves[case][step][version % LEAVES];
                    changes.extend([put(certificate, &leaf.certificate), put(key, &leaf.key)]);
                }
            }
        }
        if !certificates.is_empty() {
            let text = secure_listener(self.secure, &now.certificates);
            let listener: Listener = weir_document::read("listener.yaml", &text).unwrap();
            changes.push(Change::Put(Key::Listener("listeners[1]".to_owned()), Resource::Listener(listener)));
        }
        changes
    }
}

/// Returns the changes to routes that lead from `former` to `now`. Routes are compared by key.
fn changed_routes(former: &Snapshot, now: &Snapshot) -> Vec<Change> {
    let name = |key: &usize| Key::Route(format!("step {key}"));
    let left = former.keys.keys().filter(|key| !now.keys.contains_key(key));
    let mut changes: Vec<Change> = left.map(|key| Change::Remove(name(key))).collect();
    for (key, &(case, step)) in &now.keys {
        let version = now.routes[case][step];
        if former.keys.get(key) != Some(&(case, step)) || former.routes[case][step] != version {
            let text = route(case, step, version.expect("a route with a key is present"));
            let route: Route = weir_document::read("route.yaml", &text).unwrap();
            changes.push(Change::Put(name(key), Resource::Route(Arc::new(route))));
        }
    }
    changes
}

/// Returns the steps whose version differs between two snapshots: case, step and new version. The new version is `None`
/// if the step is absent.
fn differing(
    former: &[Vec<Option<usize>>],
    now: &[Vec<Option<usize>>],
) -> Vec<(usize, usize, Option<usize>)> {
    let mut found = Vec::new();
    for (case, (former, now)) in former.iter().zip(now).enumerate() {
        for (step, (former, now)) in former.iter().zip(now).enumerate() {
            found.extend((former != now).then_some((case, step, *now)));
        }
    }
    found
}

/// Sends requests until the changes are done: over one kept connection, or over a new connection for each request.
fn ask(world: &World, is_secure: bool, is_kept: bool) {
    let mut plain = Client::connect(world.plain);
    let mut kept = world.secure(0);
    for case in (0..CASES.len()).cycle() {
        if world.is_over.load(Ordering::SeqCst) {
            return;
        }
        match (is_secure, is_kept) {
            (false, true) => world.exchange(&mut plain, case, false),
            (false, false) => world.exchange(&mut Client::connect(world.plain), case, false),
            (true, true) => world.exchange(&mut kept, case, true),
            (true, false) => world.exchange(&mut world.secure(case), case, true),
        }
    }
}

fn world(ca: &Authority, [plain, secure]: [SocketAddr; 2]) -> World {
    let leaves = CASES.iter().map(|case| {
        let names = case.certificates.iter();
        names.map(|&name| std::array::from_fn(|_| ca.signs(&[name]))).collect()
    });
    World {
        plain,
        secure,
        tls: ca.config_for_any_name(),
        snapshots: snapshots(),
        versions: Versions::default(),
        default: ca.signs(&["default.example"]),
        leaves: leaves.collect(),
        answered: AtomicU64::new(0),
        met: Mutex::default(),
        is_over: AtomicBool::new(false),
    }
}

#[test]
fn changing_routes_under_load_get_exactly_their_requests() {
    let ca = Authority::new("ca");
    let origins: Vec<Origin> = (0..BACKENDS).map(|own| Origin::start(echo(own))).collect();
    // Both sockets stay open until both ports are known, so that the ports differ.
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = free.map(|listener| listener.local_addr().unwrap());
    let world = Arc::new(world(&ca, addresses));
    let text = configuration(world.plain, &secure_listener(world.secure, &[]), &origins);
    let files = [("d.pem", world.default.certificate.as_str()), ("d.key", world.default.key.as_str())];
    let mut proxy = Proxy::with_files(&text, &files);
    let clients: Vec<JoinHandle<()>> =
        [(false, true), (false, false), (true, true), (true, false), (true, false)]
            .into_iter()
            .map(|(is_secure, is_kept)| {
                let world = Arc::clone(&world);
                std::thread::spawn(move || ask(&world, is_secure, is_kept))
            })
            .collect();
    // Only this thread makes changes, so its own client must see exactly the active snapshot.
    let mut own = Client::connect(world.plain);
    for _ in 0..CHANGES {
        world.versions.change(|at| bring(&mut proxy, world.changes(at)));
        (0..CASES.len()).for_each(|case| world.exchange(&mut own, case, false));
        wait_for_answers(&world.answered, &clients);
    }
    world.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no request may be lost or misrouted"));
    check_counts(&proxy, &world, &origins);
}

/// Checks that the counters of clients, gateway and origins agree, and that every route and certificate of `CASES` was
/// used, including the defaults.
fn check_counts(proxy: &Proxy, world: &World, origins: &[Origin]) {
    let answered = world.answered.load(Ordering::SeqCst);
    assert!(answered >= (CASES.len() as u64 + ANSWERS_A_CHANGE) * CHANGES as u64, "{answered}");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered));
    assert_eq!(stats.errors.values().sum::<u64>(), 0, "{:?}", stats.errors);
    assert_eq!((stats.reloads.applied, stats.tls.failed, stats.tls.resumed), (CHANGES as u64, 0, 0));
    let asked: u64 = origins.iter().map(|origin| origin.requests().len() as u64).sum();
    assert_eq!(asked, answered + stats.upstream.retries);
    let met = world.met.lock().unwrap();
    for (number, Case { routes, certificates, .. }) in CASES.iter().enumerate() {
        let steps = (0..routes.len()).map(|step| format!("{number}.{step}"));
        let shown = (0..certificates.len()).map(|step| format!("certificate {number}.{step}"));
        let rest = [format!("{number} {REST}"), format!("certificate {number} {REST}")];
        for step in steps.chain(shown).chain(rest) {
            assert!(met.contains(&step), "{step} was never used: {met:?}");
        }
    }
}
