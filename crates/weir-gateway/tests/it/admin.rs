//! The admin server: endpoints other than health and counters.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::process::{Gateway, config, connect, origin, response};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ask(gateway: &Gateway) {
    let mut client = connect(gateway.address);
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    assert!(response(&mut client).expect("an answer").starts_with("HTTP/1.1 200 "));
}

pub(crate) fn post(gateway: &Gateway, target: &str, fields: &str) -> String {
    let mut client = connect(gateway.admin);
    let request = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

pub(crate) fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1
}

#[test]
fn the_active_configuration_is_shown_without_secrets() {
    let text = config(origin().0)
        .replace("backend: api }", "backend: api, request_headers: { set: { x-auth: hush } } }");
    let mut gateway = Gateway::start_with(&text, &[]);
    let answer = gateway.admin("/config");
    let shown = body(&answer);
    assert!(shown.starts_with("{\"version\":1,\"configuration\":{\"listeners\":["), "{shown}");
    assert!(shown.contains("\"x-auth\":\"<left out>\"") && !shown.contains("hush"), "{shown}");
    gateway.configure(&text.replace("path: /,", "path: /changed,"));
    gateway.reload();
    let answer = gateway.admin("/config");
    assert!(body(&answer).contains("\"path\":\"/changed\"") && answer.contains("\"version\":2"), "{answer}");
}

#[test]
fn clusters_are_shown_with_their_counters() {
    let (origin, _) = origin();
    let gateway = Gateway::start_with(&config(origin), &[]);
    for _ in 0..3 {
        ask(&gateway);
    }
    let api = &clusters(&gateway)["api"];
    assert_eq!((&api["tls"], &api["balance"]), (&json!(false), &json!("round_robin")));
    assert_eq!(api["by_status"], json!({ "1xx": 0, "2xx": 3, "3xx": 0, "4xx": 0, "5xx": 0 }));
    let [endpoint] = api["endpoints"].as_array().expect("a list").as_slice() else { panic!("{api}") };
    assert_eq!((&endpoint["address"], &endpoint["weight"]), (&json!(origin.to_string()), &json!(1)));
    assert_eq!((&endpoint["state"], &endpoint["reasons"]), (&json!("in"), &json!([])));
    assert_eq!((&endpoint["requests"], &endpoint["errors"]), (&json!(3), &json!(0)));
    assert_eq!(api["open"], endpoint["connections"]);
    let since = endpoint["since"].as_str().expect("a time");
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    for absent in ["name", "until"] {
        assert!(endpoint[absent].is_null(), "{absent}: {endpoint}");
    }
}

/// The backends as the admin server shows them.
fn clusters(gateway: &Gateway) -> Value {
    let answer = gateway.admin("/clusters");
    let mut shown: Value = serde_json::from_str(body(&answer)).expect("JSON");
    shown["clusters"].take()
}

/// The endpoints of the backend `api`, each with these fields.
pub(crate) fn endpoints(gateway: &Gateway, fields: &[&str]) -> Value {
    let shown = clusters(gateway)["api"]["endpoints"].take();
    let fields_of = |endpoint: &Value| fields.iter().map(|field| endpoint[*field].clone()).collect::<Value>();
    shown.as_array().expect("a list").iter().map(fields_of).collect()
}

/// An upstream that responds with 500. A request for `/slow` waits for a message on the channel instead.
fn broken_origin() -> (SocketAddr, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let released = Arc::clone(&released);
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut chunk) {
                    let status = match chunk[..bytes].starts_with(b"GET /slow ") {
                        true => {
                            released.lock().expect("nobody panics").recv().map_or("502 No", |()| "200 OK")
                        }
                        false => "500 No",
                    };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, release)
}

