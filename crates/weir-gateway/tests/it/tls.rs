//! TLS with other implementations: openssl and curl as clients, openssl as upstream, and files that change at run time.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, SignatureAlgorithm,
};

use crate::process::{Gateway, origin};

mod files;

/// A certificate authority. `new` writes its certificate to `ca.pem` and its key to `ca.key` in the given folder.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(dir: &Path) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "ca");
        let key = KeyPair::generate().expect("a key");
        std::fs::write(dir.join("ca.key"), key.serialize_pem()).expect("a file");
        let authority = Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"));
        std::fs::write(dir.join("ca.pem"), authority.0.pem()).expect("a file");
        authority
    }

    /// Writes `FILE.pem` and `FILE.key` for these names. The first one is also the subject.
    pub(crate) fn sign(&self, file: &Path, names: &[&str], algorithm: &'static SignatureAlgorithm) {
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .expect("names");
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        std::fs::write(file.with_extension("pem"), certificate.pem()).expect("a file");
        std::fs::write(file.with_extension("key"), key.serialize_pem()).expect("a file");
    }
}

/// Runs a program with `input` on standard input. Returns its standard output and standard error.
fn run(command: &mut Command, input: &str) -> String {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl and curl are there");
    // A program that has already exited does not read its input.
    let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// One exchange with `openssl s_client`.
fn s_client(gateway: &Gateway, more: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &gateway.address.to_string(), "-ign_eof", "-CAfile"]);
    command.arg(gateway.dir.path().join("ca.pem")).args(more);
    run(&mut command, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}

fn curl(gateway: &Gateway, name: &str, more: &[&str]) -> String {
    let url = format!("https://{name}:{}/", gateway.address.port());
    let resolve = format!("{name}:{}:{}", gateway.address.port(), gateway.address.ip());
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "*", "--resolve", &resolve, "--cacert"]);
    run(command.arg(gateway.dir.path().join("ca.pem")).args(more).arg(url), "")
}

fn text(tls: &str, origin: SocketAddr) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, tls: {{ {tls} }} }}]\nworkers: 2\n\
         routes: [{{ path: /, backend: api }}]\nbackends: {{ api: {{ endpoints: ['{origin}'] }} }}\n\
         drain: {{ delay: 0s }}\n"
    )
}

