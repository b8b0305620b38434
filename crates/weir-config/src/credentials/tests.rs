//! Named files: matching contents are accepted, mismatched contents are rejected.

use std::net::SocketAddr;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

use super::*;
use crate::change::{Batch, Change, Policy, Resource};
use crate::matching::RequestView;
use crate::model::Configuration;
use crate::state::State;
use crate::table::Table;
use crate::tls::Destination;

const TEXT: &str = "
listeners: [{ address: 127.0.0.1:8443, tls: { certificate: a.pem, key: a.key, client_ca: a.pem } }]
routes: [{ path: /, backend: b, tokens: t.lst }, { path: /x, backend: b, tokens: t.lst }]
backends: { b: { endpoints: [] } }
";

/// A self-signed certificate for these names, and its key.
fn pair(names: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
}

/// Contents of files by name, for configurations that name these files.
struct Folder(BTreeMap<&'static str, Vec<u8>>);

impl Folder {
    fn new() -> Folder {
        let (certificate, key) = pair(&["a.test"]);
        let files = [("a.pem", certificate), ("a.key", key), ("t.lst", b"one\ntwo\n".to_vec())];
        Folder(files.into())
    }

    fn with(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Folder {
        self.0.insert(name, content.into());
        self
    }

    fn changes(&self) -> Vec<Change> {
        let put = |(name, bytes): (&&str, &Vec<u8>)| {
            Change::Put(Key::File((*name).to_owned()), Resource::File(bytes.clone().into()))
        };
        self.0.iter().map(put).collect()
    }

    fn check(&self, text: &str, place: &str, message: &str) {
        let applied = State::default().apply(batch(Policy::AllOrNothing, text, self));
        let reported: Vec<String> = applied.refused.iter().map(|(_, problem)| problem.to_string()).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(
            reported[0].starts_with(&format!("{place}: ")) && reported[0].contains(message),
            "{reported:?}"
        );
        assert!(!applied.refused[0].1.remedy.is_empty(), "{reported:?}");
        assert!(applied.table.is_none());
    }
}

fn batch(policy: Policy, text: &str, folder: &Folder) -> Batch {
    let configuration = weir_document::read::<Configuration>("test.yaml", text).unwrap();
    let named = configuration.files();
    assert!(named.values().all(|place| place.contains(".tls.") || place.ends_with(".tokens")), "{named:?}");
    let resources =
        configuration.into_resources().into_iter().map(|(key, resource)| Change::Put(key, resource));
    Batch { version: 1, policy, changes: resources.chain(folder.changes()).collect() }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(table: &Table) -> Arc<rustls::ServerConfig> {
    match table.transport(address("127.0.0.1:8443")) {
        Some(Transport::Tls(config)) => Arc::clone(config),
        other => panic!("{other:?}"),
    }
}

#[test]
fn loads_tls_and_tokens_from_files() {
    let applied = State::default().apply(batch(Policy::AllOrNothing, TEXT, &Folder::new()));
    let table = applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused));
    assert_eq!(config(&table).alpn_protocols, [b"http/1.1"]);
    assert!(table.transport(address("127.0.0.1:1")).is_none());
    let tokens = |path| table.find(&RequestView::get("h", path)).unwrap().target.tokens.clone().unwrap();
    assert!(tokens("/").has(b"two") && !tokens("/").has(b"three"));
    assert!(Arc::ptr_eq(&tokens("/"), &tokens("/x")), "routes with the same file share its tokens");
}

#[test]
fn rejects_files_that_do_not_match_with_their_field() {
    let key = |more: &str| TEXT.replace("client_ca: a.pem", more);
    let folder = Folder::new();
    folder.check(
        &TEXT.replace("key: a.key", "key: b.key"),
        "listeners[0].tls.key",
        "the content of `b.key` is missing",
    );
    folder.check(&TEXT.replace("key: a.key", "key: ''"), "listeners[0].tls.key", "the file name is empty");
    folder.check(
        &TEXT.replace("tokens: t.lst }]", "tokens: '' }]"),
        "routes[1].tokens",
        "the file name is empty",
    );
    folder.check(
        &TEXT.replace("key: a.key", "key: a.pem"),
        "listeners[0].tls.key",
        "`a.pem` contains no PEM private key",
    );
    folder.check(
        &TEXT.replace("certificate: a.pem", "certificate: a.key"),
        "listeners[0].tls.certificate",
        "`a.key` contains no PEM certificate",
    );
    folder.check(
        &key("client_ca: t.lst"),
        "listeners[0].tls.client_ca",
        "`t.lst` contains no PEM certificate",
    );
    folder.check(
        &key("certificates: [{ certificate: a.pem, key: a.key }]"),
        "listeners[0].tls.certificates[0].certificate",
        "no client gets this certificate",
    );
    let (_, other) = pair(&["b.test"]);
    Folder::new().with("a.key", other).check(
        TEXT,
        "listeners[0].tls.key",
        "`a.key` is not the private key of `a.pem`",
    );
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    Folder::new().with("a.pem", nonsense).check(
        TEXT,
        "listeners[0].tls.certificate",
        "cannot use the first certificate in `a.pem`",
    );
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    Folder::new().with("a.pem", cut).check(TEXT, "listeners[0].tls.certificate", "`a.pem`: ");
    Folder::new().with("t.lst", "one\ntwo words\n").check(
        TEXT,
        "routes[0].tokens",
        "`t.lst`, line 2: invalid bearer token",
    );
}

#[test]
fn versions_share_unchanged_tls_configurations() {
    let mut state = State::default();
    let first = config(&state.apply(batch(Policy::AllOrNothing, TEXT, &Folder::new())).table.unwrap());
    let again = |state: &mut State, changes| {
        config(&state.apply(Batch { version: 2, policy: Policy::AllOrNothing, changes }).table.unwrap())
    };
    let tokens = vec![Change::Put(Key::File("t.lst".to_owned()), Resource::File(b"new".to_vec().into()))];
    assert!(Arc::ptr_eq(&first, &again(&mut state, tokens)), "tickets remain valid");
    let fresh = Folder::new();
    assert!(!Arc::ptr_eq(&first, &again(&mut state, fresh.changes())));
}

#[test]
fn invalid_file_of_a_dynamic_source_changes_nothing() {
    let mut state = State::default();
    let first = config(&state.apply(batch(Policy::EachAlone, TEXT, &Folder::new())).table.unwrap());
    let bad = Folder(BTreeMap::from([("a.key", b"x".to_vec()), ("t.lst", b"a b".to_vec())]));
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes: bad.changes() });
    let keys: Vec<&Key> = applied.refused.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&Key::File("a.key".to_owned()), &Key::File("t.lst".to_owned())]);
    let table = applied.table.unwrap();
    assert!(Arc::ptr_eq(&first, &config(&table)));
    assert!(table.find(&RequestView::get("h", "/")).unwrap().target.tokens.as_ref().unwrap().has(b"one"));
    let gone = vec![Change::Remove(Key::File("a.pem".to_owned()))];
    let applied = state.apply(Batch { version: 3, policy: Policy::EachAlone, changes: gone });
    assert_eq!(applied.refused[0].0, Key::File("a.pem".to_owned()));
    assert!(Arc::ptr_eq(&first, &config(&applied.table.unwrap())));
}