#[test]
fn endpoints_are_shown_with_the_reason_of_their_ejection() {
    let ((good, _), (broken, release)) = (origin(), broken_origin());
    let dead = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address");
    let text = |endpoints: &str, more: &str| {
        let of_origin = format!("endpoints: ['{good}']");
        config(good)
            .replace("workers: 2", "workers: 1")
            .replace(&of_origin, &format!("endpoints: [{endpoints}]{more}"))
    };
    let health = ", health: { path: /up, interval: 10ms, unhealthy: 1 }";
    let ejection = ", ejection: { errors: 1, time: 1h }";
    let mut gateway = Gateway::start(&text(&format!("{{ address: '{broken}', weight: 2 }}"), ""));
    let mut slow = connect(gateway.address);
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    let state = ["address", "weight", "state", "reasons"];
    let counted = ["requests_in_flight", "connections", "requests", "errors", "ejections", "checks_passed"];
    gateway.wait_for("the slow one", |g| endpoints(g, &["requests_in_flight"]) == json!([[1]]));
    assert_eq!(endpoints(&gateway, &state), json!([[broken.to_string(), 2, "in", []]]));
    // The broken endpoint fails its health checks. Then a reload removes it while a request is in flight.
    let both = format!("'{good}', '{broken}'");
    gateway.configure(&text(&both, health));
    gateway.reload();
    gateway.wait_for("the checks", |g| endpoints(g, &["state"]) == json!([["in"], ["out"]]));
    let expected = json!([[good.to_string(), 1, "in", []], [broken.to_string(), 1, "out", ["health_check"]]]);
    assert_eq!(endpoints(&gateway, &state), expected);
    assert_eq!(endpoints(&gateway, &["last_check_failure"]), json!([[null], ["status 500"]]));
    gateway.configure(&text(&format!("'{good}', '{dead}'"), ejection));
    gateway.reload();
    ask(&gateway);
    ask(&gateway);
    let in_flight = json!([[0], [0], [1]]);
    gateway.wait_for("their responses", |g| endpoints(g, &["requests_in_flight"]) == in_flight);
    let of_broken = json!([broken.to_string(), null, "draining", []]);
    let of_dead = json!([dead.to_string(), 1, "out", ["errors_in_a_row"]]);
    assert_eq!(endpoints(&gateway, &state), json!([[good.to_string(), 1, "in", []], of_dead, of_broken]));
    let of_good = endpoints(&gateway, &counted)[0].take();
    assert_eq!((&of_good[2], &of_good[3]), (&json!(2), &json!(0)), "{of_good}");
    assert_eq!(endpoints(&gateway, &counted)[1], json!([0, 0, 0, 1, 1, 0]));
    assert_eq!(endpoints(&gateway, &counted)[2], json!([1, 1, 1, 0, 0, 0]));
    assert!(endpoints(&gateway, &["until"])[1][0].is_string());
    let metrics = gateway.admin("/metrics");
    for line in [
        "\nweir_upstream_endpoints{backend=\"api\"} 2\n",
        "\nweir_upstream_endpoints_out{backend=\"api\"} 1\n",
        "\nweir_upstream_requests_in_flight{backend=\"api\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    release.send(()).expect("it waits");
    assert!(response(&mut slow).expect("an answer").starts_with("HTTP/1.1 200 "));
    gateway.wait_for("the end", |g| endpoints(g, &["state"]) == json!([["in"], ["out"]]));
}

#[test]
fn the_cause_of_a_failed_check_is_shown() {
    let check = |answer: Option<&'static str>, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
                match answer {
                    Some(answer) => drop(stream.write_all(answer.as_bytes())),
                    None => silent.push(stream),
                }
            }
        });
        let health = ", health: { path: /up, interval: 10ms, timeout: 100ms, unhealthy: 1 }";
        let of_origin = format!("endpoints: ['{address}']");
        let gateway = Gateway::start(&config(address).replace(&of_origin, &format!("{of_origin}{health}")));
        gateway.wait_for("the checks", |g| endpoints(g, &["state"]) == json!([["out"]]));
        assert_eq!(endpoints(&gateway, &["last_check_failure"]), json!([[expected]]));
    };
    check(None, "timed out");
    check(Some("HTTP/1.1 503 No\r\n\r\n"), "status 503");
    check(Some("HTTP/1.1 200 OK\r\nServ"), "connection closed before a response");
    check(Some("SSH-2.0-OpenSSH_9.2\r\n"), "malformed HTTP/1.1 response");
}

