//! `weir load` against real servers, over every combination of TLS version, HTTP version and resumption, and over Unix
//! sockets. Every request gets a response, and no connection fails.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::program::{finish, free_port, json as read, text, until, weir};

/// A peer program that responds without an upstream; killed on drop.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(folder: &Path, name: &str, arguments: &[&str], port: u16) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin").join(name);
        assert!(program.exists(), "{} is missing; `make peers` fetches it", program.display());
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        until("the server listens", || {
            let ended = child.try_wait().unwrap();
            let said = || std::fs::read_to_string(folder.join("log")).unwrap();
            assert!(ended.is_none(), "{name} ended: {}", said());
            TcpStream::connect(address).is_ok()
        });
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// (Certificate, key) of `localhost` in `folder`, made by the rig.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let arguments =
        ["render", "side-by-side", "--gateway", "weir", "--set", "topology.tls=true", "--out", "rendered"];
    let output = finish(weir(folder, &arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let made = folder.join("rendered/tls");
    (made.join("server.pem"), made.join("server.pem.key"))
}

/// nginx with TLS on a port and on the Unix socket `tls.sock`, and plain HTTP on the Unix socket `plain.sock`.
fn nginx(folder: &Path) -> Server {
    let (certificate, key) = certificate(folder);
    let port = free_port();
    let at = folder.display();
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log stderr error; events {{}}\n\
         http {{ access_log off; client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;\n\
         uwsgi_temp_path {at}/d; scgi_temp_path {at}/e; keepalive_requests 1000000;\n\
         ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.2 TLSv1.3;\n\
         server {{ listen 127.0.0.1:{port} ssl http2; listen unix:{at}/tls.sock ssl http2;\n\
         location / {{ return 200 \"$host $uri $args\"; }} }}\n\
         server {{ listen unix:{at}/plain.sock; location / {{ return 200 \"$host $uri $args\"; }} }} }}\n",
        certificate.display(),
        key.display(),
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let prefix = format!("{at}/");
    Server::start(folder, "nginx", &["-p", &prefix, "-e", "stderr", "-c", "nginx.conf"], port)
}

fn haproxy(folder: &Path) -> Server {
    let (certificate, key) = certificate(folder);
    let both = [certificate, key].map(|path| std::fs::read_to_string(path).unwrap()).concat();
    std::fs::write(folder.join("both.pem"), both).unwrap();
    let port = free_port();
    let config = format!(
        "global\n  nbthread 1\n  ssl-default-bind-options ssl-min-ver TLSv1.2\ndefaults\n  mode http\n  \
         timeout client 60s\n  timeout http-request 60s\n  timeout connect 5s\n  timeout server 60s\n\
         frontend data\n  bind 127.0.0.1:{port} ssl crt {}/both.pem alpn h2,http/1.1\n  \
         http-request return status 200 content-type text/plain string ok\n",
        folder.display()
    );
    std::fs::write(folder.join("haproxy.cfg"), config).unwrap();
    Server::start(folder, "haproxy", &["-db", "-f", "haproxy.cfg"], port)
}

fn envoy(folder: &Path) -> Server {
    const TYPES: &str = "type.googleapis.com/envoy.extensions";
    let (certificate, key) = certificate(folder);
    let port = free_port();
    let routes = json!({ "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [
        { "match": { "prefix": "/" }, "direct_response": { "status": 200, "body": { "inline_string": "ok" } } }
    ] }] });
    let connections = json!({
        "@type": format!("{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "data",
        "codec_type": "AUTO",
        "route_config": routes,
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": { "@type": format!("{TYPES}.filters.http.router.v3.Router") }
        }]
    });
    let tls = json!({
        "@type": format!("{TYPES}.transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {
                "tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"
            },
            "tls_certificates": [
                { "certificate_chain": { "filename": certificate }, "private_key": { "filename": key } }
            ]
        }
    });
    let config = json!({ "static_resources": { "listeners": [{
        "name": "data",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": port } },
        "filter_chains": [{
            "filters": [
                { "name": "envoy.filters.network.http_connection_manager", "typed_config": connections }
            ],
            "transport_socket": { "name": "envoy.transport_sockets.tls", "typed_config": tls }
        }]
    }] } });
    std::fs::write(folder.join("envoy.json"), config.to_string()).unwrap();
    let arguments =
        ["-c", "envoy.json", "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"];
    Server::start(folder, "envoy", &arguments, port)
}

/// Runs a load, checks that every request got an expected response, and returns the result.
fn load(folder: &Path, url: &str, arguments: &[&str]) -> Value {
    let all = [&["load", url, "--json", "-k"], arguments].concat();
    let all: Vec<&str> = all.into_iter().filter(|one| url.starts_with("https") || *one != "-k").collect();
    let output = finish(weir(folder, &all));
    assert!(output.status.success(), "{all:?}: {}{}", text(&output.stdout), text(&output.stderr));
    let result = read(&output);
    let errors: u64 = result["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert!(errors == 0 && result["said"].is_null(), "{all:?}: {result}");
    let requests = &result["requests"];
    assert_eq!(requests["completed"], requests["scheduled"], "{all:?}: {requests}");
    assert_eq!(requests["unexpected"], 0, "{all:?}: {requests}");
    result
}

fn check(start: fn(&Path) -> Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let url = format!("https://{}/", server.address);
    for (version, http2, resumption) in ["1.2", "1.3"]
        .into_iter()
        .flat_map(|version| [false, true].map(|http2| (version, http2)))
        .flat_map(|(version, http2)| ["on", "off"].map(|resumption| (version, http2, resumption)))
    {
        let count = if http2 { "400" } else { "200" };
        let mut arguments = vec!["-n", count, "-c", "8", "--per-connection", "20", "--check", "status=200"];
        arguments.extend(["--tls", version, "--resumption", resumption, "--timeout", "30s"]);
        arguments.extend(http2.then_some("--http2"));
        let result = load(folder.path(), &url, &arguments);
        let tls = &result["tls"];
        let negotiated: Vec<&String> = tls["negotiated"].as_object().unwrap().keys().collect();
        let alpn = if http2 { " h2" } else { " http/1.1" };
        let is_asked = |said: &String| said.starts_with(&format!("TLS {version} ")) && said.ends_with(alpn);
        assert!(negotiated.into_iter().all(is_asked), "{tls}");
        assert_eq!(tls["failed"], 0, "{tls}");
        assert_eq!(tls["resumed"] == 0, resumption == "off", "{arguments:?}: {tls}");
    }
}

#[test]
fn nginx_serves_every_tls_and_http_version() {
    check(nginx);
}

#[test]
fn haproxy_serves_every_tls_and_http_version() {
    check(haproxy);
}

#[test]
fn envoy_serves_every_tls_and_http_version() {
    check(envoy);
}

#[test]
fn a_load_over_unix_sockets_works_like_over_ports() {
    let folder = tempfile::tempdir().unwrap();
    let _server = nginx(folder.path());
    let at = folder.path().display();
    let plain = format!("unix:{at}/plain.sock");
    let secure = format!("https://unix:{at}/tls.sock:/x");
    // `-t1` and `-c100` are written as for wrk.
    load(folder.path(), &plain, &["-t1", "-c100", "-n2000", "--check", "body=localhost / "]);
    let path = format!("http://{plain}:/a/b?c=d");
    load(folder.path(), &path, &["-c", "4", "-n", "200", "--check", "body=localhost /a/b c=d"]);
    load(folder.path(), &path, &["-r", "200/s", "-d", "1s", "-H", "Host: shop", "--check", "body=shop /a/b"]);
    load(folder.path(), &plain, &["-c", "4", "-n", "100", "--per-connection", "1"]);
    for protocol in [&["--http2"][..], &[]] {
        let flags = [&["-c", "4", "-n", "200", "--check", "body=localhost /x"], protocol].concat();
        load(folder.path(), &secure, &flags);
    }
}

#[test]
fn errors_of_unix_sockets_name_the_socket_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (name, code, said, help) in [
        ("none.sock", 3, "No such file", "start the server first"),
        ("file", 3, "not a socket", "correct the path"),
        ("none.sock:x?y", 2, "the query has no path", "/SOCKET:/?QUERY"),
    ] {
        let url = format!("unix:{}/{name}", folder.path().display());
        let output = finish(weir(folder.path(), &["load", &url]));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(&url) && error.contains(said) && error.contains(help), "{error}");
    }
}
