//! A gateway in the test process that reads a folder, origins that echo requests, and texts of manifests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use weir_control::FileSource;
use weir_dataplane::Gateway;

/// A gateway in the test process that reads its configuration from a folder.
pub(super) struct Served {
    pub(super) dir: tempfile::TempDir,
    pub(super) source: FileSource,
    pub(super) gateway: Gateway,
}

impl Served {
    pub(super) fn start(files: &[(&str, &str)]) -> Served {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let mut source = FileSource::new(dir.path());
        let table = source.load().unwrap_or_else(|error| panic!("{:#?}", error.lines()));
        let gateway = Gateway::start(table).expect("it starts");
        Served { dir, source, gateway }
    }

    /// Starts a gateway with one worker, these documents and one plain HTTP listener at `ip`. Also returns its address.
    pub(super) fn at(ip: &str, documents: &[String]) -> (Served, SocketAddr) {
        let listener = format!("    - {{ name: http, port: {}, protocol: HTTP }}", free_port(ip));
        let all = gateway(ip, &listener) + &documents.concat();
        let served = Served::start(&[("all.yaml", &all), ("settings.yaml", "workers: 1\n")]);
        let address = served.gateway.addresses()[0];
        (served, address)
    }

    /// Reloads the folder. Returns the errors.
    pub(super) fn reload(&mut self) -> Vec<String> {
        match self.source.load() {
            Ok(table) => {
                self.gateway.apply(table).expect("the table applies");
                Vec::new()
            }
            Err(error) => error.lines(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.gateway.drain();
    }
}

pub(super) fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("a file");
}

/// An origin that responds with its name and the request.
pub(super) fn echo(name: &'static str) -> SocketAddr {
    origin(move |head, stream| {
        let body = format!("{name}: {head}");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        // The gateway may have disconnected.
        let _ = stream.write_all(answer.as_bytes());
    })
}

/// An origin that calls `answer` with the headers of each request.
pub(super) fn origin(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0; 1];
                while stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
                    head.push(byte[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        answer(&String::from_utf8_lossy(&head), &mut stream);
                        head.clear();
                    }
                }
            });
        }
    });
    address
}

/// A free port of this address. Each test has its own address, so no other test takes the port.
pub(super) fn free_port(ip: &str) -> u16 {
    let listener = TcpListener::bind((ip, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// The response to one request over its own connection, without the Date header.
pub(super) fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    exchange(&mut stream, request)
}

pub(super) fn exchange(stream: &mut (impl Read + Write), request: &str) -> String {
    let (start, fields) = request.split_once("\r\n").unwrap_or((request, ""));
    let head = format!("{start} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    // A reset counts as the end: the bytes before it are compared.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split("\r\n").filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n")
}

/// A GatewayClass, and a Gateway with these listeners at this address.
pub(super) fn gateway(ip: &str, listeners: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{ name: weir }}
spec: {{ controllerName: gateway.weir.example/controller }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: edge }}
spec:
  gatewayClassName: weir
  addresses: [{{ value: {ip} }}]
  listeners:
{listeners}
"
    )
}

pub(super) fn backend(name: &str, origin: SocketAddr) -> String {
    format!(
        "---\napiVersion: gateway.weir.example/v1alpha1\nkind: Backend\nmetadata: {{ name: {name} }}\n\
         spec: {{ endpoints: [{{ address: {}, port: {} }}] }}\n",
        origin.ip(),
        origin.port()
    )
}

pub(super) fn route(name: &str, more: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}{more} }}\nspec:\n  \
         parentRefs: [{{ name: edge }}]\n{spec}\n"
    )
}

/// A reference to a backend in a rule.
pub(super) fn to(backend: &str) -> String {
    format!("{{ group: gateway.weir.example, kind: Backend, name: {backend} }}")
}

/// A rule that sends every request to one backend.
pub(super) fn whole(backend: &str) -> String {
    format!("  rules: [{{ backendRefs: [{}] }}]", to(backend))
}

/// The name of the origin that responded, or `nobody` if the gateway itself did.
pub(super) fn who(answer: &str) -> &str {
    let body = answer.split_once("\n\n").map_or("", |(_, body)| body);
    body.split_once(": GET ").map_or("nobody", |(name, _)| name)
}
