//! Files other than certificates and keys, and their reloads: OCSP responses, authorities, files of backends.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::PKCS_ECDSA_P256_SHA256;

use super::{Authority, curl, folder, run, s_client, s_server, start, text};
use crate::process::{Gateway, origin};

/// The OCSP response for the certificate `NAME.pem` in `dir`. `state` is the certificate's state in the responder's
/// database: `V` is good, `R` is revoked, any other is unknown.
fn ocsp_response(dir: &Path, name: &str, state: &str) -> Vec<u8> {
    let openssl = |arguments: &[&str]| run(Command::new("openssl").current_dir(dir).args(arguments), "");
    let certificate = format!("{name}.pem");
    let serial = openssl(&["x509", "-noout", "-serial", "-in", &certificate]);
    let serial = serial.trim().strip_prefix("serial=").expect("a serial number");
    let since = if state == "R" { "200101000000Z" } else { "" };
    let index = match state {
        "V" | "R" => format!("{state}\t351231235959Z\t{since}\t{serial}\tunknown\t/CN={name}\n"),
        _ => String::new(),
    };
    std::fs::write(dir.join("index.txt"), index).expect("a file");
    openssl(&["ocsp", "-issuer", "ca.pem", "-cert", &certificate, "-reqout", "request.der"]);
    let signer = ["ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key"];
    let said = openssl(&[&signer[..], &["-reqin", "request.der", "-respout", "response.der"]].concat());
    std::fs::read(dir.join("response.der")).unwrap_or_else(|_| panic!("{said}"))
}

/// The status of the certificate in the stapled OCSP response, if a response is stapled.
fn stapled_status(gateway: &Gateway, version: &str, name: &str) -> Option<String> {
    let said = s_client(gateway, &[version, "-servername", name, "-status"]);
    assert!(said.contains("HTTP/1.1 200 OK"), "{said}");
    let Some((_, response)) = said.split_once("OCSP Response Status: successful (0x0)") else {
        assert!(said.contains("OCSP response: no response sent"), "{said}");
        return None;
    };
    let (_, status) = response.split_once("Cert Status: ").expect("a status");
    status.lines().next().map(str::to_owned)
}

#[test]
fn each_certificate_has_its_own_ocsp_response() {
    let dir = folder();
    let authority = Authority::new(dir.path());
    for (name, state) in [("a", ""), ("b", "V"), ("c", "")] {
        authority.sign(&dir.path().join(name), &[&format!("{name}.test")], &PKCS_ECDSA_P256_SHA256);
        let response = ocsp_response(dir.path(), name, state);
        std::fs::write(dir.path().join(format!("{name}.der")), response).expect("a file");
    }
    let tls = "certificate: a.pem, key: a.key, ocsp: a.der, certificates: \
               [{ certificate: b.pem, key: b.key, ocsp: b.der }, { certificate: c.pem, key: c.key }]";
    let mut gateway = start(dir, &text(tls, origin().0));
    let check = |gateway: &Gateway, [a, b]: [&str; 2]| {
        for version in ["-tls1_2", "-tls1_3"] {
            let of = |name: &str| stapled_status(gateway, version, name);
            assert_eq!(of("a.test").as_deref(), Some(a), "{version}");
            assert_eq!(of("b.test").as_deref(), Some(b), "{version}");
            assert_eq!(of("c.test"), None, "{version}");
        }
    };
    check(&gateway, ["unknown", "good"]);
    for (name, state, statuses) in [("b", "R", ["unknown", "revoked"]), ("a", "V", ["good", "revoked"])] {
        let response = ocsp_response(gateway.dir.path(), name, state);
        std::fs::write(gateway.dir.path().join(format!("{name}.der")), response).expect("a file");
        assert_eq!(gateway.line("files reloaded: "), format!("{name}.der"));
        check(&gateway, statuses);
    }
    std::fs::write(gateway.dir.path().join("b.der"), "no response").expect("a file");
    gateway.wait_for("the refusal", |gateway| gateway.stat("refused") == 1);
    check(&gateway, ["good", "revoked"]);
}

