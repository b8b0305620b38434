//! A client, proxies that append its address, weir-gateway, and an origin that echoes the request headers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::process::{Gateway, peer};

/// Source addresses of the proxies, in the order of the request path.
const SOURCES: [&str; 2] = ["127.7.25.11", "127.7.25.12"];

/// Directories of temporary files that nginx creates on start.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// A proxy, and how it forwards the client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// Joins all header lines into one, and appends to it.
    Nginx,
    /// Like `Nginx`, but appends the address of its client with the port.
    NginxWithPorts,
    /// Like `Nginx`, but appends `_hidden` instead of the address of its client.
    NginxHiding,
    /// Appends to `Forwarded`.
    NginxForwarded,
    /// Adds a separate header line (`option forwardfor`).
    Haproxy,
    /// Adds a separate `Forwarded` line.
    HaproxyForwarded,
}

/// Proxies in front of weir-gateway, in a chain.
pub(super) struct Chain {
    fronts: Vec<Front>,
    address: SocketAddr,
    weir: Gateway,
    _proxies: Vec<Proxy>,
}

/// Header values that the gateway must send upstream for each request.
pub(super) struct Expected {
    pub(super) x_forwarded_for: String,
    pub(super) forwarded: String,
    pub(super) client: String,
}

/// A running proxy. Dropping it stops the process.
struct Proxy {
    child: Child,
    _dir: tempfile::TempDir,
}

