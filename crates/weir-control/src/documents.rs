//! The files of a configuration, and their content at the last parse.
//!
//! In a directory, these are the files whose names end in `.yaml`, `.yml` or `.json`, except hidden files.
//! Subdirectories are ignored. A file is parsed again only if its content changed. Times and inodes of files are
//! ignored: they can change without the content, for example if Kubernetes swaps the directory behind a link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use weir_config::{Key, Resource};
use weir_document::{Position, Problem};
use weir_manifests::Read;

use crate::parts::{self, Parts};
use crate::places::located_documents;
use crate::problem::SourceError;
use crate::stamp::{Stamp, Stamps};

const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Maximum number of attempts to read a directory. weir reads it again if a file has changed during the read.
const READS_MAX: usize = 5;

/// The parsed files of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    parsed: BTreeMap<PathBuf, Parsed>,
    is_directory: bool,
    /// The number of files at the last read.
    files: usize,
    /// Total number of file parses so far.
    count: u64,
}

/// The parsed content of a file, and the hash of its text.
#[derive(Debug)]
pub(crate) struct Parsed {
    digest: [u8; 32],
    pub(crate) form: Form,
}

/// The supported formats of a file.
#[derive(Debug)]
pub(crate) enum Form {
    Compact(Compact),
    Manifests(Vec<Read>),
}

/// A file in the compact form, the gateway's own format.
#[derive(Debug)]
pub(crate) struct Compact {
    pub(crate) resources: Vec<(Key, Resource)>,
    /// Every file that the configuration names, with the first field that names it.
    pub(crate) files: BTreeMap<String, String>,
    /// The TLS files among `files`.
    pub(crate) tls_files: BTreeSet<String>,
}

impl Documents {
    /// Checks whether `path` is a directory, so that [`Documents::read`] reads its files.
    pub(crate) fn find_directory(&mut self, path: &Path) -> bool {
        self.is_directory = path.is_dir();
        self.is_directory
    }

    /// Reads the file at `path`, or the files of the directory `path`, and parses files whose content has changed.
    ///
    /// # Errors
    /// If a file cannot be read or parsed. The other files stay parsed.
    pub(crate) fn read(&mut self, path: &Path) -> Result<(), SourceError> {
        let texts = if self.is_directory { texts_in(path)? } else { vec![(path.to_owned(), text_of(path)?)] };
        self.files = texts.len();
        let there: BTreeSet<&Path> = texts.iter().map(|(file, _)| file.as_path()).collect();
        self.parsed.retain(|file, _| there.contains(file.as_path()));
        let mut errors = Vec::new();
        for (file, text) in texts {
            let digest = digest_of(&text);
            if self.parsed.get(&file).is_some_and(|parsed| parsed.digest == digest) {
                continue;
            }
            self.count += 1;
            match parse(&file, &text) {
                Ok(form) => drop(self.parsed.insert(file, Parsed { digest, form })),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(located_documents(path, errors)) }
    }

    /// Frees the parsed content of a single configuration file, because each reload parses the file again. Keeps the
    /// parsed content of a directory.
    pub(crate) fn release(&mut self) {
        if !self.is_directory {
            self.parsed.clear();
        }
    }

    /// Each file with its content, in the order of the file names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, &Form)> {
        self.parsed.iter().map(|(file, parsed)| (file.as_path(), &parsed.form))
    }

    /// The text of a file, if it has not changed since it was parsed.
    pub(crate) fn text(&self, file: &Path) -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        self.parsed.get(file).is_some_and(|parsed| parsed.digest == digest_of(&text)).then_some(text)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.is_directory
    }

    pub(crate) fn files(&self) -> usize {
        self.files
    }

    pub(crate) fn parsed_count(&self) -> u64 {
        self.count
    }
}

fn parse(file: &Path, text: &str) -> Result<Form, Vec<Problem<Position>>> {
    let name = file.display().to_string();
    if weir_manifests::has_manifests(&name, text) {
        return weir_manifests::read(&name, text).map(Form::Manifests);
    }
    let Parts { configuration, errors, .. } = parts::read(&name, text).map_err(|error| vec![error])?;
    if !errors.is_empty() {
        return Err(errors);
    }
    let (files, tls_files) = (configuration.files(), configuration.tls_files());
    Ok(Form::Compact(Compact { resources: configuration.into_resources(), files, tls_files }))
}

/// Reads the configuration files of a directory. Reads all of them again if one changed meanwhile, so that their
/// content is from one point in time.
fn texts_in(directory: &Path) -> Result<Vec<(PathBuf, String)>, SourceError> {
    let unreadable = |error| SourceError::Unreadable { path: directory.display().to_string(), error };
    let mut stamps = stamps_of(directory).map_err(unreadable)?;
    let mut reads = 0;
    loop {
        reads += 1;
        let texts: Result<Vec<_>, SourceError> =
            stamps.keys().map(|file| Ok((file.clone(), text_of(file)?))).collect();
        let now = stamps_of(directory).map_err(unreadable)?;
        if now == stamps || reads == READS_MAX {
            let texts = texts?;
            return match texts.is_empty() {
                true => Err(SourceError::NoFiles { path: directory.display().to_string() }),
                false => Ok(texts),
            };
        }
        stamps = now;
    }
}

/// The configuration files in a directory, with their current stamps (file metadata).
pub(crate) fn stamps_of(directory: &Path) -> io::Result<Stamps> {
    let mut stamps = Stamps::new();
    for entry in std::fs::read_dir(directory)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_named = file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        // Names that start with a dot belong to editors or to Kubernetes.
        if is_named && !name.starts_with('.') && !file.is_dir() {
            let stamp = Stamp::of(&file);
            stamps.insert(file, stamp);
        }
    }
    Ok(stamps)
}

fn text_of(file: &Path) -> Result<String, SourceError> {
    std::fs::read_to_string(file)
        .map_err(|error| SourceError::Unreadable { path: file.display().to_string(), error })
}

fn digest_of(text: &str) -> [u8; 32] {
    weir_config::sha256(text.as_bytes())
}