/// The configuration with `more` instead of `client_ca` in the TLS settings.
fn with_tls(more: &str) -> String {
    TEXT.replace("client_ca: a.pem", more)
}

#[test]
fn rejects_unsupported_tls_policies_and_lists_the_supported_values() {
    let check = |more: &str, field: &str, message: &str| {
        Folder::new().check(&with_tls(more), &format!("listeners[0].tls.{field}"), message);
    };
    check("ciphers: [RC4-SHA]", "ciphers[0]", "unsupported cipher suite `RC4-SHA`");
    check(
        "ciphers: [TLS_AES_128_GCM_SHA256, tls_aes_128_gcm_sha256]",
        "ciphers[1]",
        "duplicate `tls_aes_128_gcm_sha256`",
    );
    check("ciphers: [TLS_AES_128_GCM_SHA256]", "ciphers", "no suite in this list supports TLS 1.2");
    check("versions: [1.2], ciphers: [TLS_AES_128_GCM_SHA256]", "ciphers", "supports TLS 1.2");
    check("versions: [1.3, 1.3]", "versions[1]", "duplicate `1.3`");
    check("curves: [X25519, P-521]", "curves[1]", "unsupported key exchange group `P-521`");
    check("curves: [P-256, prime256v1]", "curves[1]", "duplicate `prime256v1`");
    check("client_auth: optional", "client_auth", "`client_auth` requires `client_ca`");
    check("tickets: { lifetime: 200h }", "tickets.lifetime", "200h is out of range");
    check("tickets: { lifetime: 10ms }", "tickets.lifetime", "10ms is out of range");
    check("tickets: { file: '' }", "tickets.file", "the file name is empty");
    check("tickets: { file: t.lst }", "tickets.file", "`t.lst`, line 1: the key is not base64");
    check("ocsp: a.pem", "ocsp", "`a.pem` is not a DER OCSP response");
    let remedy = |more: &str| {
        let applied = State::default().apply(batch(Policy::AllOrNothing, &with_tls(more), &Folder::new()));
        applied.refused[0].1.remedy.clone()
    };
    let suites = remedy("ciphers: [x]");
    assert!(suites.contains("TLS_AES_256_GCM_SHA384, ") && suites.contains("ECDHE-RSA-AES128-GCM-SHA256"));
    let suites = remedy("versions: [1.3], ciphers: [x]");
    assert_eq!(
        suites.matches(", ").count(),
        2,
        "the remedy must name only suites of the configured versions, but is: {suites}"
    );
    assert_eq!(remedy("curves: [x]"), "supported: X25519, P-256, P-384, X25519MLKEM768");
    Folder::new().check(
        &with_tls("hosts: ['*', '*a.test']"),
        "listeners[0].tls.hosts[1]",
        "a wildcard must be",
    );
    let further = "certificates: [{ certificate: a.pem, key: a.key, hosts: [a.test, a_b.test:443] }]";
    Folder::new().check(&with_tls(further), "listeners[0].tls.certificates[0].hosts[1]", "contains a port");
    let refused = Folder::new().with("r.der", [0x30, 3, 0x0a, 1, 6]);
    refused.check(&with_tls("ocsp: r.der"), "listeners[0].tls.ocsp", "an OCSP error response (status 6)");
    let applied = State::default().apply(batch(
        Policy::AllOrNothing,
        &with_tls("ocsp: r.der"),
        &Folder::new().with("r.der", [0x30, 3, 0x0a, 1, 0]),
    ));
    assert!(applied.table.is_some(), "{:?}", applied.refused);
}

