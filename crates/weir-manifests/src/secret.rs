//! Secrets that contain a certificate with its key.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// The type of Secrets that contain a certificate and its key.
const TLS: &str = "kubernetes.io/tls";

/// The names of the values with the certificate and the key.
pub(crate) const PAIR: [&str; 2] = ["tls.crt", "tls.key"];

/// The content of a secret.
#[derive(Debug)]
pub(crate) struct Secret {
    pub(crate) of_type: Option<String>,
    /// Values in base64, by name.
    pub(crate) data: Values,
    /// Values as plain text, by name. They override `data`.
    pub(crate) string_data: Values,
}

/// Values by name. They can be private keys, so only the names are ever printed.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Values(BTreeMap<String, String>);

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secret {
    /// Returns the certificate and the key. An error consists of the field, the reason and the remedy.
    pub(crate) fn pair(&self) -> Result<[Vec<u8>; 2], (String, String, String)> {
        match self.of_type.as_deref() {
            Some(TLS) => {}
            other => {
                let found = other.unwrap_or("Opaque");
                let message =
                    format!("a Gateway requires a Secret of type `{TLS}`, but this one has type `{found}`");
                return Err(("type".to_owned(), message, format!("write `type: {TLS}`")));
            }
        }
        let [certificate, key] = PAIR.map(|name| self.value(name));
        Ok([certificate?, key?])
    }

    fn value(&self, name: &str) -> Result<Vec<u8>, (String, String, String)> {
        if let Some(text) = self.string_data.0.get(name) {
            return Ok(text.clone().into_bytes());
        }
        let Some(text) = self.data.0.get(name) else {
            let message = format!("the Secret has no `{name}`");
            return Err(("data".to_owned(), message, format!("add `{}` and `{}`", PAIR[0], PAIR[1])));
        };
        let text: String = text.split_whitespace().collect();
        STANDARD.decode(text).map_err(|_| {
            let message = format!("`{name}` is not base64");
            // The error is reported at `data`, because a path like `data.tls.crt` would be split at the dot in the
            // name.
            (
                "data".to_owned(),
                message,
                "encode the value (`base64 -w0 FILE`), or write the plain text under `stringData`".to_owned(),
            )
        })
    }
}
