//! The printed summary of `weir load` against real servers: it reports every error with a remedy, claims nothing that
//! was not measured, and repeats no line.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::program::{Origin, finish, free_port, json, text, until, weir};

/// Runs a load. Returns (exit code, summary).
fn load(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = finish(weir(folder, &[&["load"], arguments].concat()));
    let summary = text(&output.stdout);
    assert!(summary.contains("  throughput "), "{summary}{}", text(&output.stderr));
    let mut seen = HashSet::new();
    for line in summary.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(seen.insert(line), "{line:?} is printed twice:\n{summary}");
    }
    for (word, plural) in summary.split_whitespace().zip(summary.split_whitespace().skip(1)) {
        let plural = plural.trim_end_matches([',', ';']);
        assert!(word != "1" || !plural.ends_with('s') || plural == "s", "1 {plural}:\n{summary}");
    }
    (output.status.code(), summary)
}

/// The row of a summary, without its name.
fn row<'a>(summary: &'a str, name: &str) -> &'a str {
    let row = summary.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(' '));
    row.unwrap_or_else(|| panic!("no row {name}:\n{summary}")).trim()
}

#[test]
fn failed_checks_statuses_and_timeouts_count_as_errors() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &["--errors", "10%"]);
    let url = format!("http://{}/", origin.address);
    let (code, summary) = load(folder.path(), &[&url, "-n", "1000", "-c", "4"]);
    assert_eq!(code, Some(0));
    let errors = row(&summary, "errors");
    assert!(errors.starts_with("100 of 1,000 scheduled requests (10.0 %"), "{summary}");
    assert!(summary.contains(" 100 unexpected: a status of 400 or more, or a failed check\n"), "{summary}");
    // On a busy host, `generator-limited` can be a second reason.
    let (_, latency) = row(&summary, "verdict").split_once("latency: ").unwrap();
    assert!(latency.split(';').next().unwrap().contains("errors"), "{summary}");
    assert!(row(&summary, "status").contains("500: 100"), "{summary}");

    let (_, summary) = load(folder.path(), &[&url, "-n", "50", "-c", "1", "--check", "length=65"]);
    assert!(row(&summary, "errors").starts_with("50 of 50 scheduled requests (100 %"), "{summary}");
    assert!(row(&summary, "causes").contains("check: "), "{summary}");

    let silent = Origin::start(folder.path(), free_port(), &["--silent"]);
    let url = format!("http://{}/", silent.address);
    let (code, summary) = load(folder.path(), &[&url, "-n", "3", "-c", "3", "-w", "1", "--timeout", "300ms"]);
    assert_eq!(code, Some(1));
    assert!(row(&summary, "errors").starts_with("3 of 3 scheduled requests (100 %"), "{summary}");
    assert!(summary.contains(" 3 timed out: no complete response within 300 ms\n"), "{summary}");
    assert!(summary.contains("help: the server received the requests"), "{summary}");
}

#[test]
fn a_load_without_errors_prints_none_and_no_server_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let url = format!("http://{}/", origin.address);
    let (code, summary) = load(folder.path(), &[&url, "-n", "3000", "-c", "4"]);
    assert_eq!((code, row(&summary, "errors")), (Some(0), "none"), "{summary}");
    assert!(row(&summary, "verdict").ends_with("server CPU: not measured"), "{summary}");
    assert!(!summary.contains("CPU: valid") && !summary.contains('–'), "{summary}");
    assert!(summary.contains(" p95 ") && summary.contains(" p99.9 "), "{summary}");
    assert!(!summary.contains("help:") && !summary.contains("causes"), "{summary}");
}

#[test]
fn six_requests_have_no_p99() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let url = format!("http://{}/", origin.address);
    let (_, summary) = load(folder.path(), &[&url, "-n", "6", "-c", "1"]);
    // The row contains min, p50, p90, p95, p99, p99.9, max, mean and stddev, each with its unit. Four of the quantiles
    // are missing, because they need more than six requests.
    let latency: Vec<&str> = row(&summary, "latency").split_whitespace().collect();
    assert_eq!(latency.iter().filter(|cell| **cell == "–").count(), 4, "{summary}");
    assert!(
        summary.contains("fewer requests than this quantile needs (p90 30, p95 60, p99 300, p99.9 3,000)"),
        "{summary}"
    );
    assert!(row(&summary, "verdict").contains("valid up to p50;"), "{summary}");
    assert!(summary.contains("closed loop, 1 connection, 1 worker, "), "{summary}");
    let result = json(&finish(weir(folder.path(), &["load", &url, "-n", "300", "-c", "1", "--json"])));
    assert_eq!(result["unsupported_quantiles"], serde_json::json!(["p999", "p9999"]), "{result}");
    assert!(result["latency_ns"]["p999"].is_u64(), "the JSON has no p999");
}

