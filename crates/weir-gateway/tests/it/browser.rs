//! A browser (headless Chromium) in front of a gateway with many server names.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

use crate::process::{Gateway, origin, peer};

/// Writes `FILE.pem` and `FILE.key` for `name`. Returns the hash by which a browser can trust the key.
fn write_pair(dir: &Path, file: &str, name: &str) -> String {
    let key = KeyPair::generate().expect("a key");
    let certificate =
        CertificateParams::new(vec![name.to_owned()]).and_then(|params| params.self_signed(&key));
    std::fs::write(dir.join(format!("{file}.pem")), certificate.expect("a certificate").pem())
        .expect("a file");
    std::fs::write(dir.join(format!("{file}.key")), key.serialize_pem()).expect("a file");
    STANDARD.encode(weir_config::sha256(&key.subject_public_key_info()))
}

/// Opens `https://NAME/` in a browser that trusts only the key with the hash `key`. Returns the page and the browser's
/// messages.
fn page(gateway: &Gateway, name: &str, key: &str) -> String {
    let mut command = Command::new(peer("chromium-headless-shell"));
    command.args(["--no-sandbox", "--disable-gpu", "--timeout=60000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", gateway.dir.path().join("profile").display()));
    command.arg(format!("--host-resolver-rules=MAP * {}", gateway.address));
    command.arg(format!("--ignore-certificate-errors-spki-list={key}"));
    command.arg(format!("https://{name}/")).env("HOME", gateway.dir.path());
    let output = command.output().expect("the browser starts");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_browser_gets_the_certificate_of_each_name() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let files = [("a", "a.test"), ("w", "*.b.test"), ("d", "default.test")];
    let [a, wildcard, default] = files.map(|(file, name)| write_pair(dir.path(), file, name));
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0, tls: {{ certificate: d.pem, key: d.key, certificates: [{{ certificate: \
         a.pem, key: a.key }}, {{ certificate: w.pem, key: w.key }}] }} }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b }}]\nbackends: {{ b: {{ endpoints: ['{}'] }} }}\n",
        origin().0
    );
    let gateway = Gateway::spawn_in(dir, &text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")));
    for (name, key) in [("a.test", &a), ("x.b.test", &wildcard), ("other.test", &default)] {
        let shown = page(&gateway, name, key);
        assert!(shown.contains(">ok<"), "{name}: {shown}");
    }
    let said = page(&gateway, "a.test", &default);
    assert!(said.contains("ERR_CERT_") && !said.contains(">ok<"), "it trusts only another key: {said}");
}