/// Creates an authority in a folder of its own below `dir`. It signs one certificate per name.
fn other_authority(dir: &Path, folder: &str, names: &[&str]) -> PathBuf {
    let folder = dir.join(folder);
    std::fs::create_dir(&folder).expect("a folder");
    let authority = Authority::new(&folder);
    names.iter().for_each(|name| authority.sign(&folder.join(name), &[name], &PKCS_ECDSA_P256_SHA256));
    folder
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a file")
}

#[test]
fn the_client_authorities_are_reloaded() {
    let dir = folder();
    Authority::new(dir.path()).sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let folders = ["first", "second"].map(|name| other_authority(dir.path(), name, &["me"]));
    let [first, second] = folders.each_ref().map(|folder| read(&folder.join("ca.pem")));
    std::fs::write(dir.path().join("clients.pem"), &first).expect("a file");
    let tls = "certificate: a.pem, key: a.key, client_ca: clients.pem";
    let mut gateway = start(dir, &text(tls, origin().0));
    let check = |gateway: &Gateway, expected: [bool; 2]| {
        for version in ["-tls1_2", "-tls1_3"] {
            let is_accepted = folders.each_ref().map(|folder| {
                let [certificate, key] =
                    ["me.pem", "me.key"].map(|file| folder.join(file).display().to_string());
                let shown = [version, "-servername", "a.test", "-cert", &certificate, "-key", &key];
                s_client(gateway, &shown).contains("HTTP/1.1 200 OK")
            });
            assert_eq!(is_accepted, expected, "{version}");
        }
    };
    check(&gateway, [true, false]);
    for (authorities, expected) in
        [(&second, [false, true]), (&format!("{first}{second}"), [true, true]), (&first, [true, false])]
    {
        gateway.write("clients.pem", authorities);
        assert_eq!(gateway.line("files reloaded: "), "clients.pem");
        check(&gateway, expected);
    }
}

#[test]
fn authorities_and_certificates_of_a_backend_are_reloaded() {
    let dir = folder();
    let authority = Authority::new(dir.path());
    authority.sign(&dir.path().join("up"), &["up.test"], &PKCS_ECDSA_P256_SHA256);
    authority.sign(&dir.path().join("a"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let gateways = other_authority(dir.path(), "gateways", &["first", "second"]);
    let strange = other_authority(dir.path(), "strange", &[]);
    let demanding = ["-cert", "up.pem", "-key", "up.key", "-Verify", "1", "-verify_return_error"];
    let (_server, address) =
        s_server(dir.path(), &[&demanding[..], &["-CAfile", "gateways/ca.pem"]].concat());
    let own = |name: &str| ["pem", "key"].map(|kind| read(&gateways.join(name).with_extension(kind)));
    let put = |dir: &Path, [certificate, key]: [String; 2]| {
        std::fs::write(dir.join("own.pem"), certificate).expect("a file");
        std::fs::write(dir.join("own.key"), key).expect("a file");
    };
    put(dir.path(), own("first"));
    let (trusted, other) = (read(&dir.path().join("ca.pem")), read(&strange.join("ca.pem")));
    std::fs::write(dir.path().join("up-ca.pem"), &trusted).expect("a file");
    let backend = "tls: { ca: up-ca.pem, sni: up.test, certificate: own.pem, key: own.key }";
    let text = text("certificate: a.pem, key: a.key", address)
        .replace(&format!("['{address}']"), &format!("['{address}'], {backend}"));
    let gateway = start(dir, &text);
    // The server responds with the certificate that the gateway sent.
    let says = |gateway: &Gateway, what: &str| curl(gateway, "a.test", &["-i"]).contains(what);
    assert!(says(&gateway, "DNS:first"), "{}", curl(&gateway, "a.test", &["-i"]));
    put(gateway.dir.path(), own("second"));
    gateway.wait_for("the other certificate", |gateway| says(gateway, "DNS:second"));
    gateway.write("up-ca.pem", &other);
    gateway.wait_for("the other authority", |gateway| says(gateway, "X-Weir-Error: upstream_certificate"));
    gateway.write("up-ca.pem", &trusted);
    gateway.wait_for("the previous authority", |gateway| says(gateway, "DNS:second"));
}