fn start(dir: tempfile::TempDir, text: &str) -> Gateway {
    Gateway::spawn_in(dir, text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn openssl_and_curl_get_the_certificate_of_each_name() {
    let dir = folder();
    let authority = Authority::new(dir.path());
    for (file, names, algorithm) in [
        ("e", &["a.test", "also.test"][..], &PKCS_ECDSA_P256_SHA256),
        ("r", &["a.test", "also.test"][..], &PKCS_RSA_SHA256),
        ("w", &["*.b.test"][..], &PKCS_ECDSA_P256_SHA256),
    ] {
        authority.sign(&dir.path().join(file), names, algorithm);
    }
    let tls = "certificate: e.pem, key: e.key, \
               certificates: [{ certificate: r.pem, key: r.key }, { certificate: w.pem, key: w.key }]";
    let gateway = start(dir, &text(tls, origin().0));
    for (name, subject) in [("a.test", "a.test"), ("also.test", "a.test"), ("x.b.test", "*.b.test")] {
        for version in ["-tls1_2", "-tls1_3"] {
            let name_and_check = ["-brief", version, "-servername", name, "-verify_hostname", name];
            let said = s_client(&gateway, &name_and_check);
            assert!(said.contains(&format!("Peer certificate: CN = {subject}\n")), "{name}: {said}");
            assert!(said.contains("Verification: OK") && said.contains("HTTP/1.1 200 OK"), "{name}: {said}");
        }
        assert_eq!(curl(&gateway, name, &[]), "ok", "{name}");
    }
    for (offered, kind) in [("ecdsa_secp256r1_sha256", "ECDSA"), ("rsa_pss_rsae_sha256", "RSA-PSS")] {
        let offer = ["-brief", "-tls1_3", "-servername", "a.test", "-sigalgs", offered];
        let said = s_client(&gateway, &offer);
        assert!(said.contains(&format!("Signature type: {kind}\n")), "{offered}: {said}");
    }
    assert!(curl(&gateway, "c.test", &[]).contains("SSL"), "the default certificate has another name");
}

#[test]
fn openssl_resumes_sessions() {
    let dir = folder();
    Authority::new(dir.path()).sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let session = dir.path().join("session");
    let session = session.to_str().expect("text").to_owned();
    let gateway = start(dir, &text("certificate: a.pem, key: a.key", origin().0));
    for version in ["-tls1_2", "-tls1_3"] {
        let said = s_client(&gateway, &[version, "-servername", "a.test", "-sess_out", &session]);
        assert!(said.contains("New, TLSv1"), "{said}");
        let said = s_client(&gateway, &[version, "-servername", "a.test", "-sess_in", &session]);
        assert!(said.contains("Reused, TLSv1"), "{said}");
    }
    assert_eq!((gateway.stat("handshakes"), gateway.stat("resumed")), (4, 2));
}

#[test]
fn ticket_keys_change_with_their_file() {
    let dir = folder();
    Authority::new(dir.path()).sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let session = dir.path().join("session");
    let session = session.to_str().expect("text").to_owned();
    // Two ticket keys of 48 bytes, in base64.
    let [old, new] = ["A", "B"].map(|letter| letter.repeat(64));
    std::fs::write(dir.path().join("t.keys"), &old).expect("a file");
    let tls = "certificate: a.pem, key: a.key, tickets: { file: t.keys, lifetime: 1h }";
    let mut gateway = start(dir, &text(tls, origin().0));
    let ask = |gateway: &Gateway, more: &str| {
        s_client(gateway, &["-tls1_3", "-servername", "a.test", more, &session])
    };
    let said = ask(&gateway, "-sess_out");
    assert!(said.contains("New, TLSv1.3") && said.contains("lifetime hint: 3600 (seconds)"), "{said}");
    for (keys, kind) in [(format!("{new}\n{old}\n"), "Reused, TLSv1.3"), (new, "New, TLSv1.3")] {
        gateway.write("t.keys", &keys);
        assert_eq!(gateway.line("files reloaded: "), "t.keys");
        let said = ask(&gateway, "-sess_in");
        assert!(said.contains(kind), "{said}");
    }
}

/// The name of the key that encrypted the session ticket of a TLS 1.2 client.
fn key_of_ticket(said: &str) -> &str {
    let dump = said.split("TLS session ticket:\n").nth(1).unwrap_or_else(|| panic!("no ticket: {said}"));
    // The name is in the first 16 bytes, which are one line of the dump.
    dump.split_once("0000 - ").and_then(|(_, line)| line.get(..47)).expect("a line of bytes")
}

#[test]
fn random_ticket_keys_rotate_and_the_previous_one_still_decrypts() {
    let dir = folder();
    Authority::new(dir.path()).sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let [last, former] = ["last", "former"].map(|file| dir.path().join(file));
    // Each key encrypts tickets for half of `lifetime`: 5 s.
    let gateway = start(dir, &text("certificate: a.pem, key: a.key, tickets: { lifetime: 10s }", origin().0));
    let ask = |file: &Path, way: &str| {
        let file = file.to_str().expect("text");
        s_client(&gateway, &["-tls1_2", "-servername", "a.test", way, file])
    };
    let first = ask(&former, "-sess_out");
    let mut turns = 0;
    while key_of_ticket(&ask(&last, "-sess_out")) == key_of_ticket(&first) {
        std::fs::rename(&last, &former).expect("a file");
        turns += 1;
        assert!(turns < 2_000, "the key never rotated");
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = ask(&former, "-sess_in");
    assert!(said.contains("Reused, TLSv1.2"), "{said}");
    let said = ask(&last, "-sess_in");
    assert!(said.contains("Reused, TLSv1.2"), "{said}");
}

/// Kubernetes updates mounted files in this way: the files are links into `..data`, which is itself a link. An update
/// replaces `..data`.
#[test]
fn certificates_change_when_a_link_is_swapped() {
    let dir = folder();
    let authority = Authority::new(dir.path());
    let root = dir.path().to_owned();
    let put = |version: &str, names: [&str; 2]| {
        let folder = root.join(version);
        std::fs::create_dir(&folder).expect("a folder");
        authority.sign(&folder.join("tls"), &[names[0], "a.test"], &PKCS_ECDSA_P256_SHA256);
        if names[1] != names[0] {
            let key = KeyPair::generate().expect("a key").serialize_pem();
            std::fs::write(folder.join("tls.key"), key).expect("a file");
        }
        symlink(version, root.join("..data_tmp")).expect("a link");
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).expect("a swap");
    };
    put("..1", ["first", "first"]);
    for file in ["tls.pem", "tls.key"] {
        symlink(format!("..data/{file}"), root.join(file)).expect("a link");
    }
    let mut gateway = start(dir, &text("certificate: tls.pem, key: tls.key", origin().0));
    let subject = |gateway: &Gateway| {
        let said = s_client(gateway, &["-brief", "-servername", "a.test"]);
        assert!(said.contains("HTTP/1.1 200 OK"), "{said}");
        said.split("Peer certificate: CN = ").nth(1).and_then(|rest| rest.lines().next()).map(str::to_owned)
    };
    assert_eq!(subject(&gateway).as_deref(), Some("first"));
    put("..2", ["second", "second"]);
    assert_eq!(gateway.line("files reloaded: "), "tls.key, tls.pem");
    assert_eq!(subject(&gateway).as_deref(), Some("second"));
    put("..3", ["third", "another's key"]);
    gateway.wait_for("the refusal", |gateway| gateway.stat("refused") == 1);
    assert_eq!(subject(&gateway).as_deref(), Some("second"), "a wrong key changes nothing");
    put("..4", ["fourth", "fourth"]);
    gateway.line("files reloaded: ");
    assert_eq!(subject(&gateway).as_deref(), Some("fourth"));
    assert_eq!(gateway.stat("applied"), 2);
    let messages = gateway.stop();
    assert!(
        messages.contains("listeners[0].tls.key: `tls.key` is not the private key of `tls.pem`"),
        "{messages}"
    );
}

/// An openssl server that runs until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `openssl s_server` in `dir`. It responds with a page about the session.
fn s_server(dir: &Path, more: &[&str]) -> (Server, SocketAddr) {
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = held.local_addr().expect("its address");
    drop(held);
    let child = Command::new("openssl")
        .current_dir(dir)
        .args(["s_server", "-accept", &address.to_string(), "-www", "-quiet"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is there");
    let server = Server(child);
    while std::net::TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    (server, address)
}

#[test]
fn system_authorities_are_the_default_for_upstreams() {
    let dir = folder();
    let authority = Authority::new(dir.path());
    authority.sign(&dir.path().join("up"), &["up.test"], &PKCS_RSA_SHA256);
    authority.sign(&dir.path().join("own"), &["gateway"], &PKCS_ECDSA_P256_SHA256);
    authority.sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let demanding =
        ["-cert", "up.pem", "-key", "up.key", "-Verify", "1", "-CAfile", "ca.pem", "-verify_return_error"];
    let (_server, address) = s_server(dir.path(), &demanding);
    let text = text("certificate: a.pem, key: a.key", address).replace(
        &format!("endpoints: ['{address}']"),
        &format!("endpoints: ['{address}'], tls: {{ sni: up.test, certificate: own.pem, key: own.key }}"),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    command.env("SSL_CERT_FILE", dir.path().join("ca.pem")).env_remove("SSL_CERT_DIR");
    let gateway = Gateway::spawn_in(dir, &text, command);
    let status = ["-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&gateway, "a.test", &status), "200");
    assert_eq!((gateway.stat("connects"), gateway.stat("connect_failures")), (1, 0));
}
