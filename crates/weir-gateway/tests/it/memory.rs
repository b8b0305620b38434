//! Memory of idle connections, exchanges in flight and certificates.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::process::{Gateway, config, origin};

/// Upper limit of memory per idle TLS connection, with all state of the gateway.
const IDLE_BYTES_MAX: u64 = 14 << 10;

/// Upper limit of memory per exchange in flight, whatever the length of its bodies: a read and a write buffer per side,
/// and its state.
const EXCHANGE_BYTES_MAX: u64 = 132 << 10;

/// Upper limit of memory per certificate and key, including their file names in the configuration and the parsed key.
const CERTIFICATE_BYTES_MAX: u64 = 8 << 10;

/// Writes a self-signed certificate for `name`, and its key.
fn write_pair(dir: &Path, name: &str) -> String {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec![name.to_owned()]).and_then(|p| p.self_signed(&key));
    let certificate = certificate.expect("a certificate").pem();
    std::fs::write(dir.join(format!("{name}.pem")), &certificate).expect("a file");
    std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).expect("a file");
    certificate
}

fn listener(tls: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, tls: {{ {tls} }} }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\n",
        origin().0
    )
}

fn start(dir: tempfile::TempDir, text: &str) -> Gateway {
    Gateway::spawn_in(dir, text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")))
}

/// Connects, sends a request, reads the response, and stays connected.
fn idle(config: &Arc<ClientConfig>, gateway: &Gateway) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("a.test").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let mut stream = StreamOwned::new(connection, crate::process::connect(gateway.address));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is read");
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !bytes.ends_with(b"ok") {
        let read = stream.read(&mut chunk).expect("an answer");
        bytes.extend_from_slice(&chunk[..read]);
    }
    stream
}

#[test]
fn idle_connections_need_little_memory() {
    const WARM: usize = 100;
    const MEASURED: usize = 400;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let certificate = write_pair(dir.path(), "a.test");
    let gateway = start(dir, &listener("certificate: a.test.pem, key: a.test.key"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).expect("it is PEM")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let _warm: Vec<_> = (0..WARM).map(|_| idle(&config, &gateway)).collect();
    let before = gateway.resident_bytes();
    let _idle: Vec<_> = (0..MEASURED).map(|_| idle(&config, &gateway)).collect();
    let each = gateway.resident_bytes().saturating_sub(before) / MEASURED as u64;
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes per idle connection");
}

/// An upstream that runs `serve` on each connection, and counts the bytes that it transfers.
fn serving(serve: fn(&mut TcpStream) -> io::Result<usize>) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let moved = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&moved);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 64]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
                while let Ok(bytes) = serve(&mut stream) {
                    counted.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            });
        }
    });
    (address, moved)
}

/// Waits until no more bytes are transferred.
fn wait_until_stuck(bytes: &AtomicU64) {
    let mut last = u64::MAX;
    for _ in 0..100 {
        let now = bytes.load(Ordering::Relaxed);
        if now == last {
            return;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(300));
    }
    panic!("bytes are still transferred though nobody reads: {last}");
}

/// Checks the memory per exchange. Clients run `begin` and the upstream runs `serve` until no more bytes move.
#[track_caller]
fn check_exchange(what: &str, serve: fn(&mut TcpStream) -> io::Result<usize>, begin: fn(&mut TcpStream)) {
    const WARM: usize = 20;
    const MEASURED: usize = 200;
    let (address, moved) = serving(serve);
    let gateway = Gateway::start(&format!("{}timeouts: {{ write: 1h, body: 1h }}\n", config(address)));
    let ask = |count: usize, in_all: usize| {
        let open = || {
            let mut stream = crate::process::connect(gateway.address);
            begin(&mut stream);
            stream
        };
        let clients: Vec<_> = (0..count).map(|_| open()).collect();
        gateway.wait_for("their requests", |g| g.stat("requests_in_flight") == in_all as u64);
        wait_until_stuck(&moved);
        clients
    };
    let _warm = ask(WARM, WARM);
    let before = gateway.resident_bytes();
    let _slow = ask(MEASURED, WARM + MEASURED);
    let each = gateway.resident_bytes().saturating_sub(before) / MEASURED as u64;
    println!("{what}: {each} bytes per exchange");
    assert!(each <= EXCHANGE_BYTES_MAX, "{what}: {each} bytes per exchange");
}