#[test]
fn rejects_unknown_tls_values() {
    let reported = |more: &str| {
        let error = weir_document::read::<Configuration>("test.yaml", &with_tls(more)).unwrap_err();
        (error.message, error.remedy)
    };
    assert_eq!(
        reported("versions: [1.1]"),
        ("unsupported TLS version `1.1`".to_owned(), "write 1.2 or 1.3".to_owned())
    );
    let (message, remedy) = reported("tickets: perhaps");
    assert_eq!(message, "unknown value `perhaps`");
    assert!(remedy.contains("`off`"), "{remedy}");
    assert_eq!(reported("client_auth: maybe").0, "unknown value `maybe`");
    assert_eq!(reported("tickets: { files: x }").0, "unknown field `files`");
}

#[test]
fn tls_configuration_survives_serialization() {
    for more in [
        "tickets: off",
        "tickets: { file: t.keys, lifetime: 1h }",
        "versions: [1.3], strict_sni: true, curves: [P-256]",
        "client_ca: a.pem, client_auth: optional, ocsp: o.der",
        "hosts: [a.test], certificates: [{ certificate: b.pem, key: b.key, hosts: ['*.b.test', '*'] }]",
    ] {
        let configuration: Configuration = weir_document::read("test.yaml", &with_tls(more)).unwrap();
        let text = serde_json::to_string(&configuration).unwrap();
        let again: Configuration = weir_document::read("test.json", &text).unwrap();
        assert_eq!(configuration, again, "{text}");
    }
    let off: Configuration = weir_document::read("test.yaml", &with_tls("tickets: off")).unwrap();
    assert!(off.listeners[0].tls.as_ref().unwrap().tickets.keys().is_none());
}

const PASSED_ON: &str = "
listeners: [{ address: 127.0.0.1:8443, passthrough: [{ hosts: [a.test, '*.b.test'], backend: b }] }]
backends: { b: { endpoints: [] } }
";

