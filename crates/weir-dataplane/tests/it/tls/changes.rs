//! A thousand route changes and a hundred certificate changes under load, with clients of every kind. Each request gets
//! a response from a route version that was active at some time between the request and the response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::HandshakeKind;
use weir_config::{Batch, Change, Key, Policy, Resource, Route};

use super::authority::{Authority, Leaf, SecureClient, Trust, connect};
use crate::setup::{Client, Origin, Proxy, Served};
use crate::versions::Versions;

const HOSTS: usize = 8;
const BACKENDS: usize = 5;
/// Number of routes that get no requests. They only make the route table larger.
const OTHER_ROUTES: usize = 200;
const ROUTE_CHANGES: usize = 1000;
/// Route changes per certificate change.
const CHANGES_A_SWAP: usize = 10;
/// Minimum number of responses between two changes.
pub(super) const ANSWERS_A_CHANGE: u64 = 4;
/// Offset of the request numbers of the thread that makes the changes. All other clients use smaller numbers.
const OWN_NUMBERS: u64 = 1_000_000_000;

/// The state that clients share with the thread that makes the changes. A host is identified by its index.
struct World {
    plain: SocketAddr,
    secure: SocketAddr,
    trust: Trust,
    routes: [Versions; HOSTS],
    certificates: [Versions; HOSTS],
    /// The certificates, by host and version.
    leaves: Vec<Vec<Leaf>>,
    answered: AtomicU64,
    resumed: AtomicU64,
    is_over: AtomicBool,
}

/// How a client connects.
#[derive(Clone, Copy)]
enum Kind {
    PlainKept,
    /// A new connection for each request.
    PlainAnew,
    SecureKept,
    /// A full handshake for each request.
    SecureAnew,
    /// A handshake for each request, which resumes a session.
    Resuming,
}

const CLIENTS: [Kind; 7] = [
    Kind::PlainKept,
    Kind::PlainKept,
    Kind::PlainAnew,
    Kind::SecureKept,
    Kind::SecureKept,
    Kind::SecureAnew,
    Kind::Resuming,
];

fn name(host: usize) -> String {
    format!("h{host}.test")
}

/// The index of the backend to which a host's route forwards in this version. The backend changes with every version.
fn backend(host: usize, version: usize) -> usize {
    (host + version) % BACKENDS
}

/// A host's route in this version. It sets the request header `X-Version` to the version number.
fn route(host: usize, version: usize) -> String {
    format!(
        "{{ hosts: [{}], path: /, backend: b{}, request_headers: {{ set: {{ X-Version: '{version}' }} }} }}",
        name(host),
        backend(host, version)
    )
}

/// Responds with the number of this origin, and the version and path of the request.
pub(super) fn echo(own: usize) -> impl Fn(&mut Served) + Send + Sync + 'static {
    move |served| {
        while let Some(request) = served.request() {
            let path = request.split(' ').nth(1).unwrap_or_default();
            let version = request.lines().find_map(|line| line.strip_prefix("X-Version: ")).unwrap_or("none");
            let body = format!("{own} {version} {path}");
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    }
}

fn certificate_file(host: usize) -> [String; 2] {
    [format!("{host}.pem"), format!("{host}.key")]
}

fn configuration(plain: SocketAddr, secure: SocketAddr, origins: &[Origin]) -> String {
    let pair = |host: usize| {
        let [certificate, key] = certificate_file(host);
        format!("certificate: {certificate}, key: {key}")
    };
    let more: Vec<String> = (1..HOSTS).map(|host| format!("{{ {} }}", pair(host))).collect();
    let routes = (0..HOSTS).map(|host| route(host, 0));
    let others = (0..OTHER_ROUTES).map(|n| format!("{{ hosts: [other{n}.test], path: /, backend: b0 }}"));
    let routes: Vec<String> = routes.chain(others).collect();
    let backends = origins.iter().enumerate();
    let backends: Vec<String> =
        backends.map(|(n, origin)| format!("b{n}: {{ endpoints: ['{}'] }}", origin.address)).collect();
    format!(
        "listeners:\n  - {{ address: '{plain}' }}\n  - {{ address: '{secure}', tls: {{ {}, certificates: [{}] }} }}\n\
         workers: 2\nroutes: [{}]\nbackends: {{ {} }}\n",
        pair(0),
        more.join(", "),
        routes.join(", "),
        backends.join(", ")
    )
}

