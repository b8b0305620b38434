//! The active configuration for operators: its certificates are listed, its secrets are left out.

use std::sync::Arc;

use rustls::SignatureAlgorithm;
use rustls::sign::CertifiedKey;
use serde_json::{Map, Value};

use crate::matching::entry::key_order;
use crate::model::{Configuration, Listener};
use crate::table::Table;
use crate::tls::certificates::names_of;

/// Text that replaces a secret.
const LEFT_OUT: &str = "<left out>";

/// The value of a header or parameter counts as a secret if its name contains one of these texts.
const SECRET: [&str; 14] = [
    "auth",
    "cookie",
    "token",
    "secret",
    "key",
    "passw",
    "session",
    "credential",
    "signature",
    "jwt",
    "pwd",
    "bearer",
    "passphrase",
    "hmac",
];

/// These texts count only as a whole word of a name, because other words contain them: `design` contains `sig`.
const SECRET_WORDS: [&str; 2] = ["sig", "pass"];

/// A certificate of a listener.
#[derive(Clone, Debug)]
pub struct ShownCertificate {
    /// The name of the listener, or its address.
    pub listener: String,
    /// The name of the file, as configured.
    pub file: String,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl ShownCertificate {
    /// The DNS names in the certificate.
    pub fn names(&self) -> Vec<String> {
        names_of(&self.certified)
    }

    /// The certificate (DER), without its chain.
    pub fn der(&self) -> &[u8] {
        self.certified.cert.first().map_or(&[], |certificate| certificate)
    }
}

impl Table {
    /// Whether a listener has a certificate with an RSA key, whose signatures are slow.
    pub fn has_rsa(&self) -> bool {
        let certificates = self.server_tls.iter().flatten().flat_map(|secure| secure.certificates());
        certificates.map(|(_, certified)| certified).any(|c| c.key.algorithm() == SignatureAlgorithm::RSA)
    }

    /// The certificates of all listeners, in the order of the listeners.
    pub fn certificates(&self) -> Vec<ShownCertificate> {
        let secure = self.listeners.iter().zip(&self.server_tls);
        let of_each = secure.filter_map(|(listener, secure)| Some((listener, secure.as_ref()?)));
        let shown = |listener: &Listener, file: &str, certified: &Arc<CertifiedKey>| ShownCertificate {
            listener: listener.label().into_owned(),
            file: file.to_owned(),
            certified: Arc::clone(certified),
        };
        of_each
            .flat_map(|(listener, secure)| {
                secure.certificates().map(move |(file, certified)| shown(listener, file, certified))
            })
            .collect()
    }

    /// The active configuration, in the form of a file, without the contents of the files that it names. Secrets are
    /// replaced:
    /// - all values of headers that routes set or add in requests
    /// - values of other headers, and of query parameters, if the name suggests a credential
    /// - the query in the path of a health check
    pub fn shown(&self) -> Value {
        let mut routes = self.routes();
        routes.sort_by(|a, b| key_order(&a.key, &b.key));
        let configuration = Configuration {
            listeners: self.listeners.to_vec(),
            workers: self.workers,
            routes: routes.iter().map(|entry| (*entry.route).clone()).collect(),
            backends: self.backends().iter().map(|b| (b.name.clone(), (*b.backend).clone())).collect(),
            paths: self.paths,
            resolver: self.resolver.clone(),
            limits: self.limits.clone(),
            overload: self.overload.unwrap_or_default(),
            timeouts: self.timeouts.clone(),
            drain: self.drain.clone(),
            access_log: self.access_log.as_ref().map(|(log, _)| log.clone()),
            log: self.log.clone(),
            metrics: self.metrics.clone(),
            forwarding: self.forwarding.clone().unwrap_or_default(),
            underscores_in_headers: self.underscores_in_headers,
            trailers: self.trailers.clone(),
        };
        // All keys are strings and all numbers finite, so this cannot fail.
        let mut shown = serde_json::to_value(configuration).unwrap_or_default();
        for route in shown.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten() {
            leave_out_secrets(route);
        }
        for backend in shown.get_mut("backends").and_then(Value::as_object_mut).into_iter().flatten() {
            leave_out_query(backend.1.pointer_mut("/health/path"));
        }
        shown
    }
}

/// The path to a map in a route, and a function that returns whether the value with a given key is a secret.
type Secrets = (&'static [&'static str], fn(&str) -> bool);

