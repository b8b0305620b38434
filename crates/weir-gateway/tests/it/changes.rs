//! The program under load while SIGHUP reloads its file and a symbolic link swaps its certificate. Each response comes
//! from a version that was active at some time between the request and the response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::process::{Gateway, connect};
use crate::tls::Authority;
use crate::versions::Versions;

const HOSTS: usize = 3;
const BACKENDS: usize = 3;
const RELOADS: usize = 100;
/// Number of reloads between two changes of the certificate.
const RELOADS_A_SWAP: usize = 10;
/// Minimum number of responses between two changes.
const ANSWERS_A_CHANGE: u64 = 4;

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// State shared with the clients.
struct World {
    address: SocketAddr,
    roots: RootCertStore,
    file: Versions,
    certificate: Versions,
    /// The certificates by version.
    certificates: Vec<CertificateDer<'static>>,
    answered: AtomicU64,
    is_over: AtomicBool,
}

/// How a client connects.
#[derive(Clone, Copy)]
enum Kind {
    Kept,
    /// A full handshake for each request.
    Anew,
    /// One handshake per request, with session resumption.
    Resuming,
}

const CLIENTS: [Kind; 4] = [Kind::Kept, Kind::Kept, Kind::Anew, Kind::Resuming];

fn name(host: usize) -> String {
    format!("h{host}.test")
}

/// The backend of a host in this version of the file. Consecutive versions have different backends.
fn backend(host: usize, version: usize) -> usize {
    (host + version) % BACKENDS
}

/// Returns one version of the configuration file. The gateway writes the version into a header of each response.
fn file(version: usize, origins: &[SocketAddr]) -> String {
    let route = |host| {
        let (name, backend) = (name(host), backend(host, version));
        let said = format!("response_headers: {{ set: {{ X-Version: '{version}' }} }}");
        format!("  - {{ hosts: [{name}], path: /, backend: b{backend}, {said} }}\n")
    };
    let backends = origins.iter().enumerate();
    let backends: String = backends.map(|(n, at)| format!("  b{n}: {{ endpoints: ['{at}'] }}\n")).collect();
    format!(
        "listeners: [{{ address: 127.0.0.1:0, tls: {{ certificate: now/tls.pem, key: now/tls.key }} }}]\nworkers: 2\n\
         routes:\n{}backends:\n{backends}",
        (0..HOSTS).map(route).collect::<String>()
    )
}

/// An origin that responds to every request with its own number.
fn origin(number: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while stream.read(&mut chunk).is_ok_and(|bytes| bytes > 0) {
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Creates the folder of a version of the certificate, and returns the certificate.
fn certify(dir: &Path, authority: &Authority, version: usize) -> CertificateDer<'static> {
    let folder = dir.join(format!("v{version}"));
    std::fs::create_dir(&folder).expect("a folder");
    let names: Vec<String> = (0..HOSTS).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    authority.sign(&folder.join("tls"), &names, &PKCS_ECDSA_P256_SHA256);
    CertificateDer::from_pem_file(folder.join("tls.pem")).expect("a certificate")
}

/// Switches the certificate to this version, in one step.
fn link(dir: &Path, version: usize) {
    symlink(format!("v{version}"), dir.join("next")).expect("a link");
    std::fs::rename(dir.join("next"), dir.join("now")).expect("it is swapped");
}

/// Connects. Unless the session is resumed, checks that the certificate was active during the handshake.
fn secure(world: &World, config: &Arc<ClientConfig>, host: usize) -> Stream {
    let shaking_hands = || {
        let server = ServerName::try_from(name(host)).expect("a name");
        let mut connection = ClientConnection::new(Arc::clone(config), server).expect("a client");
        let mut socket = connect(world.address);
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).expect("a handshake");
        }
        StreamOwned::new(connection, socket)
    };
    let (stream, versions) = world.certificate.during(shaking_hands);
    if stream.conn.handshake_kind() != Some(HandshakeKind::Resumed) {
        let shown = &stream.conn.peer_certificates().expect("certificates")[0];
        let version = world.certificates.iter().position(|certificate| certificate == shown);
        let version = version.expect("one of the gateway's");
        assert!(versions.contains(&version), "certificate {version} shown, active versions: {versions:?}");
    }
    stream
}

