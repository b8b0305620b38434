//! Combines all files of a configuration: manifests, and several files in the compact form.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use weir_config::{Key, Resource, Table};
use weir_document::Problem;
use weir_manifests::translate;

use crate::documents::{Compact, Documents, Form};
use crate::file::{FileSource, NamedFiles};
use crate::places::Places;
use crate::problem::SourceError;

/// The combined content of all files.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) resources: BTreeMap<Key, Resource>,
    /// Every file that the configuration names, with the first field that names it.
    pub(crate) files: BTreeMap<String, String>,
    /// The TLS files among `files`.
    pub(crate) tls_files: BTreeSet<String>,
    pub(crate) places: Places,
}

impl FileSource {
    /// The number of configuration files in the directory at the last read.
    pub fn files(&self) -> usize {
        self.documents.files()
    }

    /// How often files were parsed so far. Counts only manifest files and files of a directory. Unchanged files of a
    /// directory are not parsed again.
    pub fn files_parsed(&self) -> u64 {
        self.documents.parsed_count()
    }

    /// Like [`FileSource::load`], for a directory or a file of manifests.
    pub(crate) fn load_documents(&mut self) -> Result<Arc<Table>, SourceError> {
        self.documents.read(&self.path)?;
        let Assembly { resources, files, tls_files, places } = Assembly::of(&self.path, &self.documents)?;
        let outcome = self
            .activate(resources, NamedFiles { files, tls_files }, BTreeSet::new())
            .map_err(|problems| SourceError::Problems(places.located(&self.documents, problems)));
        if let Ok(table) = &outcome {
            self.look(table, |documents, warnings| places.located(documents, warnings));
        }
        self.documents.release();
        outcome
    }
}

impl Assembly {
    /// Combines the documents at `path`.
    ///
    /// # Errors
    /// If two files define the same resource, or manifests conflict.
    pub(crate) fn of(path: &Path, documents: &Documents) -> Result<Assembly, SourceError> {
        let mut assembly = Assembly { places: Places::of(path), ..Assembly::default() };
        let mut problems = Vec::new();
        for (file, form) in documents.all() {
            if let Form::Compact(compact) = form {
                assembly.add(file, compact, documents.is_directory(), &mut problems);
            }
        }
        let manifests = Places::manifests(documents);
        let all: Vec<_> = manifests.iter().map(|of| &of.read.manifest).collect();
        let mut translation = match translate(&all) {
            Ok(translation) => translation,
            Err(misfits) => return Err(assembly.places.located_misfits(documents, &manifests, misfits)),
        };
        assembly.files.append(&mut translation.files);
        assembly.tls_files.append(&mut translation.tls_files);
        for (key, resource) in std::mem::take(&mut translation.resources) {
            if let Key::Backend(name) = &key
                && assembly.resources.contains_key(&key)
            {
                problems.push(twice(name, assembly.places.owner(name)));
            }
            assembly.resources.insert(key, resource);
        }
        assembly.resources.entry(Key::Settings).or_insert_with(|| Resource::Settings(Box::default()));
        assembly.places.translation = translation;
        match problems.is_empty() {
            true => Ok(assembly),
            false => Err(SourceError::Problems(assembly.places.located(documents, problems))),
        }
    }

    /// Adds the content of a file. In a directory, the file name becomes a prefix of listener and route keys, so that
    /// the keys of different files differ.
    fn add(&mut self, file: &Path, compact: &Compact, is_one_of_many: bool, problems: &mut Vec<Problem>) {
        let prefix = if is_one_of_many { Places::prefix(file) } else { String::new() };
        let prefixed = |name: &str| format!("{prefix}{name}");
        for (key, resource) in &compact.resources {
            let key = match key {
                Key::Settings => {
                    self.add_settings(file, resource, problems);
                    continue;
                }
                Key::Listener(name) => Key::Listener(prefixed(name)),
                Key::Route(name) => Key::Route(prefixed(name)),
                Key::Backend(name) => {
                    if let Some(other) = self.places.own(name, file) {
                        problems.push(twice(name, Some(other.as_path())));
                    }
                    key.clone()
                }
                Key::File(_) => key.clone(),
            };
            self.resources.insert(key, resource.clone());
        }
        for (named, place) in &compact.files {
            let place = if place.starts_with("backends.") { place.clone() } else { prefixed(place) };
            self.files.entry(named.clone()).or_insert(place);
        }
        self.tls_files.extend(compact.tls_files.iter().cloned());
    }

    /// Adds gateway-wide settings. Only one file may contain them.
    fn add_settings(&mut self, file: &Path, resource: &Resource, problems: &mut Vec<Problem>) {
        if *resource == Resource::Settings(Box::default()) {
            return;
        }
        if let Some(other) = self.places.own_settings(file) {
            let message = format!("{} also contains gateway-wide settings", other.display());
            let problem = Problem::of(Places::prefix(file).trim_end(), message);
            problems.push(
                problem.help("move all gateway-wide settings into one file; only `listeners`, `routes` and `backends` can be in several files"),
            );
        }
        self.resources.insert(Key::Settings, resource.clone());
    }
}

fn twice(name: &str, other: Option<&Path>) -> Problem {
    let other = other.map_or("another file".to_owned(), |other| other.display().to_string());
    let message = format!("{other} also defines a backend with this name");
    Problem::of(format!("backends.{name}"), message).help("rename or remove one of them")
}

#[cfg(test)]
mod tests;