const SECRETS_OF_ROUTES: [Secrets; 7] = [
    (&["request_headers", "set"], |_| true),
    (&["request_headers", "add"], |_| true),
    (&["response_headers", "set"], is_credential),
    (&["response_headers", "add"], is_credential),
    (&["respond", "headers"], is_credential),
    (&["headers"], is_credential),
    (&["query"], is_credential),
];

/// Replaces the secrets of a route.
fn leave_out_secrets(route: &mut Value) {
    for (path, is_secret) in SECRETS_OF_ROUTES {
        let found = path.iter().try_fold(&mut *route, |value, step| value.get_mut(step));
        if let Some(Value::Object(values)) = found {
            replace(values, is_secret);
        }
    }
}

fn replace(values: &mut Map<String, Value>, is_secret: fn(&str) -> bool) {
    for (_, value) in values.iter_mut().filter(|(name, _)| is_secret(name)) {
        *value = LEFT_OUT.into();
    }
}

/// Replaces the query of a path, because queries can contain credentials.
fn leave_out_query(path: Option<&mut Value>) {
    let Some(Value::String(path)) = path else { return };
    if let Some(at) = path.find('?') {
        path.replace_range(at + 1.., LEFT_OUT);
    }
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    SECRET.iter().any(|part| name.contains(part)) || words.any(|word| SECRET_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Batch, Change, Policy};
    use crate::state::State;

    fn table(text: &str) -> Arc<Table> {
        let configuration: Configuration = weir_document::read("test.yaml", text).unwrap();
        let changes =
            configuration.into_resources().into_iter().map(|(key, r)| Change::Put(key, r)).collect();
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        State::default().apply(batch).table.unwrap()
    }

    #[test]
    fn shown_configuration_can_be_read_again() {
        let routes: Vec<String> = (0..12).map(|n| format!("{{ exact: /{n}, backend: b }}")).collect();
        let text = format!(
            "listeners: [{{ address: 127.0.0.1:1 }}]\nroutes: [{}]\nbackends: {{ b: {{ endpoints: [127.0.0.1:2] }} }}\n\
             limits: {{ body: 5KiB }}\nforwarding: {{ trace: {{ sampled: 10% }} }}\naccess_log: {{ sample: 1% }}\n",
            routes.join(", ")
        );
        let original: Configuration = weir_document::read("test.yaml", &text).unwrap();
        let shown = table(&text).shown().to_string();
        assert_eq!(weir_document::read::<Configuration>("shown.json", &shown).unwrap(), original);
    }

    #[test]
    fn hides_secrets() {
        let shown = table(
            "listeners: [{ address: 127.0.0.1:1 }]\nroutes:\n\
             - path: /\n  backend: b\n  headers: { X-Api-Key: hush, x-version: '2' }\n  query: { access_token: { exact: hush } }\n  \
             request_headers: { set: { x-any: hush }, add: { y-any: hush }, remove: [z] }\n  \
             response_headers: { set: { Set-Cookie: hush, X-Open: told } }\n\
             - { path: /r, respond: { headers: { X-Secret: hush, X-Plain: told } } }\n\
             - { path: /s, backend: b, query: { sig: hush, X-Amz-Signature: hush, design: told }, \
             headers: { x-jwt: hush, x-userpwd: hush, x-bearer: hush } }\n\
             backends: { b: { endpoints: [127.0.0.1:2], health: { path: '/h?any=hush' } } }\n",
        )
        .shown();
        let text = shown.to_string();
        assert!(!text.contains("hush"), "{text}");
        assert_eq!((text.matches("told").count(), text.matches(LEFT_OUT).count()), (3, 12));
        assert_eq!(shown["backends"]["b"]["health"]["path"], format!("/h?{LEFT_OUT}"));
        assert_eq!(shown["routes"][0]["headers"]["x-version"], "2");
        assert_eq!(shown["routes"][0]["request_headers"]["remove"][0], "z");
    }
}