#[test]
fn a_removed_backend_is_shown_until_its_tunnel_closes() {
    let switching = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = switching.local_addr().expect("its address");
    let text = config(address);
    let mut gateway = Gateway::start_with(&text, &[]);
    let mut client = connect(gateway.address);
    let upgrade = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(upgrade).expect("it reads");
    let (mut upstream, _) = switching.accept().expect("a connection");
    let switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    upstream.write_all(switched).expect("it reads");
    let mut status = [0; 12];
    client.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 101");
    gateway.configure(&text.replace("backend: api", "backend: next").replace("api:", "next:"));
    gateway.reload();
    assert_eq!(clusters(&gateway)["next"]["leaving"], json!(false));
    let of_api = clusters(&gateway)["api"].take();
    assert_eq!(
        (&of_api["leaving"], &of_api["open"], &of_api["tls"]),
        (&json!(true), &json!(1), &json!(null))
    );
    let fields = ["address", "state", "requests_in_flight", "connections"];
    let expected = json!([[address.to_string(), "draining", 1, 1]]);
    assert_eq!(endpoints(&gateway, &fields), expected);
    drop((client, upstream));
    gateway.wait_for("its removal", |g| clusters(g)["api"].is_null());
    gateway.wait_for("the removal of its metrics", |g| !g.admin("/metrics").contains("{backend=\"api\"}"));
    assert_eq!(gateway.stat("connects"), 1, "totals keep its counts");
}

#[test]
fn names_are_shown_with_their_addresses() {
    let (origin, _) = origin();
    let port = origin.port();
    // The hosts file resolves the first name. Nothing resolves the second name.
    let endpoints = format!("['localhost:{port}', 'nowhere.invalid:80']");
    let text = config(origin).replace(&format!("['{origin}']"), &endpoints)
        + "resolver: { servers: ['127.0.0.1:9'] }\n";
    let gateway = Gateway::start_with(&text, &[]);
    gateway.wait_for("the address", |g| clusters(g)["api"]["names"]["localhost"][0].is_string());
    let api = &clusters(&gateway)["api"];
    assert_eq!(api["names"]["nowhere.invalid"], json!([]));
    let first = &api["endpoints"][0];
    assert_eq!((&first["name"], &first["state"]), (&json!(format!("localhost:{port}")), &json!("in")));
    let addresses = api["names"]["localhost"].as_array().expect("a list").len();
    assert_eq!(api["endpoints"].as_array().expect("a list").len(), addresses);
}

/// Creates a certificate for this name, valid for `days` days and one hour. Returns the certificate and its key.
fn certificate(name: &str, days: u32) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let end = SystemTime::now() + DAY * days + Duration::from_secs(3600);
    params.not_after = end.into();
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn certificates_are_shown_with_the_days_they_have_left() {
    let ((soon, soon_key), (late, late_key)) = (certificate("soon.test", 3), certificate("late.test", 400));
    let tls = "tls: { certificate: late.pem, key: late.key, certificates: [{ certificate: soon.pem, key: soon.key }] }";
    let text = config(origin().0).replace("127.0.0.1:0 }", &format!("127.0.0.1:0, name: web, {tls} }}"));
    let files = [("soon.pem", &soon), ("soon.key", &soon_key), ("late.pem", &late), ("late.key", &late_key)];
    let gateway = Gateway::start_with(&text, &files.map(|(name, text)| (name, text.as_str())));
    let answer = gateway.admin("/certs");
    let shown = body(&answer);
    let (first, second) = shown.split_once("},{").expect("two certificates");
    for (part, name, days) in [(first, "soon", 3), (second, "late", 400)] {
        let expected = format!("\"listener\":\"web\",\"file\":\"{name}.pem\",\"names\":[\"{name}.test\"]");
        assert!(part.contains(&expected) && part.contains(&format!("\"days_left\":{days}")), "{shown}");
    }
    let metrics = gateway.admin("/metrics");
    let sample = metrics.split("\nweir_certificate_expiry_timestamp_seconds{listener=\"web\"} ").nth(1);
    let end: u64 = sample.and_then(|rest| rest.lines().next()?.parse().ok()).expect("a sample");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    assert_eq!((end - now) / DAY.as_secs(), 3, "the certificate that expires first");
}