/// Sends one request for a host and checks the response.
fn exchange<S: Read + Write>(world: &World, client: &mut Client<S>, host: usize, number: u64) {
    let path = format!("/{number}");
    let request = match number % 3 {
        0 => format!("POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\n\r\nbody", name(host)),
        _ => format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", name(host)),
    };
    let (answer, versions) = world.routes[host].during(|| client.ask(&request));
    assert_eq!((answer.status, answer.whole), (200, true), "{}{}", answer.head, answer.body);
    let said: Vec<&str> = answer.body.split(' ').collect();
    let version: usize = said[1].parse().expect("the route adds its version");
    assert!(versions.contains(&version), "{host}: version {version} responded, active were {versions:?}");
    assert_eq!(said[0], backend(host, version).to_string(), "{host}: version {version} leads elsewhere");
    assert_eq!(said[2], path, "another request's answer");
    world.answered.fetch_add(1, Ordering::SeqCst);
}

/// Connects to `host` over TLS. Checks that the certificate was active at some time during the handshake.
fn secure(world: &World, host: usize) -> SecureClient {
    let connecting = || world.trust.connect(world.secure, &name(host)).expect("a handshake");
    let (client, versions) = world.certificates[host].during(connecting);
    let shown = &client.stream.conn.peer_certificates().expect("certificates")[0];
    let is_shown = |leaf: &Leaf| leaf.der() == *shown;
    let version = world.leaves[host].iter().position(is_shown).expect("a certificate of the host");
    assert!(versions.contains(&version), "{host}: certificate {version} used, active were {versions:?}");
    client
}

/// Sends requests until the changes are done.
fn ask(world: &World, kind: Kind, first: u64) {
    let mut plain = Client::connect(world.plain);
    let mut kept = secure(world, 0);
    let sessions = world.trust.config();
    for number in (first..).step_by(CLIENTS.len()) {
        if world.is_over.load(Ordering::SeqCst) {
            return;
        }
        let host = number as usize % HOSTS;
        match kind {
            Kind::PlainKept => exchange(world, &mut plain, host, number),
            Kind::PlainAnew => exchange(world, &mut Client::connect(world.plain), host, number),
            Kind::SecureKept => exchange(world, &mut kept, host, number),
            Kind::SecureAnew => exchange(world, &mut secure(world, host), host, number),
            Kind::Resuming => {
                let mut client = connect(&sessions, world.secure, &name(host)).expect("a handshake");
                let is_resumed = client.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
                world.resumed.fetch_add(u64::from(is_resumed), Ordering::SeqCst);
                exchange(world, &mut client, host, number);
            }
        }
    }
}

/// Applies the changes and gives the new table to the workers.
pub(super) fn bring(proxy: &mut Proxy, changes: Vec<Change>) {
    let applied = proxy.state.apply(Batch { version: 1, policy: Policy::EachAlone, changes });
    assert!(applied.refused.is_empty(), "{:?}", applied.refused);
    proxy.gateway.apply(applied.table.expect("a table")).expect("the table takes effect");
}

fn change_route(proxy: &mut Proxy, world: &World, host: usize) {
    world.routes[host].change(|version| {
        let route: Route = weir_document::read("route.yaml", &route(host, version)).unwrap();
        let key = Key::Route(format!("routes[{host}]"));
        bring(proxy, vec![Change::Put(key, Resource::Route(Arc::new(route)))]);
    })
}