#[test]
fn passthrough_selects_the_backend_by_server_name() {
    let none = Folder(BTreeMap::new());
    let table = State::default().apply(batch(Policy::AllOrNothing, PASSED_ON, &none)).table.unwrap();
    let Some(Transport::ByName(by_name)) = table.transport(address("127.0.0.1:8443")) else {
        panic!("the listener has no passthrough");
    };
    assert!(by_name.tls().is_none());
    for (name, backend) in [
        ("a.test", Some("b")),
        ("x.a.test", None),
        ("b.test", None),
        (".b.test", None),
        ("x.b.test", Some("b")),
        ("x.y.b.test", Some("b")),
        ("", None),
    ] {
        let found = match by_name.destination(Some(name)) {
            Destination::Backend(backend) => Some(backend),
            Destination::Closed => None,
            Destination::Here(_) => panic!("the listener has no TLS"),
        };
        assert_eq!(found, backend, "{name:?}");
    }
    assert!(matches!(by_name.destination(None), Destination::Closed));
    none.check(
        &PASSED_ON.replace("[a.test, '*.b.test']", "[]"),
        "listeners[0].passthrough[0].hosts",
        "the list is empty",
    );
    none.check(
        &PASSED_ON.replace("a.test,", "'*.B.test',"),
        "listeners[0].passthrough[0].hosts[1]",
        "is already listed in listeners[0].passthrough[0]",
    );
    none.check(
        &PASSED_ON.replace("a.test,", "'*', '*',"),
        "listeners[0].passthrough[0].hosts[1]",
        "is already listed in listeners[0].passthrough[0]",
    );
    let fate = |text: &str| PASSED_ON.replace("backend: b", text);
    let place = "listeners[0].passthrough[0]";
    none.check(&PASSED_ON.replace(", backend: b", ""), place, "`backend` or `instead` is required");
    none.check(&fate("backend: b, instead: close"), place, "`backend` and `instead` cannot be combined");
    none.check(
        &fate("instead: open"),
        "listeners[0].passthrough[0].instead",
        "`instead: open` requires `tls`",
    );
    none.check(
        &PASSED_ON.replace("backend: b", "backend: c"),
        "listeners[0].passthrough[0].backend",
        "unknown backend `c`",
    );
    Folder::new().check(
        &PASSED_ON.replace("endpoints: []", "endpoints: [], tls: { ca: a.pem }"),
        "listeners[0].passthrough[0].backend",
        "backend `b` has `tls`",
    );
}

#[test]
fn keeps_a_backend_that_passthrough_uses() {
    let mut state = State::default();
    state.apply(batch(Policy::AllOrNothing, PASSED_ON, &Folder(BTreeMap::new())));
    let changes = vec![Change::Remove(Key::Backend("b".to_owned()))];
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes });
    assert_eq!(applied.refused.len(), 1);
    assert_eq!(applied.table.unwrap().backend_named("b"), Some(0));
}

const UPSTREAM: &str = "
listeners: [{ address: 127.0.0.1:8080 }]
backends: { b: { endpoints: [], tls: { ca: a.pem, sni: up.test, certificate: a.pem, key: a.key } } }
";

#[test]
fn versions_share_upstream_tls_until_it_changes() {
    let mut state = State::default();
    let upstream = |table: Arc<Table>| table.backends()[0].tls.clone().unwrap();
    let first = upstream(state.apply(batch(Policy::AllOrNothing, UPSTREAM, &Folder::new())).table.unwrap());
    let mut put = |name: &str, content: Vec<u8>| {
        let changes = vec![Change::Put(Key::File(name.to_owned()), Resource::File(content.into()))];
        let applied = state.apply(Batch { version: 2, policy: Policy::AllOrNothing, changes });
        upstream(applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused)))
    };
    assert!(Arc::ptr_eq(&first, &put("t.lst", b"new".to_vec())));
    let check = |from: &str, to: &str, field: &str, message: &str| {
        let folder = Folder::new();
        folder.check(&UPSTREAM.replace(from, to), &format!("backends.b.tls.{field}"), message);
    };
    check("ca: a.pem", "ca: t.lst", "ca", "`t.lst` contains no PEM certificate");
    check("ca: a.pem, ", "", "ca", "the content of `<system CA certificates>` is missing");
    check("up.test", "'no name'", "sni", "`no name` is not a host name");
    check(", key: a.key", "", "certificate", "`certificate` requires `key`");
    check("certificate: a.pem, ", "", "key", "`key` requires `certificate`");
    check("key: a.key", "key: a.pem", "key", "`a.pem` contains no PEM private key");
}

