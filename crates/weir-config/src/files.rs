//! The files that a configuration names. Who reads them is the source; this crate gets their content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::model::{BackendTls, Configuration, Tls};
use crate::problem::Problem;

/// The name under which the source hands over the certificates (PEM) of the authorities that the system trusts.
pub const SYSTEM_AUTHORITIES: &str = "<system CA certificates>";

/// What a file holds. It may be a private key, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Arc<[u8]>);

/// What is wrong with a file of lines, and in which of them, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineFault {
    pub(crate) line: usize,
    pub(crate) message: &'static str,
    pub(crate) remedy: &'static str,
}

/// The files of one resource.
pub(crate) struct Files<'f> {
    /// Where the resource names them: `listeners[0].tls`.
    pub(crate) place: String,
    pub(crate) contents: &'f BTreeMap<String, Content>,
}

/// What is wrong with files of a resource, and which ones may be to blame.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: Problem,
    pub(crate) files: Vec<String>,
}

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

impl LineFault {
    /// The problem of `file`, which `place` names.
    pub(crate) fn problem(&self, place: impl Into<String>, file: &str) -> Problem {
        Problem::new(place, format!("`{file}`, line {}: {}", self.line, self.message)).help(self.remedy)
    }
}

impl Fault {
    pub(crate) fn new<'n>(problem: Problem, files: impl IntoIterator<Item = &'n str>) -> Box<Fault> {
        Box::new(Fault { problem, files: files.into_iter().map(str::to_owned).collect() })
    }
}

impl Files<'_> {
    pub(crate) fn place(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }

    pub(crate) fn content(&self, field: &str, file: &str) -> Result<&Content, Box<Fault>> {
        // The place is put together only where it is told: there may be thousands of files.
        match self.contents.get(file) {
            Some(content) => Ok(content),
            None => content(self.contents, &self.place(field), file).map_err(|p| Fault::new(p, [file])),
        }
    }

    pub(crate) fn fault(&self, field: &str, file: &str, message: String, remedy: &str) -> Box<Fault> {
        Fault::new(Problem::new(self.place(field), message).help(remedy), [file])
    }
}

impl Configuration {
    /// Every file that is named, each with the field that names it first: `listeners[0].tls.key`.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (file, place) in self.named_by_tls() {
            files.entry(file.to_owned()).or_insert(place);
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

    /// The files that TLS is made of, of listeners and of backends.
    pub fn tls_files(&self) -> BTreeSet<String> {
        self.named_by_tls().map(|(file, _)| file.to_owned()).collect()
    }

    /// Files with the fields that name them.
    fn named_by_tls(&self) -> impl Iterator<Item = (&str, String)> {
        let of_listeners = self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let files = listener.tls.as_deref().into_iter().flat_map(Tls::files);
            files.map(move |(field, file)| (file, format!("listeners[{index}].tls.{field}")))
        });
        let of_backends = self.backends.iter().flat_map(|(name, backend)| {
            let files = backend.tls.iter().flat_map(BackendTls::files);
            files.map(move |(field, file)| (file, format!("backends.{name}.tls.{field}")))
        });
        of_listeners.chain(of_backends)
    }
}

impl Tls {
    /// The files, each with the field that names it.
    pub(crate) fn files(&self) -> Vec<(String, &str)> {
        let mut files = vec![
            ("certificate".to_owned(), self.certificate.as_str()),
            ("key".to_owned(), self.key.as_str()),
        ];
        files.extend(self.ocsp.as_deref().map(|ocsp| ("ocsp".to_owned(), ocsp)));
        for (index, more) in self.certificates.iter().enumerate() {
            files.push((format!("certificates[{index}].certificate"), more.certificate.as_str()));
            files.push((format!("certificates[{index}].key"), more.key.as_str()));
            files.extend(more.ocsp.as_deref().map(|ocsp| (format!("certificates[{index}].ocsp"), ocsp)));
        }
        files.extend(self.client_ca.as_deref().map(|ca| ("client_ca".to_owned(), ca)));
        let keys = self.tickets.keys().and_then(|keys| keys.file.as_deref());
        files.extend(keys.map(|keys| ("tickets.file".to_owned(), keys)));
        files
    }
}

impl BackendTls {
    /// The files, each with the field that names it; the system's authorities are one where no others are named.
    pub(crate) fn files(&self) -> Vec<(&'static str, &str)> {
        let mut files = vec![("ca", self.ca.as_deref().unwrap_or(SYSTEM_AUTHORITIES))];
        files.extend(self.certificate.as_deref().map(|certificate| ("certificate", certificate)));
        files.extend(self.key.as_deref().map(|key| ("key", key)));
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
        Problem::new(place, format!("the content of `{file}` is missing"))
            .help("pass it together with its name")
    })
}
