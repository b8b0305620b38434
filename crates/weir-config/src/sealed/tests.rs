//! Files that fit together, and those that do not.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

use super::*;
use crate::change::{Batch, Change, Policy, Resource};
use crate::model::Configuration;
use crate::table::Table;
use crate::view::RequestView;

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

/// Contents by name; what is told of `text` with them.
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
        let told: Vec<String> = applied.refused.iter().map(|(_, problem)| problem.to_string()).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("{place}: ")) && told[0].contains(message), "{told:?}");
        assert!(applied.refused[0].1.remedy.is_some(), "{told:?}");
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

fn config(table: &Table) -> Arc<rustls::ServerConfig> {
    match table.transport("127.0.0.1:8443".parse().unwrap()) {
        Some(Transport::Tls(config)) => Arc::clone(config),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_become_tls_and_tokens() {
    let applied = State::default().apply(batch(Policy::AllOrNothing, TEXT, &Folder::new()));
    let table = applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused));
    assert_eq!(config(&table).alpn_protocols, [b"http/1.1"]);
    assert!(table.transport("127.0.0.1:1".parse().unwrap()).is_none());
    let tokens = |path| table.find(&RequestView::get("h", path)).unwrap().target.tokens.clone().unwrap();
    assert!(tokens("/").has(b"two") && !tokens("/").has(b"three"));
    assert!(Arc::ptr_eq(&tokens("/"), &tokens("/x")), "routes share what they can");
}

#[test]
fn what_does_not_fit_together_has_its_place() {
    let key = |more: &str| TEXT.replace("client_ca: a.pem", more);
    let folder = Folder::new();
    folder.check(&TEXT.replace("key: a.key", "key: b.key"), "listeners[0].tls.key", "`b.key` is not there");
    folder.check(&TEXT.replace("key: a.key", "key: ''"), "listeners[0].tls.key", "names no file");
    folder.check(&TEXT.replace("tokens: t.lst }]", "tokens: '' }]"), "routes[1].tokens", "names no file");
    folder.check(
        &TEXT.replace("key: a.key", "key: a.pem"),
        "listeners[0].tls.key",
        "`a.pem` holds no private key",
    );
    folder.check(
        &TEXT.replace("certificate: a.pem", "certificate: a.key"),
        "listeners[0].tls.certificate",
        "no certificate",
    );
    folder.check(&key("client_ca: t.lst"), "listeners[0].tls.client_ca", "`t.lst` holds no certificate");
    folder.check(
        &key("certificates: [{ certificate: a.pem, key: a.key }]"),
        "listeners[0].tls.certificates[0].certificate",
        "no client would get this certificate",
    );
    let (_, other) = pair(&["b.test"]);
    Folder::new().with("a.key", other).check(
        TEXT,
        "listeners[0].tls.key",
        "`a.key` is not the key of `a.pem`",
    );
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    Folder::new().with("a.pem", nonsense).check(
        TEXT,
        "listeners[0].tls.certificate",
        "its first certificate cannot be used",
    );
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    Folder::new().with("a.pem", cut).check(TEXT, "listeners[0].tls.certificate", "`a.pem`: ");
    Folder::new().with("t.lst", "one\ntwo words\n").check(
        TEXT,
        "routes[0].tokens",
        "`t.lst`, line 2: it is no bearer token",
    );
}

#[test]
fn what_stays_is_shared_by_versions() {
    let mut state = State::default();
    let first = config(&state.apply(batch(Policy::AllOrNothing, TEXT, &Folder::new())).table.unwrap());
    let again = |state: &mut State, changes| {
        config(&state.apply(Batch { version: 2, policy: Policy::AllOrNothing, changes }).table.unwrap())
    };
    let tokens = vec![Change::Put(Key::File("t.lst".to_owned()), Resource::File(b"new".to_vec().into()))];
    assert!(Arc::ptr_eq(&first, &again(&mut state, tokens)), "tickets stay good");
    let fresh = Folder::new();
    assert!(!Arc::ptr_eq(&first, &again(&mut state, fresh.changes())));
}

#[test]
fn a_bad_file_of_a_dynamic_source_changes_nothing() {
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