#[test]
fn the_level_of_the_access_log_changes_at_run_time() {
    let text = config(origin().0) + "access_log: { file: access.log, format: $request_uri, sample: 0% }\n";
    let gateway = Gateway::start_with(&text, &[]);
    assert_eq!(body(&gateway.admin("/log")), "{\"level\":\"info\"}\n");
    ask(&gateway);
    // The gateway decides after the response whether it logs a request.
    gateway.wait_for("its end", |g| g.stat("open") == 0);
    assert_eq!(body(&post(&gateway, "/log?level=debug", "")), "{\"level\":\"debug\"}\n");
    for lines in 1..=3 {
        ask(&gateway);
        gateway.wait_for("the line", |g| g.stat("lines") == lines);
    }
    assert_eq!(body(&post(&gateway, "/log?level=off", "")), "{\"level\":\"off\"}\n");
    ask(&gateway);
    let wrong = post(&gateway, "/log?level=loud", "");
    let remedy =
        "\r\n\r\ninvalid query; use /log?level=LEVEL, with one of the levels off, error, info, debug\n";
    assert!(wrong.starts_with("HTTP/1.1 400 ") && wrong.ends_with(remedy), "{wrong}");
    let file = gateway.dir.path().join("access.log");
    let kept = tempfile::tempdir().expect("a temporary folder");
    std::fs::hard_link(&file, kept.path().join("log")).expect("a link");
    assert_eq!(gateway.stop(), "");
    assert_eq!(std::fs::read_to_string(kept.path().join("log")).expect("a log"), "/\n/\n/\n");
}

/// Probes time out after one second, silent clients only after ten. So if silent clients use all connections of the
/// admin server, a probe must not wait until they time out.
#[test]
fn silent_clients_are_closed_for_new_ones() {
    let gateway = Gateway::start_with(&config(origin().0), &[]);
    let mut silent: Vec<_> = (0..64).map(|_| connect(gateway.admin)).collect();
    assert!(gateway.admin("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)), "the first one is closed");
    for client in &mut silent[1..] {
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut status = [0; 12];
        client.read_exact(&mut status).expect("the others stay connected");
        assert_eq!(&status, b"HTTP/1.1 200");
    }
}

#[test]
fn a_drain_can_be_requested() {
    let gateway = Gateway::start_with(&config(origin().0), &[]);
    let get = gateway.admin("/drain");
    assert!(get.starts_with("HTTP/1.1 405 ") && get.contains("\r\nAllow: POST\r\n"), "{get}");
    let of_a_page = post(&gateway, "/drain", "Origin: https://evil.example\r\n");
    assert!(of_a_page.starts_with("HTTP/1.1 403 "), "{of_a_page}");
    ask(&gateway);
    assert!(post(&gateway, "/drain", "").starts_with("HTTP/1.1 202 "));
    assert_eq!(gateway.wait(), (Some(0), String::new()));
}

/// The response of the admin server to a request with this method, path and Host.
fn request_as(gateway: &Gateway, method: &str, path: &str, host: &str) -> String {
    let mut client = connect(gateway.admin);
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn dns_rebinding_reads_nothing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    command.args(["--admin-host", "gw.example.com", "--admin-host", "*.svc.local"]);
    let gateway = Gateway::spawn(&config(origin().0), command);
    let port = gateway.admin.port();
    for (method, path) in [("GET", "/config"), ("GET", "/metrics"), ("GET", "/nothing"), ("POST", "/drain")] {
        let answer = request_as(&gateway, method, path, &format!("evil.example:{port}"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--admin-host"), "{path}: {answer}");
        assert!(!answer.contains("evil"), "{answer}");
    }
    for host in ["localhost", "127.0.0.1", "10.1.2.3", "[::1]", "gw.example.com", "pod-0.svc.local"] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            let answer = request_as(&gateway, "GET", "/healthz", &host);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
        }
    }
    let mut probe = connect(gateway.admin);
    probe.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    probe.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "an HTTP/1.0 probe has no Host: {answer}");
    let (code, messages) =
        crate::process::run(&config(origin().0), &["--admin", "127.0.0.1:0", "--admin-host", "http://a"]);
    assert!(code == Some(2) && messages.contains("without scheme and port"), "{messages}");
}
