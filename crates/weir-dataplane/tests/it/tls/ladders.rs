//! Routes and certificates that come and go while clients of every kind are at it: each request is answered by what had
//! it before a change or by what has it after, and each handshake shows such a certificate.
//!
//! ```text
//! ladder     exact host --> wildcard --> wider wildcard --> every host
//! versions        7            (gone)           2               always there
//! ```
//!
//! Every step of a ladder takes the ladder's request, and comes and goes by itself. So the first step that is there has
//! the request, whichever are behind it.

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
/// Steps that come, go or change in one batch, at most.
const STEPS_A_CHANGE: usize = 4;
const BACKENDS: usize = 4;
/// Each step has so many certificates, which take turns.
const LEAVES: usize = 2;

/// A request, and the routes that may have it, the first one first. The route for every host has it where none is there.
struct Ladder {
    host: &'static str,
    start: &'static str,
    fields: &'static str,
    routes: &'static [&'static str],
    /// The names of certificates that its host may be shown, the first one first.
    certificates: &'static [&'static str],
}

static LADDERS: [Ladder; 6] = [
    Ladder {
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
    Ladder {
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
    Ladder {
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
    Ladder {
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
    Ladder {
        host: "every.test",
        start: "POST /every/one",
        fields: "Content-Length: 0\r\n",
        routes: &["exact: /every/one", "path: /every", "regex: '/every/[a-z]*'"],
        certificates: &[],
    },
    Ladder {
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

/// Who answers where no step is there.
const REST: &str = "rest";

/// What is in force at one time: of each ladder the version of each step, where it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Force {
    routes: Vec<Vec<Option<usize>>>,
    certificates: Vec<Vec<Option<usize>>>,
    /// The keys of the routes, each with its ladder and step: a key that is left is the next one's that comes.
    keys: BTreeMap<usize, (usize, usize)>,
}

struct World {
    plain: SocketAddr,
    secure: SocketAddr,
    tls: Arc<ClientConfig>,
    /// What comes into force, one after the other.
    forces: Vec<Force>,
    versions: Versions,
    /// The certificate of every other name.
    default: Leaf,
    /// Of each step of each ladder.
    leaves: Vec<Vec<[Leaf; LEAVES]>>,
    answered: AtomicU64,
    /// The steps that answered, and those whose certificate was shown.
    met: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
}

impl Force {
    /// Has a step come, go, or do something else.
    fn change(&mut self, draw: &mut fastrand::Rng, version: usize) {
        let is_route = draw.u8(..5) > 0;
        let ladders = if is_route { &mut self.routes } else { &mut self.certificates };
        let ladder = draw.usize(..ladders.len());
        let steps = &mut ladders[ladder];
        if steps.is_empty() {
            return;
        }
        let step = draw.usize(..steps.len());
        let was_there = steps[step].is_some();
        let is_there = draw.u8(..if was_there { 3 } else { 2 }) == 0;
        steps[step] = is_there.then_some(version);
        match (was_there, is_there) {
            (true, false) if is_route => self.keys.retain(|_, of| *of != (ladder, step)),
            (false, true) if is_route => {
                let free = (0..).find(|key| !self.keys.contains_key(key));
                self.keys.insert(free.unwrap(), (ladder, step));
            }
            _ => {}
        }
    }
}

/// All that comes into force: at first nothing, then a few steps more or less with each change.
fn forces() -> Vec<Force> {
    let mut draw = fastrand::Rng::with_seed(1);
    let steps = |of: fn(&Ladder) -> usize| LADDERS.iter().map(|ladder| vec![None; of(ladder)]).collect();
    let (routes, certificates) = (steps(|ladder| ladder.routes.len()), steps(|l| l.certificates.len()));
    let mut force = Force { routes, certificates, ..Force::default() };
    let mut forces = vec![force.clone()];
    for version in 1..=CHANGES {
        let mut left = draw.usize(1..=STEPS_A_CHANGE);
        // What comes and goes at once is no change.
        while left > 0 || forces.last() == Some(&force) {
            left = left.saturating_sub(1);
            force.change(&mut draw, version);
        }
        forces.push(force.clone());
    }
    forces
}

fn backend(ladder: usize, step: usize, version: usize) -> usize {
    (ladder + step + version) % BACKENDS
}

/// A version of a step, which has requests say which it is.
fn route(ladder: usize, step: usize, version: usize) -> String {
    format!(
        "{{ {}, backend: b{}, request_headers: {{ set: {{ X-Version: '{ladder}.{step}.{version}' }} }} }}",
        LADDERS[ladder].routes[step],
        backend(ladder, step, version)
    )
}

/// The files of a step's certificate.
fn pair(ladder: usize, step: usize) -> [String; 2] {
    [format!("{ladder}.{step}.pem"), format!("{ladder}.{step}.key")]
}

/// The listener that speaks TLS, with the certificates that are there.
fn secure_listener(address: SocketAddr, certificates: &[Vec<Option<usize>>]) -> String {
    let steps = certificates.iter().enumerate().flat_map(|(ladder, steps)| {
        let there = steps.iter().enumerate().filter(|(_, version)| version.is_some());
        there.map(move |(step, _)| pair(ladder, step))
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
    /// Who has the request of a ladder at one time.
    fn who(&self, at: usize, ladder: usize, is_secure: bool) -> String {
        let is_here = |text: &str| {
            let own = if is_secure { "secure" } else { "plain" };
            text.split_once("listeners: [")
                .is_none_or(|(_, names)| names.split(']').next().unwrap().contains(own))
        };
        let steps = LADDERS[ladder].routes.iter().zip(&self.forces[at].routes[ladder]).enumerate();
        let mut there =
            steps.filter(|(_, (text, _))| is_here(text)).filter_map(|(s, (_, v))| Some((s, (*v)?)));
        there.next().map_or(REST.to_owned(), |(step, version)| format!("{ladder}.{step}.{version}"))
    }

    /// The step whose certificate a ladder's host is shown at one time, and its certificate.
    fn certificate(&self, at: usize, ladder: usize) -> (String, &Leaf) {
        let steps = self.forces[at].certificates[ladder].iter().enumerate();
        let mut there = steps.filter_map(|(step, version)| Some((step, (*version)?)));
        match there.next() {
            Some((step, version)) => {
                (format!("certificate {ladder}.{step}"), &self.leaves[ladder][step][version % LEAVES])
            }
            None => (format!("certificate {ladder} {REST}"), &self.default),
        }
    }

    fn meet(&self, what: &str) {
        self.met.lock().unwrap().insert(what.to_owned());
    }

    /// A connection to the host of a ladder, which was shown a certificate of that time.
    fn secure(&self, ladder: usize) -> SecureClient {
        let connecting = || connect(&self.tls, self.secure, LADDERS[ladder].host).expect("a handshake");
        let (client, times) = self.versions.during(connecting);
        let shown = &client.stream.conn.peer_certificates().expect("certificates")[0];
        let mut allowed = times.clone().map(|at| self.certificate(at, ladder));
        let (step, _) = allowed
            .find(|(_, leaf)| leaf.der() == *shown)
            .unwrap_or_else(|| panic!("{}: another certificate than at {times:?}", LADDERS[ladder].host));
        self.meet(&step);
        client
    }

    /// One request of a ladder, whose answer is one of that time.
    fn exchange<S: Read + Write>(&self, client: &mut Client<S>, ladder: usize, is_secure: bool) {
        let Ladder { host, start, fields, .. } = &LADDERS[ladder];
        let request = format!("{start} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let (answer, times) = self.versions.during(|| client.ask(&request));
        assert_eq!((answer.status, answer.whole), (200, true), "{request}{}{}", answer.head, answer.body);
        let said: Vec<&str> = answer.body.split(' ').collect();
        assert!(self.may_answer(&times, ladder, is_secure, said[1]), "{request}{said:?} at {times:?}");
        let numbers: Vec<usize> = said[1].split('.').filter_map(|number| number.parse().ok()).collect();
        let expected =
            if let [ladder, step, version] = numbers[..] { backend(ladder, step, version) } else { 0 };
        assert_eq!(said[0], expected.to_string(), "{}: leads elsewhere", said[1]);
        assert_eq!(Some(said[2]), start.split(' ').nth(1), "another request's answer");
        let step = said[1].rsplit_once('.').map_or(format!("{ladder} {REST}"), |(step, _)| step.to_owned());
        self.meet(&step);
        self.answered.fetch_add(1, Ordering::SeqCst);
    }

    fn may_answer(&self, times: &RangeInclusive<usize>, ladder: usize, is_secure: bool, who: &str) -> bool {
        times.clone().any(|at| self.who(at, ladder, is_secure) == who)
    }

    /// What makes of what was in force before a change what is to be then.
    fn changes(&self, at: usize) -> Vec<Change> {
        let (former, now) = (&self.forces[at - 1], &self.forces[at]);
        let mut changes = changed_routes(former, now);
        let certificates = differing(&former.certificates, &now.certificates);
        for &(ladder, step, version) in &certificates {
            let [certificate, key] = pair(ladder, step).map(Key::File);
            let put = |key, text: &str| Change::Put(key, Resource::File(text.as_bytes().to_vec().into()));
            match version {
                None => changes.extend([certificate, key].map(Change::Remove)),
                Some(version) => {
                    let leaf = &self.leaves[ladder][step][version % LEAVES];
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

/// The routes that are others than before, by their keys.
fn changed_routes(former: &Force, now: &Force) -> Vec<Change> {
    let name = |key: &usize| Key::Route(format!("step {key}"));
    let left = former.keys.keys().filter(|key| !now.keys.contains_key(key));
    let mut changes: Vec<Change> = left.map(|key| Change::Remove(name(key))).collect();
    for (key, &(ladder, step)) in &now.keys {
        let version = now.routes[ladder][step];
        if former.keys.get(key) != Some(&(ladder, step)) || former.routes[ladder][step] != version {
            let text = route(ladder, step, version.expect("it has a key"));
            let route: Route = weir_document::read("route.yaml", &text).unwrap();
            changes.push(Change::Put(name(key), Resource::Route(Arc::new(route))));
        }
    }
    changes
}

/// The steps that are another version than before, each with its ladder.
fn differing(
    former: &[Vec<Option<usize>>],
    now: &[Vec<Option<usize>>],
) -> Vec<(usize, usize, Option<usize>)> {
    let mut found = Vec::new();
    for (ladder, (former, now)) in former.iter().zip(now).enumerate() {
        for (step, (former, now)) in former.iter().zip(now).enumerate() {
            found.extend((former != now).then_some((ladder, step, *now)));
        }
    }
    found
}

/// Asks until the changes are over: over connections that are kept, or over a new one for each request.
fn ask(world: &World, is_secure: bool, is_kept: bool) {
    let mut plain = Client::connect(world.plain);
    let mut kept = world.secure(0);
    for ladder in (0..LADDERS.len()).cycle() {
        if world.is_over.load(Ordering::SeqCst) {
            return;
        }
        match (is_secure, is_kept) {
            (false, true) => world.exchange(&mut plain, ladder, false),
            (false, false) => world.exchange(&mut Client::connect(world.plain), ladder, false),
            (true, true) => world.exchange(&mut kept, ladder, true),
            (true, false) => world.exchange(&mut world.secure(ladder), ladder, true),
        }
    }
}

fn world(ca: &Authority, [plain, secure]: [SocketAddr; 2]) -> World {
    let leaves = LADDERS.iter().map(|ladder| {
        let names = ladder.certificates.iter();
        names.map(|&name| std::array::from_fn(|_| ca.signs(&[name]))).collect()
    });
    World {
        plain,
        secure,
        tls: ca.config_for_any_name(),
        forces: forces(),
        versions: Versions::default(),
        default: ca.signs(&["default.example"]),
        leaves: leaves.collect(),
        answered: AtomicU64::new(0),
        met: Mutex::default(),
        is_over: AtomicBool::new(false),
    }
}

#[test]
fn what_comes_and_goes_under_load_has_its_requests_meanwhile_and_no_others() {
    let ca = Authority::new("ca");
    let origins: Vec<Origin> = (0..BACKENDS).map(|own| Origin::start(echo(own))).collect();
    // Both are held until both are known: two listeners have two addresses.
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
    // Nobody else changes anything, so that this client meets exactly what is in force.
    let mut own = Client::connect(world.plain);
    for _ in 0..CHANGES {
        world.versions.change(|at| bring(&mut proxy, world.changes(at)));
        (0..LADDERS.len()).for_each(|ladder| world.exchange(&mut own, ladder, false));
        wait_for_answers(&world.answered, &clients);
    }
    world.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no request is lost or led astray"));
    check_counts(&proxy, &world, &origins);
}

/// The books of clients, gateway and origins agree, and every step was met.
fn check_counts(proxy: &Proxy, world: &World, origins: &[Origin]) {
    let answered = world.answered.load(Ordering::SeqCst);
    assert!(answered >= (LADDERS.len() as u64 + ANSWERS_A_CHANGE) * CHANGES as u64, "{answered}");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered));
    assert_eq!(stats.errors.values().sum::<u64>(), 0, "{:?}", stats.errors);
    assert_eq!((stats.reloads.applied, stats.tls.failed, stats.tls.resumed), (CHANGES as u64, 0, 0));
    let asked: u64 = origins.iter().map(|origin| origin.requests().len() as u64).sum();
    assert_eq!(asked, answered + stats.upstream.retries);
    let met = world.met.lock().unwrap();
    for (number, Ladder { routes, certificates, .. }) in LADDERS.iter().enumerate() {
        let steps = (0..routes.len()).map(|step| format!("{number}.{step}"));
        let shown = (0..certificates.len()).map(|step| format!("certificate {number}.{step}"));
        let rest = [format!("{number} {REST}"), format!("certificate {number} {REST}")];
        for step in steps.chain(shown).chain(rest) {
            assert!(met.contains(&step), "{step} was never met: {met:?}");
        }
    }
}
