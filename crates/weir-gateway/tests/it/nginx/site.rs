//! Runs the example of the guide for nginx users: a client, nginx and weir-gateway, and origins that echo requests.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::operations::program;
use crate::process::{Gateway, peer};
use crate::tls::Authority;

/// The two configurations that the guide links to and quotes.
pub(super) const OF_NGINX: &str = include_str!("../../../../../docs/examples/nginx.conf");
pub(super) const OF_WEIR: &str = include_str!("../../../../../docs/examples/nginx-to-weir-gateway.yaml");

/// The upstream addresses in the example. Each has the name of its backend, and the number of the endpoint in this
/// backend. An address with `None` refuses connections.
const ENDPOINTS: [(&str, Option<(&str, u8)>); 7] = [
    ("10.0.1.11:8080", Some(("shop", 1))),
    ("10.0.1.12:8080", Some(("shop", 2))),
    ("10.0.2.11:8080", Some(("api", 1))),
    ("10.0.3.11:8080", Some(("items", 1))),
    ("10.0.3.12:8080", Some(("items", 2))),
    ("10.0.4.11:8080", Some(("blog", 1))),
    ("10.0.4.12:8080", None),
];

/// Directories of temporary files that nginx creates on start.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// Listening addresses of one server. Each server has its own IP address, so no other test takes its ports.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) plain: SocketAddr,
    pub(super) secure: SocketAddr,
}

/// Both gateways in front of the same origins, with the same certificates.
pub(super) struct Site {
    pub(super) nginx: Nginx,
    pub(super) weir: Gateway,
    pub(super) nginx_ports: Ports,
    pub(super) weir_ports: Ports,
    tls: Arc<ClientConfig>,
    _certificates: tempfile::TempDir,
}

/// A running nginx. Dropping it stops nginx and its workers.
pub(super) struct Nginx {
    child: Child,
    pub(super) dir: tempfile::TempDir,
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Values by lower-case name.
    pub(super) fields: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Site {
    /// Starts both gateways as the guide describes, at two addresses of this network.
    pub(super) fn start(network: &str) -> Site {
        let certificates = folder();
        let authority = Authority::new(certificates.path());
        for (file, names) in
            [("shop", &["shop.example"][..]), ("blog", &["blog.example", "*.blog.example"][..])]
        {
            authority.sign(&certificates.path().join(file), names, &PKCS_ECDSA_P256_SHA256);
        }
        let mut same =
            ENDPOINTS.map(|(address, is)| (address.to_owned(), endpoint(is, network).to_string())).to_vec();
        same.push(("/etc/tls/".to_owned(), format!("{}/", certificates.path().display())));
        let nginx_ports = Ports::free(&format!("{network}.1"));
        let weir_ports = Ports::free(&format!("{network}.2"));
        Site {
            nginx: Nginx::start(&same, nginx_ports),
            weir: weir(&same, weir_ports),
            nginx_ports,
            weir_ports,
            tls: trusting(certificates.path()),
            _certificates: certificates,
        }
    }

    /// Responses of nginx and weir-gateway to a client with the SNI `name`, or over plain HTTP if `name` is empty.
    pub(super) fn ask(&self, name: &str, request: &str) -> [Answer; 2] {
        [self.nginx_ports, self.weir_ports].map(|ports| self.ask_one(ports, name, request))
    }

    pub(super) fn ask_one(&self, ports: Ports, name: &str, request: &str) -> Answer {
        let mut stream = self.connect(ports, name);
        stream.write_all(closing(request).as_bytes()).expect("it reads");
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        while !is_whole(&bytes) {
            match stream.read(&mut chunk) {
                Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
                // An unclean close is accepted, because the received bytes are compared.
                _ => break,
            }
        }
        Answer::of(&bytes)
    }

    pub(super) fn connect(&self, ports: Ports, name: &str) -> Box<dyn Stream> {
        let address = if name.is_empty() { ports.plain } else { ports.secure };
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        if name.is_empty() {
            return Box::new(stream);
        }
        let server = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.tls), server).expect("a client");
        Box::new(StreamOwned::new(connection, stream))
    }
}

/// A plain or TLS stream.
pub(super) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Ports {
    pub(super) fn free(ip: &str) -> Ports {
        let [plain, secure] = [(); 2].map(|()| TcpListener::bind((ip, 0)).expect("a free port"));
        let address = |listener: TcpListener| listener.local_addr().expect("its address");
        Ports { plain: address(plain), secure: address(secure) }
    }
}

impl Nginx {
    fn start(same: &[(String, String)], ports: Ports) -> Nginx {
        let dir = folder();
        let at = dir.path().display();
        let temporary = TEMPORARY.map(|name| format!("    {name}_temp_path {at}/{name};\n")).concat();
        let own = [
            ("listen 80".to_owned(), format!("listen {}", ports.plain)),
            ("listen 443".to_owned(), format!("listen {}", ports.secure)),
            ("/var/log/nginx/".to_owned(), format!("{at}/")),
            ("http {\n".to_owned(), format!("http {{\n{temporary}")),
        ];
        let text = replaced(OF_NGINX, &[&own[..], same].concat());
        std::fs::write(dir.path().join("nginx.conf"), text).expect("a file");
        Nginx::run(dir, ports.secure)
    }