impl Chain {
    /// Starts the proxies in this order, in front of a gateway with these `forwarding` settings. Clients connect over
    /// IPv6, proxies over IPv4.
    pub(super) fn start(fronts: &[Front], settings: &str) -> Chain {
        let hops = fronts.len();
        let weir = Gateway::start(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
             backends: {{ b: {{ endpoints: ['{}'] }} }}\n\
             forwarding: {{ {settings}, trusted_hops: {hops} }}\n\
             access_log: {{ file: access.log, format: '$remote_addr $request_uri' }}\n",
            origin()
        ));
        let mut next = weir.address;
        let mut proxies = Vec::new();
        for (at, front) in fronts.iter().enumerate().rev() {
            let ip = if at == 0 { "::1" } else { SOURCES[at] };
            let listener = TcpListener::bind((ip, 0)).expect("a free port");
            let address = listener.local_addr().expect("its address");
            drop(listener);
            proxies.push(Proxy::start(*front, address, SOURCES[at], next));
            next = address;
        }
        Chain { fronts: fronts.to_vec(), address: next, weir, _proxies: proxies }
    }

    /// The expected upstream headers: the elements that the proxies append, then the address of the gateway's peer.
    pub(super) fn expected_fields(&self) -> Expected {
        let clients = ["::1", SOURCES[0]];
        let mut expected =
            Expected { x_forwarded_for: String::new(), forwarded: String::new(), client: String::new() };
        let peer = SOURCES[self.fronts.len() - 1];
        for (at, front) in self.fronts.iter().enumerate() {
            let is_hidden = *front == Front::NginxHiding;
            let node = if is_hidden { "_hidden" } else { clients[at] };
            if at == 0 {
                expected.client = if is_hidden { peer.to_owned() } else { node.to_owned() };
            }
            expected.x_forwarded_for += &format!("{node}, ");
            let node = if node.contains(':') { format!("\"[{node}]\"") } else { node.to_owned() };
            expected.forwarded += &format!("for={node}, ");
        }
        expected.x_forwarded_for += peer;
        expected.forwarded += &format!("for={peer};host=\"h\";proto=http");
        expected
    }

    /// The headers that the upstream receives for a request with these header lines. Client ports are removed.
    pub(super) fn ask(&self, path: &str, lines: &[Vec<u8>]) -> String {
        let (request, own, answer) = self.answer("h", path, lines);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{} {answer}", request.escape_ascii());
        let with_port = own.to_string();
        let quoted = format!("\"[{}]\"", own.ip());
        body.replace(&format!("\"{with_port}\""), &quoted).replace(&with_port, &own.ip().to_string())
    }

    /// Sends a request for a host. Returns the request, the client's address and the response.
    pub(super) fn answer(&self, host: &str, path: &str, lines: &[Vec<u8>]) -> (Vec<u8>, SocketAddr, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n").into_bytes();
        for line in lines {
            request.extend_from_slice(line);
            request.extend_from_slice(b"\r\n");
        }
        let own = stream.local_addr().expect("its address");
        stream.write_all(&[&request[..], b"\r\n"].concat()).expect("it reads");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        (request, own, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until the access log has `lines` lines, and returns them.
    pub(super) fn logged(&self, lines: usize) -> Vec<String> {
        self.weir.wait_for("the lines", |weir| weir.stat("lines") as usize == lines);
        let text = std::fs::read_to_string(self.weir.dir.path().join("access.log")).expect("a log");
        text.lines().map(str::to_owned).collect()
    }
}

impl Proxy {
    fn start(front: Front, address: SocketAddr, source: &str, next: SocketAddr) -> Proxy {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("proxy.conf");
        let mut command = match front {
            Front::Haproxy | Front::HaproxyForwarded => {
                std::fs::write(&file, haproxy(front, address, source, next)).expect("a file");
                let mut command = Command::new(peer("haproxy"));
                command.args(["-q", "-db", "-f"]).arg(&file);
                command
            }
            _ => {
                let at = dir.path().display().to_string();
                std::fs::write(&file, nginx(front, address, source, next, &at)).expect("a file");
                let user = if geteuid().is_root() { "user root;" } else { "" };
                let globals = format!("daemon off; pid {at}/nginx.pid; error_log stderr crit; {user}");
                let mut command = Command::new(peer("nginx"));
                command.args(["-e", "stderr", "-g", &globals, "-p"]).arg(dir.path()).arg("-c").arg(&file);
                command
            }
        };
        let child = command.stdin(Stdio::null()).spawn().expect("it starts");
        let mut proxy = Proxy { child, _dir: dir };
        while TcpStream::connect(address).is_err() {
            assert!(proxy.child.try_wait().expect("its state").is_none(), "{front:?} has exited");
            std::thread::sleep(Duration::from_millis(10));
        }
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx passes SIGTERM on to its workers. The process may have exited already.
        if let Some(process) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

fn nginx(front: Front, address: SocketAddr, source: &str, next: SocketAddr, dir: &str) -> String {
    let temporary = TEMPORARY.map(|name| format!("{name}_temp_path {dir}/{name};\n")).concat();
    let field = match front {
        Front::NginxWithPorts => "X-Forwarded-For \"$http_x_forwarded_for, $address:$remote_port\"",
        Front::NginxHiding => "X-Forwarded-For \"$http_x_forwarded_for, _hidden\"",
        Front::NginxForwarded => "Forwarded \"$http_forwarded, for=$node\"",
        _ => "X-Forwarded-For $proxy_add_x_forwarded_for",
    };
    format!(
        "events {{}}\nhttp {{\n{temporary}access_log off;\n\
         map $remote_addr $node {{ default $remote_addr; ~: '\"[$remote_addr]\"'; }}\n\
         map $remote_addr $address {{ default $remote_addr; ~: '[$remote_addr]'; }}\n\
         server {{ listen {address}; location / {{\n\
         proxy_pass http://{next}; proxy_bind {source};\n\
         proxy_set_header Host $http_host;\nproxy_set_header {field};\n}} }}\n}}\n"
    )
}

fn haproxy(front: Front, address: SocketAddr, source: &str, next: SocketAddr) -> String {
    let field = match front {
        Front::HaproxyForwarded if address.is_ipv6() => {
            "http-request add-header Forwarded for=\\\"[%[src]]\\\""
        }
        Front::HaproxyForwarded => "http-request add-header Forwarded for=%[src]",
        _ => "option forwardfor",
    };
    format!(
        "defaults\n mode http\n timeout connect 20s\n timeout client 20s\n timeout server 20s\n\
         frontend front\n bind {address}\n {field}\n default_backend back\n\
         backend back\n server next {next} source {source}\n"
    )
}

/// Echoes the headers of each request.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // The error is ignored: if a client disconnects, only this thread ends.
                let _ = serve(stream);
            });
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let start = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
            stream.write_all(&[start.as_bytes(), &head].concat())?;
            head.clear();
        }
    }
    Ok(())
}
