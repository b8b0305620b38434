//! The files that a configuration names. Who reads them is the source; this crate gets their content.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::model::{Configuration, Tls};
use crate::problem::Problem;

/// What a file holds. It may be a private key, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Arc<[u8]>);

impl Content {
    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content(bytes.into())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.0.len())
    }
}

impl Configuration {
    /// Every file that is named, each with the field that names it first: `listeners[0].tls.key`.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (index, listener) in self.listeners.iter().enumerate() {
            for (field, file) in listener.tls.iter().flat_map(Tls::files) {
                files.entry(file.to_owned()).or_insert_with(|| format!("listeners[{index}].tls.{field}"));
            }
        }
        for (index, route) in self.routes.iter().enumerate() {
            if let Some(file) = &route.tokens
                && !files.contains_key(file)
            {
                files.insert(file.clone(), format!("routes[{index}].tokens"));
            }
        }
        files
    }
}

impl Tls {
    /// The files, each with the field that names it.
    pub(crate) fn files(&self) -> Vec<(String, &str)> {
        let mut files = vec![
            ("certificate".to_owned(), self.certificate.as_str()),
            ("key".to_owned(), self.key.as_str()),
        ];
        for (index, more) in self.certificates.iter().enumerate() {
            files.push((format!("certificates[{index}].certificate"), more.certificate.as_str()));
            files.push((format!("certificates[{index}].key"), more.key.as_str()));
        }
        files.extend(self.client_ca.as_deref().map(|ca| ("client_ca".to_owned(), ca)));
        files
    }
}

/// The content of `file`, which `place` names.
pub(crate) fn content<'f>(
    files: &'f BTreeMap<String, Content>,
    place: &str,
    file: &str,
) -> Result<&'f Content, Problem> {
    files.get(file).ok_or_else(|| {
        Problem::new(place, format!("the content of `{file}` is not there"))
            .help("hand it over with its name")
    })
}
