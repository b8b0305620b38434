//! A TLS scanner (sslyze), run against a listener.

use std::process::Command;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};

use crate::process::{Gateway, origin, peer};

/// Output of sslyze for a server that resists these attacks.
const ATTACKS: [&str; 5] = [
    "Not vulnerable to OpenSSL CCS injection",
    "Not vulnerable to Heartbleed",
    "ROBOT Attack:\n                                          OK - Not vulnerable",
    "Client Renegotiation DoS Attack:   OK - Not vulnerable",
    "Compression disabled",
];

#[test]
fn sslyze_finds_only_the_untrusted_authority() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let now = SystemTime::now();
    for (file, algorithm) in [("e", &PKCS_ECDSA_P256_SHA256), ("r", &PKCS_RSA_SHA256)] {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.not_before = (now - Duration::from_secs(3600)).into();
        params.not_after = (now + Duration::from_secs(30 * 86_400)).into();
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(dir.path().join(format!("{file}.pem")), certificate.pem()).expect("a file");
        std::fs::write(dir.path().join(format!("{file}.key")), key.serialize_pem()).expect("a file");
    }
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0, tls: {{ certificate: e.pem, key: e.key, certificates: [{{ certificate: \
         r.pem, key: r.key }}] }} }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\n",
        origin().0
    );
    let gateway = Gateway::spawn_in(dir, &text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")));
    let server = format!("localhost:{}", gateway.address.port());
    let mut command = Command::new(peer("sslyze"));
    let output = command.args(["-m", "sslyze", "--mozilla_config=intermediate", &server]).output();
    let output = output.expect("sslyze starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = said.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let squeezed = lines.clone().collect::<Vec<_>>().join("\n");
    for attack in ATTACKS {
        assert!(squeezed.contains(attack), "{attack}: {said}");
    }
    // The order depends on which connection closed first.
    let both = ["2 (ECPublicKey, RSAPublicKey)", "2 (RSAPublicKey, ECPublicKey)"];
    assert!(both.iter().any(|both| squeezed.contains(both)) && !said.contains("VULNERABLE -"), "{said}");
    // The last part of the output is the comparison with Mozilla's recommendation.
    lines.find(|line| line.contains("COMPLIANCE AGAINST")).unwrap_or_else(|| panic!("no comparison: {said}"));
    let findings: Vec<&str> = lines.filter_map(|line| line.trim_start().strip_prefix("* ")).collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with("certificate_path_validation: "), "{findings:?}");
}