#[test]
fn rejects_duplicate_names_of_listeners_with_ticket_files() {
    let listener = |port: u16| {
        format!(
            "{{ address: 127.0.0.1:{port}, name: web, tls: {{ certificate: a.pem, key: a.key, tickets: {{ file: k }} }} }}"
        )
    };
    let text = format!("listeners: [{}, {}]\n", listener(1), listener(2));
    let folder = Folder::new().with("k", "AAAA".repeat(16) + "\n");
    folder.check(&text, "listeners[1].name", "listeners[0] has the same name, `web`");
}

/// If a changed pair of certificate and key is invalid, only this pair is refused; changes of other pairs take effect.
#[test]
fn invalid_pair_does_not_affect_other_pairs() {
    let text =
        with_tls("certificates: [{ certificate: b.pem, key: b.key }, { certificate: c.pem, key: c.key }]");
    let pairs = |names: [&str; 3]| {
        let mut folder = Folder(BTreeMap::new());
        for (name, files) in
            names.into_iter().zip([["a.pem", "a.key"], ["b.pem", "b.key"], ["c.pem", "c.key"]])
        {
            let (certificate, key) = pair(&[name]);
            folder = folder.with(files[0], certificate).with(files[1], key);
        }
        folder.with("t.lst", "one\n")
    };
    let mut state = State::default();
    let before =
        config(&state.apply(batch(Policy::EachAlone, &text, &pairs(["a", "b", "c"]))).table.unwrap());
    let mut bad = pairs(["a", "b", "c"]);
    bad.0.insert("b.key", pair(&["x"]).1);
    let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes: bad.changes() });
    let refused: Vec<&str> = applied.refused.iter().map(|(key, _)| key.name()).collect();
    assert_eq!(refused, ["b.key", "b.pem"]);
    assert!(!Arc::ptr_eq(&before, &config(&applied.table.unwrap())), "the other changes take effect");
    // If a new pair makes an existing pair unusable, the new one is rejected.
    let (certificate, key) = pair(&["a", "c"]);
    let changes = Folder(BTreeMap::from([("a.pem", certificate), ("a.key", key)])).changes();
    let applied = state.apply(Batch { version: 3, policy: Policy::EachAlone, changes });
    let refused: Vec<&str> = applied.refused.iter().map(|(key, _)| key.name()).collect();
    assert_eq!(refused, ["a.key", "a.pem"], "{:?}", applied.refused);
}

#[test]
fn renewed_pair_replaces_the_previous_one() {
    let text = TEXT.replace(
        "client_ca: a.pem",
        "certificates: [{ certificate: b.pem, key: b.key }, { certificate: c.pem, key: c.key }]",
    );
    let with = |folder: Folder, files: [&'static str; 2], name: &str| {
        let (certificate, key) = pair(&[name]);
        folder.with(files[0], certificate).with(files[1], key)
    };
    let folder = with(with(Folder::new(), ["b.pem", "b.key"], "b.test"), ["c.pem", "c.key"], "c.test");
    let mut state = State::default();
    let mut apply = |changes: Vec<Change>| {
        let applied = state.apply(Batch { version: 2, policy: Policy::EachAlone, changes });
        applied
            .table
            .filter(|_| applied.refused.is_empty())
            .unwrap_or_else(|| panic!("{:?}", applied.refused))
    };
    let shown = |table: &Table| -> Vec<(String, Vec<u8>)> {
        table.certificates().iter().map(|shown| (shown.file.clone(), shown.der().to_vec())).collect()
    };
    let first = apply(batch(Policy::EachAlone, &text, &folder).changes);
    let renewed = with(Folder(BTreeMap::new()), ["b.pem", "b.key"], "b.test");
    let second = apply(renewed.changes());
    let (before, after) = (shown(&first), shown(&second));
    assert_eq!(before.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["a.pem", "b.pem", "c.pem"]);
    let is_same: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a == b).collect();
    assert_eq!(is_same, [true, false, true]);
    assert!(!Arc::ptr_eq(&config(&first), &config(&second)));
    assert!(Arc::ptr_eq(&config(&second), &config(&apply(renewed.changes()))), "equal pair, no change");
    // The renewed pair contains other names, so all names are assigned to certificates again.
    let third = apply(with(Folder(BTreeMap::new()), ["b.pem", "b.key"], "d.test").changes());
    assert_eq!(third.certificates()[1].names(), ["d.test"]);
    assert!(shown(&third)[0] == before[0] && shown(&third)[2] == before[2]);
}