#[test]
fn clients_that_do_not_read_need_bounded_memory() {
    let on = |stream: &mut TcpStream| stream.write(&[b'x'; 16 << 10]);
    check_exchange("clients that do not read", on, |client| {
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is read");
    });
}

#[test]
fn clients_that_do_not_read_the_response_to_a_long_body_need_bounded_memory() {
    let read_and_answer = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(20)))?;
        match stream.read(&mut [0; 64 << 10]) {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => stream.write(&[b'x'; 256 << 10]),
        }
    };
    check_exchange("clients that do not read the response to a long body", read_and_answer, |client| {
        client
            .write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
            .expect("it is read");
        client.write_all(&[b'x'; 1_000_000]).expect("it is read");
    });
}

#[test]
fn upstreams_that_do_not_read_need_bounded_memory() {
    let silent = |_: &mut TcpStream| {
        std::thread::sleep(Duration::from_secs(1));
        Ok(0)
    };
    check_exchange("upstreams that do not read", silent, |client| {
        client
            .write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n")
            .expect("it is read");
        client.set_nonblocking(true).expect("a socket");
        // Sends as much as the buffers of the kernel and the gateway hold.
        for _ in 0..8 {
            while client.write(&[b'x'; 64 << 10]).is_ok() {}
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

#[test]
fn a_thousand_certificates_are_kept_once() {
    const COUNT: usize = 1000;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<String> = (0..COUNT).map(|number| format!("d{number}.test")).collect();
    for name in &names {
        write_pair(dir.path(), name);
    }
    let pairs = |names: &[String]| {
        let pair = |name: &String| format!("{{ certificate: {name}.pem, key: {name}.key }}");
        let more: Vec<String> = names[1..].iter().map(pair).collect();
        let first = &names[0];
        listener(&format!("certificate: {first}.pem, key: {first}.key, certificates: [{}]", more.join(", ")))
    };
    let (few, all) = (pairs(&names[..2]), pairs(&names));
    let mut gateway = start(dir, &few);
    let before = gateway.resident_bytes();
    gateway.write("gateway.yaml", &all);
    gateway.reload();
    let each = gateway.resident_bytes().saturating_sub(before) / COUNT as u64;
    assert!(each <= CERTIFICATE_BYTES_MAX, "{each} bytes per certificate and key");
}

/// Incomplete request headers of this length need a buffer of 32 KiB.
const LONG_HEAD_BYTES: usize = 20_000;

#[test]
fn a_flood_of_slow_heads_leaves_no_memory_behind() {
    const CLIENTS: usize = 2_000;
    const TAKEN_BYTES_MIN: u64 = 32 << 20;
    const STAYS_BYTES_MAX: u64 = 8 << 20;
    weir_io::raise_open_files();
    let gateway = Gateway::start(&config(origin().0));
    let resident = |stream: &mut TcpStream| {
        assert!(crate::process::ask(stream).is_some());
        gateway.resident_bytes()
    };
    let mut good = crate::process::connect(gateway.address);
    let before = resident(&mut good);
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Long: {}", "x".repeat(LONG_HEAD_BYTES));
    let flood: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = crate::process::connect(gateway.address);
            client.write_all(head.as_bytes()).expect("it is read");
            client
        })
        .collect();
    gateway.wait_for("the heads", |g| g.resident_bytes() > before + TAKEN_BYTES_MIN);
    drop(flood);
    // The gateway checks for free memory every five seconds. It returns memory that was free in three checks in a row.
    let is_back = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        resident(&mut good) < before + STAYS_BYTES_MAX
    });
    assert!(is_back, "{before} bytes before, and {} are left", gateway.resident_bytes());
}