fn swap_certificate(proxy: &mut Proxy, world: &World, host: usize) {
    world.certificates[host].change(|version| {
        let leaf = &world.leaves[host][version];
        let files = certificate_file(host).into_iter().zip([&leaf.certificate, &leaf.key]);
        let put = |(file, text): (String, &String)| {
            Change::Put(Key::File(file), Resource::File(text.as_bytes().to_vec().into()))
        };
        bring(proxy, files.map(put).collect());
    });
}

/// Waits until clients got some more responses. Returns early if a client failed; joining that client reports its
/// error.
pub(super) fn wait_for_answers(answered: &AtomicU64, clients: &[JoinHandle<()>]) {
    let enough = answered.load(Ordering::SeqCst) + ANSWERS_A_CHANGE;
    while answered.load(Ordering::SeqCst) < enough && !clients.iter().any(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn thousand_changes_under_load_misroute_no_request() {
    let ca = Authority::new("ca");
    let swaps = ROUTE_CHANGES / CHANGES_A_SWAP;
    let of_host = |host: usize| (0..=swaps.div_ceil(HOSTS)).map(|_| ca.signs(&[&name(host)])).collect();
    let leaves: Vec<Vec<Leaf>> = (0..HOSTS).map(of_host).collect();
    let origins: Vec<Origin> = (0..BACKENDS).map(|own| Origin::start(echo(own))).collect();
    // Both sockets stay open until both ports are known, so that the ports differ.
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [plain, secure_address] = free.map(|listener| listener.local_addr().unwrap());
    let mut files = Vec::new();
    for (host, leaves) in leaves.iter().enumerate() {
        files.extend(certificate_file(host).into_iter().zip([&leaves[0].certificate, &leaves[0].key]));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let mut proxy = Proxy::with_files(&configuration(plain, secure_address, &origins), &files);
    let world = Arc::new(World {
        plain,
        secure: secure_address,
        trust: ca.trust(),
        routes: Default::default(),
        certificates: Default::default(),
        leaves,
        answered: AtomicU64::new(0),
        resumed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let clients: Vec<JoinHandle<()>> = (1..)
        .zip(CLIENTS)
        .map(|(first, kind)| {
            let world = Arc::clone(&world);
            std::thread::spawn(move || ask(&world, kind, first))
        })
        .collect();
    // Only this thread makes changes, so its own client must see exactly the last version.
    let mut own = Client::connect(plain);
    for turn in 1..=ROUTE_CHANGES {
        let host = turn % HOSTS;
        change_route(&mut proxy, &world, host);
        exchange(&world, &mut own, host, OWN_NUMBERS + turn as u64);
        if turn % CHANGES_A_SWAP == 0 {
            let host = turn / CHANGES_A_SWAP % HOSTS;
            swap_certificate(&mut proxy, &world, host);
            exchange(&world, &mut secure(&world, host), host, OWN_NUMBERS);
        }
        wait_for_answers(&world.answered, &clients);
    }
    world.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no request may be lost or misrouted"));
    check_counts(&proxy, &world, &origins);
}

/// Checks that the counters of clients, gateway and origins agree, and that no error occurred.
fn check_counts(proxy: &Proxy, world: &World, origins: &[Origin]) {
    let swaps = ROUTE_CHANGES / CHANGES_A_SWAP;
    let answered = world.answered.load(Ordering::SeqCst);
    assert!(answered >= (1 + ANSWERS_A_CHANGE) * ROUTE_CHANGES as u64 + swaps as u64, "{answered}");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered));
    assert_eq!(stats.errors.values().sum::<u64>(), 0, "{:?}", stats.errors);
    assert_eq!((stats.reloads.applied, stats.tls.failed), ((ROUTE_CHANGES + swaps) as u64, 0));
    assert_eq!(stats.tls.resumed, world.resumed.load(Ordering::SeqCst));
    assert!(stats.tls.resumed > 0);
    let asked: u64 = origins.iter().map(|origin| origin.requests().len() as u64).sum();
    assert_eq!(asked, answered + stats.upstream.retries);
    // The last version must reach every worker without a further request.
    let last = proxy.gateway.table().version;
    proxy.wait_for("the last version", |stats| stats.workers.iter().all(|w| w.table_version == last));
}