#[test]
fn every_row_of_times_has_an_explanation() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let url = format!("http://{}/", origin.address);
    let (_, summary) = load(folder.path(), &[&url, "-r", "500/s", "-n", "300", "-c", "4"]);
    for name in ["latency", "service time", "lateness", "connection wait"] {
        assert!(summary.contains(&format!("\n  {name}: ")), "{name} is not explained:\n{summary}");
    }
    assert!(!summary.contains("from send"), "{summary}");
}

#[test]
fn a_refused_connection_is_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}/");
    let (code, summary) = load(folder.path(), &[&url, "-r", "20/s", "-n", "3", "--timeout", "300ms"]);
    assert_eq!(code, Some(1));
    assert!(row(&summary, "errors").starts_with("3 of 3 scheduled requests (100 %"), "{summary}");
    assert!(row(&summary, "causes").starts_with("refused "), "{summary}");
    assert!(summary.contains(&format!("help: nothing listens at {address};")), "{summary}");
}

/// Writes a self-signed certificate for `name`, an authority or a server, to `NAME.pem`, and its key to `NAME.key`.
fn self_signed(folder: &Path, name: &str, is_ca: IsCa) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = is_ca;
    std::fs::write(folder.join(format!("{name}.pem")), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// nginx with a certificate of [`self_signed`]; killed on drop.
struct Nginx(Child, SocketAddr);

impl Nginx {
    fn start(folder: &Path, certificate: &str) -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let nginx = own.join("../../target/peers/bin/nginx");
        assert!(nginx.exists(), "{} is missing; `make peers` fetches it", nginx.display());
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|of| format!("{of}_temp_path {of};")).concat();
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr; events {{}}\n\
             http {{ access_log off; {temporary} server {{ listen {address} ssl; \
             ssl_certificate {certificate}.pem; ssl_certificate_key {certificate}.key; \
             location / {{ return 200 ok; }} }} }}\n"
        );
        std::fs::write(folder.join("nginx.conf"), text).unwrap();
        let mut command = Command::new(nginx);
        let prefix = format!("{}/", folder.display());
        command.args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        until("nginx listens", || TcpStream::connect(address).is_ok());
        Self(child, address)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn rejected_certificates_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    self_signed(path, "localhost", IsCa::ExplicitNoCa);
    self_signed(path, "other.example", IsCa::ExplicitNoCa);
    self_signed(path, "authority.example", IsCa::Ca(BasicConstraints::Unconstrained));
    let check = |url: &str, resolve: &[&str], trusted: Option<&str>, said: &str, help: &str| {
        let mut arguments = vec![url, "-c", "2", "-w", "1", "-d", "200ms", "--timeout", "200ms"];
        arguments.extend(resolve);
        arguments.extend(trusted.iter().flat_map(|trusted| ["--cacert", trusted]));
        let (code, summary) = load(path, &arguments);
        assert_eq!(code, Some(1), "{summary}");
        assert!(summary.contains(said), "no {said:?}:\n{summary}");
        assert!(summary.contains(&format!("  help: {help}")) && summary.contains(" with -k"), "{summary}");
        assert_eq!(summary.matches("help: ").count(), 1, "{summary}");
    };
    let trust = "trust the CA of the certificate with --cacert FILE";
    let nginx = Nginx::start(path, "localhost");
    let url = format!("https://localhost:{}/", nginx.1.port());
    check(&url, &[], None, "signed by an unknown authority", trust);
    let (code, summary) = load(path, &[&url, "-n", "20", "-c", "2", "--cacert", "localhost.pem"]);
    assert_eq!((code, row(&summary, "errors")), (Some(0), "none"), "{summary}");
    drop(nginx);
    let nginx = Nginx::start(path, "other.example");
    let url = format!("https://localhost:{}/", nginx.1.port());
    let name = "use a host name from the certificate, in the URL or with --sni NAME";
    check(&url, &[], Some("other.example.pem"), "certificate is not for localhost", name);
    let named = ["-n", "20", "-c", "2", "--cacert", "other.example.pem", "--sni", "other.example"];
    let (code, summary) = load(path, &[&[url.as_str()][..], &named].concat());
    assert_eq!((code, row(&summary, "errors")), (Some(0), "none"), "{summary}");
    drop(nginx);
    let nginx = Nginx::start(path, "authority.example");
    let url = format!("https://authority.example:{}/", nginx.1.port());
    let resolve = format!("authority.example:{}:127.0.0.1", nginx.1.port());
    let resolve = ["--resolve", &resolve];
    let server = "use a server certificate that the CA has signed";
    check(
        &url,
        &resolve,
        Some("authority.example.pem"),
        "is a CA certificate, not a server certificate",
        server,
    );
    let expired = Origin::start(path, free_port(), &["--tls", "--expired", "--ca-out", "ca.pem"]);
    let url = format!("https://{}/", expired.address);
    check(&url, &[], Some("ca.pem"), "certificate has expired", "renew the certificate");
    let origin = Origin::start(path, free_port(), &["--tls"]);
    check(&format!("https://{}/", origin.address), &[], None, "signed by an unknown authority", trust);
}