fn exchange(world: &World, stream: &mut Stream, host: usize) {
    let (answer, versions) = world.file.during(|| ask(stream, host));
    let (head, said) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let version = head.lines().find_map(|line| line.strip_prefix("X-Version: ")).expect("its version");
    let version: usize = version.parse().expect("a number");
    assert!(versions.contains(&version), "version {version} answered, active versions: {versions:?}");
    assert_eq!(said, backend(host, version).to_string(), "{host}: version {version} has another backend");
    world.answered.fetch_add(1, Ordering::SeqCst);
}

/// Returns the response to one request: headers and a one-byte body.
fn ask(stream: &mut Stream, host: usize) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", name(host));
    stream.write_all(request.as_bytes()).expect("the gateway reads");
    let mut answer = String::new();
    let mut chunk = [0; 4096];
    while answer.split_once("\r\n\r\n").is_none_or(|(_, body)| body.is_empty()) {
        let read = stream.read(&mut chunk).expect("the gateway answers");
        assert!(read > 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&chunk[..read]).expect("text"));
    }
    answer
}

/// Sends requests until the changes are over.
fn client(world: &World, kind: Kind) {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(world.roots.clone())
        .with_no_client_auth();
    if !matches!(kind, Kind::Resuming) {
        config.resumption = Resumption::disabled();
    }
    let config = Arc::new(config);
    let mut kept = secure(world, &config, 0);
    for host in (0..HOSTS).cycle() {
        if world.is_over.load(Ordering::SeqCst) {
            return;
        }
        if !matches!(kind, Kind::Kept) {
            kept = secure(world, &config, host);
        }
        exchange(world, &mut kept, host);
    }
}

/// Waits for `ANSWERS_A_CHANGE` more responses. Returns early if a client failed: `join` on its thread reports why.
fn wait_for_answers(world: &World, clients: &[JoinHandle<()>]) {
    let enough = world.answered.load(Ordering::SeqCst) + ANSWERS_A_CHANGE;
    while world.answered.load(Ordering::SeqCst) < enough && !clients.iter().any(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn reloads_and_certificate_swaps_under_load_misroute_no_request() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new(dir.path());
    let swaps = RELOADS / RELOADS_A_SWAP;
    let certificates = (0..=swaps).map(|version| certify(dir.path(), &authority, version)).collect();
    link(dir.path(), 0);
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(dir.path().join("ca.pem")).expect("the authority");
    roots.add(ca).expect("a root");
    let origins: Vec<SocketAddr> = (0..BACKENDS).map(origin).collect();
    let program = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    let mut gateway = Gateway::spawn_in(dir, &file(0, &origins), program);
    let world = Arc::new(World {
        address: gateway.address,
        roots,
        file: Versions::default(),
        certificate: Versions::default(),
        certificates,
        answered: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    let start = |kind| {
        let world = Arc::clone(&world);
        std::thread::spawn(move || client(&world, kind))
    };
    let clients: Vec<JoinHandle<()>> = CLIENTS.into_iter().map(start).collect();
    for turn in 1..=RELOADS {
        world.file.change(|version| {
            gateway.write("gateway.yaml", &file(version, &origins));
            gateway.reload();
        });
        if turn % RELOADS_A_SWAP == 0 {
            world.certificate.change(|version| {
                link(gateway.dir.path(), version);
                assert_eq!(gateway.line("files reloaded: "), "now/tls.key, now/tls.pem");
            });
        }
        wait_for_answers(&world, &clients);
    }
    world.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no request is lost or misrouted"));
    let answered = world.answered.load(Ordering::SeqCst);
    assert!(answered >= RELOADS as u64 * ANSWERS_A_CHANGE, "{answered}");
    assert_eq!((gateway.stat("requests"), gateway.stat("2xx")), (answered, answered));
    assert_eq!((gateway.stat("applied"), gateway.stat("refused")), ((RELOADS + swaps) as u64, 0));
    assert_eq!(gateway.stat("failed"), 0, "handshakes");
    assert!(gateway.stat("resumed") > 0);
    assert_eq!(gateway.stop(), "");
}