    /// Starts one server with these directives at `address`.
    pub(super) fn serving(directives: &str, address: SocketAddr) -> Nginx {
        let dir = folder();
        let at = dir.path().display();
        let temporary = TEMPORARY.map(|name| format!("{name}_temp_path {at}/{name};\n")).concat();
        let text = format!(
            "events {{}}\nhttp {{\naccess_log off;\n{temporary}server {{\nlisten {address};\n{directives}\n}}\n}}\n"
        );
        std::fs::write(dir.path().join("nginx.conf"), text).expect("a file");
        Nginx::run(dir, address)
    }

    /// Starts nginx with the file in its folder, and waits until it listens at `address`.
    fn run(dir: tempfile::TempDir, address: SocketAddr) -> Nginx {
        let at = dir.path().display();
        let user = if geteuid().is_root() { "user root;" } else { "" };
        let globals = format!("daemon off; pid {at}/nginx.pid; error_log stderr crit; {user}");
        let child = Command::new(peer("nginx"))
            .args(["-e", "stderr", "-g", &globals, "-p"])
            .arg(dir.path())
            .arg("-c")
            .arg(dir.path().join("nginx.conf"))
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let mut nginx = Nginx { child, dir };
        while TcpStream::connect(address).is_err() {
            assert!(nginx.child.try_wait().expect("its state").is_none(), "nginx has exited");
            std::thread::sleep(Duration::from_millis(10));
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // nginx passes SIGTERM on to its workers. It may have exited already.
        if let Some(process) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

impl Answer {
    pub(super) fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Answer { status, fields: lines.map(field).collect(), body: body.to_owned() }
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Whether the body has arrived. The caller does not wait for the end of the connection, because nginx may close it
/// late.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase().split("\r\ncontent-length: ").nth(1).map(|rest| {
        let digits = rest.split("\r\n").next().unwrap_or_default();
        digits.parse::<usize>().expect("a length")
    });
    length.is_some_and(|length| length > 0 && body.len() >= length)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Replaces addresses and paths in the text. Panics if the text lacks one of them.
fn replaced(text: &str, replacements: &[(String, String)]) -> String {
    replacements.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the example has no {from:?}");
        text.replace(from, to)
    })
}

fn weir(same: &[(String, String)], ports: Ports) -> Gateway {
    let dir = folder();
    let own = [
        ("0.0.0.0:80".to_owned(), ports.plain.to_string()),
        ("0.0.0.0:443".to_owned(), ports.secure.to_string()),
        ("/var/log/weir/".to_owned(), format!("{}/", dir.path().display())),
    ];
    let text = replaced(OF_WEIR, &[&own[..], same].concat());
    Gateway::spawn_in(dir, &text, program())
}

/// A client that trusts the certificate authority in this folder.
fn trusting(certificates: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(certificates.join("ca.pem")).expect("a certificate");
    roots.add(authority).expect("a good certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Completes a request, and asks to close the connection after it. `request` contains method and target, header lines
/// and, after an empty line, an optional body.
fn closing(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request.trim_end(), ""));
    let (start, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    format!("{start} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n\r\n{body}")
}

/// Starts an endpoint of the example, and returns its address. For `None`, returns an address that refuses connections.
fn endpoint(is: Option<(&'static str, u8)>, network: &str) -> SocketAddr {
    let ip = format!("{network}.3");
    let listener = TcpListener::bind((ip.as_str(), 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    if let Some((backend, number)) = is {
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    // If the client disconnects, only this thread ends.
                    let _ = serve(stream, backend, number);
                });
            }
        });
    }
    address
}

/// Responds to each request with a text that describes it. Some paths get other responses.
fn serve(stream: TcpStream, backend: &str, number: u8) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let field = |name: &str| {
            let lines = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
            lines.filter(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect::<Vec<_>>()
        };
        let mut parts = lines[0].split(' ');
        let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if !field("upgrade").is_empty() {
            writer.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
            )?;
            std::io::copy(&mut reader, &mut writer)?;
            return Ok(());
        }
        let mut body = vec![0; field("content-length").first().and_then(|l| l.parse().ok()).unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let status = match target {
            "/broken" => return Ok(()),
            // Waits until the gateway times out and closes the connection.
            "/slow" => return reader.read(&mut [0]).map(|_| ()),
            "/flaky" if number == 1 => "503 Service Unavailable",
            "/unavailable" => "503 Service Unavailable",
            _ => "200 OK",
        };
        let names = ["host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x_user"];
        let fields = names.map(|name| format!("{name} {:?}\n", field(name))).concat();
        let is_named = field("x-request-id").len() == 1;
        let body = String::from_utf8_lossy(&body);
        let echo = format!("{method} {target}\n{fields}named {is_named}\nbody {body:?}\n");
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: origin\r\nX-Backend: {backend}\r\nX-Endpoint: {number}\r\n\
             X-Powered-By: origin\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            echo.len()
        );
        let body = if method == "HEAD" { "" } else { echo.as_str() };
        writer.write_all(format!("{head}{body}").as_bytes())?;
    }
}
