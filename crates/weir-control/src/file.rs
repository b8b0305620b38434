//! A file as a configuration source. The gateway reads and validates the file and all files that it names. The result
//! takes effect as a whole or not at all. `assembly.rs` combines manifests and directories of files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{Batch, Change, Content, Key, Policy, Resource, SYSTEM_AUTHORITIES, State, Table};
use weir_document::Problem;

use crate::authorities::system_authorities;
use crate::check::Look;
use crate::documents::Documents;
use crate::parts::{self, Parts};
use crate::places::located_in_text;
use crate::problem::{SourceError, unreadable};
use crate::stamp::{Stamp, Stamps};

/// Maximum size of a certificate or token file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The file or directory of a configuration, and its active state.
#[derive(Debug)]
pub struct FileSource {
    pub(crate) path: PathBuf,
    /// The parsed files of a directory, or the parsed manifests of a file.
    pub(crate) documents: Documents,
    pub(crate) version: u64,
    /// The resources of the last accepted load, to find changes.
    pub(crate) resources: BTreeMap<Key, Resource>,
    pub(crate) state: State,
    /// The stamps (metadata) of the TLS files, taken before the files were read.
    pub(crate) stamps: BTreeMap<String, Option<Stamp>>,
    /// The stamps (metadata) of the configuration file, or of the directory and its files, taken before the last read.
    /// Includes all files that the configuration names, except TLS files.
    pub(crate) sources: Stamps,
    /// TLS files whose last content was rejected.
    pub(crate) refused: BTreeSet<String>,
    /// Collects warnings if the source is only checked (`weir-gateway check`); otherwise `None`.
    pub(crate) look: Option<Look>,
}

/// Files that a configuration names.
pub(crate) struct NamedFiles {
    /// Every file, with the first field that names it.
    pub(crate) files: BTreeMap<String, String>,
    /// The TLS files among `files`.
    pub(crate) tls_files: BTreeSet<String>,
}

impl FileSource {
    /// A source that has not read anything yet.
    pub fn new(path: impl Into<PathBuf>) -> FileSource {
        FileSource {
            path: path.into(),
            documents: Documents::default(),
            version: 0,
            resources: BTreeMap::new(),
            state: State::default(),
            stamps: BTreeMap::new(),
            sources: Stamps::new(),
            refused: BTreeSet::new(),
            look: None,
        }
    }

    /// The path of the configuration: a file or a directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file, or the changed files of the directory, and compiles the configuration.
    ///
    /// # Errors
    /// If the configuration cannot be read or is invalid. The previous configuration stays active.
    pub fn load(&mut self) -> Result<Arc<Table>, SourceError> {
        let name = self.path.display().to_string();
        self.begin_sources();
        if self.documents.find_directory(&self.path) {
            return self.load_documents();
        }
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| SourceError::Unreadable { path: name.clone(), error })?;
        if weir_manifests::has_manifests(&name, &text) {
            return self.load_documents();
        }
        let Parts { configuration, unread, errors, skipped } =
            parts::read(&name, &text).map_err(SourceError::Document)?;
        let named = NamedFiles { files: configuration.files(), tls_files: configuration.tls_files() };
        let mut resources: BTreeMap<Key, Resource> = configuration.into_resources().into_iter().collect();
        resources.retain(|key, _| *key == Key::Settings || !unread.contains(key));
        match self.activate(resources, named, unread) {
            Ok(table) => {
                let path = self.path.clone();
                self.look(&table, |_, warnings| located_in_text(&path, &text, Vec::new(), warnings, 0));
                Ok(table)
            }
            Err(problems) => {
                Err(SourceError::Problems(located_in_text(&self.path, &text, errors, problems, skipped)))
            }
        }
    }

    /// Reads the files that the configuration names, and compiles the configuration. `unread` contains the keys of
    /// invalid resources; the caller reports their problems. If another resource is invalid only because it needs one
    /// of them, its problem is not reported.
    pub(crate) fn activate(
        &mut self,
        mut resources: BTreeMap<Key, Resource>,
        NamedFiles { files, tls_files }: NamedFiles,
        mut unread: BTreeSet<Key>,
    ) -> Result<Arc<Table>, Vec<Problem>> {
        self.add_sources(files.keys().cloned(), &tls_files);
        let stamps = self.stamps_of_tls(tls_files);
        let mut missing = Vec::new();
        resources.extend(self.read_files(files, &mut missing));
        unread.extend(missing.iter().map(|(key, _)| key.clone()));
        self.place_access_log(&mut resources);
        let batch = self.changes_to(&mut resources);
        let applied = self.state.apply_with_unread(batch, unread);
        match applied.table {
            Some(table) => {
                self.version += 1;
                self.resources = resources;
                self.stamps = stamps;
                self.refused.clear();
                Ok(table)
            }
            None => Err(missing.into_iter().chain(applied.refused).map(|(_, problem)| problem).collect()),
        }
    }

    /// The current stamps of the TLS files.
    fn stamps_of_tls(&self, files: BTreeSet<String>) -> BTreeMap<String, Option<Stamp>> {
        let named = files.into_iter().filter(|file| file != SYSTEM_AUTHORITIES);
        named
            .map(|file| {
                let stamp = Stamp::of(&self.place_of(&file));
                (file, stamp)
            })
            .collect()
    }

    /// The content of the files that the configuration names. Their paths are relative to the configuration's
    /// directory. Adds a problem to `missing` for each file that cannot be read.
    fn read_files(
        &self,
        files: BTreeMap<String, String>,
        missing: &mut Vec<(Key, Problem)>,
    ) -> Vec<(Key, Resource)> {
        let mut read = Vec::new();
        for (file, place) in files {
            // A later check of the field rejects the empty name.
            if file.is_empty() {
                continue;
            }
            match self.read_file(&file) {
                Ok(content) => read.push((Key::File(file), Resource::File(content))),
                Err(error) => missing.push((Key::File(file.clone()), unreadable(place, &file, &error))),
            }
        }
        read
    }

    pub(crate) fn read_file(&self, file: &str) -> io::Result<Content> {
        if file == SYSTEM_AUTHORITIES {
            return system_authorities();
        }
        let path = self.place_of(file);
        let bytes = std::fs::metadata(&path)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "the file has {bytes} bytes; the limit is {FILE_BYTES_MAX}"
            )));
        }
        std::fs::read(path).map(Content::from)
    }

    /// Makes the path of the access log's file relative to the configuration's directory. An empty name stays empty,
    /// because a later check rejects it.
    fn place_access_log(&self, resources: &mut BTreeMap<Key, Resource>) {
        let Some(Resource::Settings(settings)) = resources.get_mut(&Key::Settings) else { return };
        let file = settings.access_log.as_mut().and_then(|log| log.file.as_mut());
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            *file = self.place_of(file).to_string_lossy().into_owned();
        }
    }

    /// The path of a file that the configuration names, relative to the configuration's directory.
    pub(crate) fn place_of(&self, file: &str) -> PathBuf {
        let folder = if self.documents.is_directory() { Some(&*self.path) } else { self.path.parent() };
        folder.unwrap_or(Path::new("")).join(file)
    }

    /// The changes from the previous resources to `resources`. Replaces each unchanged route, backend and file with its
    /// previous copy, so that memory holds it only once.
    fn changes_to(&self, resources: &mut BTreeMap<Key, Resource>) -> Batch {
        let gone = self.resources.keys().filter(|k| !resources.contains_key(k));
        let mut changes: Vec<Change> = gone.map(|key| Change::Remove(key.clone())).collect();
        for (key, resource) in resources {
            match self.resources.get(key).filter(|former| *former == resource) {
                None => changes.push(Change::Put(key.clone(), resource.clone())),
                Some(same @ (Resource::Route(_) | Resource::Backend(_) | Resource::File(_))) => {
                    *resource = same.clone();
                }
                Some(Resource::Settings(_) | Resource::Listener(_)) => {}
            }
        }
        Batch { version: self.version + 1, policy: Policy::AllOrNothing, changes }
    }
}

#[cfg(test)]
mod tests {
    use weir_config::RequestView;

    use super::*;
    use crate::problem::PROBLEMS_MAX;

    const GOOD: &str = "listeners: [{ address: 127.0.0.1:8080 }]\nroutes:\n  - path: /\n    backend: api\n\
                        backends:\n  api: { endpoints: [127.0.0.1:9000] }\n";

    fn file(text: &str) -> (tempfile::TempDir, FileSource) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.yaml");
        std::fs::write(&path, text).unwrap();
        (dir, FileSource::new(path))
    }

    /// Checks the error lines for a configuration file with the content `text`. Removes the directory from the lines.
    fn check_refused(text: &str, expected: &[&str]) {
        let (dir, mut source) = file(text);
        let prefix = format!("{}/", dir.path().display());
        let lines: Vec<String> =
            source.load().unwrap_err().lines().iter().map(|l| l.replace(&prefix, "")).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn reports_problems_with_their_line() {
        check_refused(
            &GOOD.replace("backend: api", "backend: apy"),
            &["gateway.yaml:4:14: routes[0].backend: unknown backend `apy`", "  help: did you mean `api`?"],
        );
        check_refused(
            &GOOD.replace("routes:", "route:"),
            &["gateway.yaml:2:1: unknown field `route`", "  help: did you mean `routes`?"],
        );
        check_refused(
            &format!("{GOOD}timeouts: {{ idle: 0s }}\n"),
            &[
                "gateway.yaml:7:19: timeouts.idle: 0s is out of range; allowed: 1ns to 30 days",
                "  help: write a time in this range; this timeout cannot be turned off",
            ],
        );
    }

    #[test]
    fn reports_the_wrong_value_as_it_stands_in_the_file() {
        let form = "  help: write it like 127.0.0.1:8080 or '[::1]:8080'; host names are not allowed here";
        check_refused(
            &GOOD.replace("127.0.0.1:8080", "localhost:8080"),
            &["gateway.yaml:1:24: `localhost:8080` is not an IP address with a port", form],
        );
        check_refused(
            &GOOD.replace("127.0.0.1:9000", "10.0.0.1"),
            &[
                "gateway.yaml:6:22: `10.0.0.1` is not an IP address or a host name with a port",
                "  help: write it like 127.0.0.1:8080, '[::1]:8080', api.internal:8080 or unix:/run/app.sock",
            ],
        );
        check_refused(
            &GOOD.replace("127.0.0.1:8080", "8080"),
            &[
                "gateway.yaml:1:24: `8080` is not an IP address with a port, like 127.0.0.1:8080 or [::1]:8080",
                "  help: write an IP address with a port, like 127.0.0.1:8080 or [::1]:8080",
            ],
        );
        check_refused(
            &GOOD.replace("path: /", "exact: { a: b }"),
            &[
                "gateway.yaml:3:12: a mapping (`name: value`) is not a path or a list of paths",
                "  help: write a path or a list of paths",
            ],
        );
    }

    #[test]
    fn reads_exact_as_one_path_or_a_list() {
        for paths in ["/a", "[/a]", "[/b, /a]"] {
            let (_dir, mut source) = file(&GOOD.replace("path: /", &format!("exact: {paths}")));
            let table = source.load().unwrap();
            let finds = |path| table.find(&RequestView::get("h", path)).is_some();
            assert!(finds("/a") && !finds("/a/"), "{paths}");
        }
    }

    #[test]
    fn reports_only_the_first_of_a_thousand_problems() {
        let routes = "{ path: /, backend: x },".repeat(1000);
        let (_dir, mut source) =
            file(&GOOD.replace("  - path: /\n    backend: api\n", &format!("  [{routes}]\n")));
        let lines = source.load().unwrap_err().lines();
        assert_eq!(lines.len(), 2 * PROBLEMS_MAX + 1);
        assert!(lines[2 * PROBLEMS_MAX].ends_with("and 1967 more problems like these"), "{lines:?}");
    }

    #[test]
    fn invalid_file_keeps_the_previous_configuration_active() {
        let (_dir, mut source) = file(GOOD);
        let first = source.load().unwrap();
        std::fs::write(source.path(), GOOD.replace("path: /", "path: x")).unwrap();
        assert!(source.load().is_err());
        std::fs::write(source.path(), GOOD).unwrap();
        let again = source.load().unwrap();
        assert!(again.version > first.version);
        assert!(again.find(&RequestView::get("any", "/x")).is_some());
    }

    #[test]
    fn shares_unchanged_routes() {
        let (_dir, mut source) =
            file(&GOOD.replace("routes:\n", "routes:\n  - { path: /a, backend: api }\n"));
        source.load().unwrap();
        let route = |source: &FileSource, index: usize| {
            let Resource::Route(route) = &source.resources[&Key::Route(format!("routes[{index}]"))] else {
                panic!("not a route")
            };
            Arc::clone(route)
        };
        let before = [0, 1].map(|index| route(&source, index));
        // The count includes the source, the state, the compiled table and this test.
        let owners = Arc::strong_count(&before[1]);
        let text = std::fs::read_to_string(source.path()).unwrap();
        std::fs::write(source.path(), text.replace("path: /a", "path: /b")).unwrap();
        let table = source.load().unwrap();
        let shared = [0, 1].map(|index| Arc::ptr_eq(&before[index], &route(&source, index)));
        assert_eq!((shared, Arc::strong_count(&before[1])), ([false, true], owners));
        assert!(table.find(&RequestView::get("any", "/b")).is_some());
    }

    #[test]
    fn reads_the_files_that_the_configuration_names() {
        let text = GOOD.replace("backend: api\n", "backend: api\n    tokens: tokens.lst\n");
        let (dir, mut source) = file(&text);
        let lines = source.load().unwrap_err().lines();
        assert!(
            lines[0].ends_with("gateway.yaml:5:13: routes[0].tokens: cannot read `tokens.lst`: No such file or directory (os error 2)"),
            "{lines:?}"
        );
        let tokens = |text: &str| std::fs::write(dir.path().join("tokens.lst"), text).unwrap();
        let known = |table: &Table, token: &str| {
            table
                .find(&RequestView::get("h", "/"))
                .unwrap()
                .target
                .tokens
                .as_ref()
                .unwrap()
                .has(token.as_bytes())
        };
        tokens("one\n");
        assert!(known(&source.load().unwrap(), "one"));
        tokens("two\n");
        let table = source.load().unwrap();
        assert!(known(&table, "two") && !known(&table, "one"), "a reload reads it again");
        tokens("no token\n");
        let lines = source.load().unwrap_err().lines();
        assert!(
            lines[0].ends_with("routes[0].tokens: `tokens.lst`, line 1: invalid bearer token"),
            "{lines:?}"
        );
        let (_dir, mut missing) =
            file(&GOOD.replace(
                "8080 }",
                "8080, tls: { certificate: cert.pem, key: cert.key, client_ca: ca.pem } }",
            ));
        let lines = missing.load().unwrap_err().lines();
        assert_eq!(lines.len(), 6, "reports every missing file: {lines:?}");
        assert!(
            lines.iter().any(|l| l.contains("listeners[0].tls.client_ca: cannot read `ca.pem`")),
            "{lines:?}"
        );
    }

    #[test]
    fn reads_json() {
        let (_dir, mut source) = file(
            r#"{"listeners":[{"address":"127.0.0.1:1"}],"routes":[{"exact":["/a"],"backend":"b"}],
               "backends":{"b":{"endpoints":[]}}}"#,
        );
        assert!(source.load().unwrap().find(&RequestView::get("h", "/a")).is_some());
    }

    #[test]
    fn reports_a_missing_file_as_unreadable() {
        let error = FileSource::new("/nowhere/gateway.yaml").load().unwrap_err();
        assert!(matches!(error, SourceError::Unreadable { .. }));
        assert!(error.lines()[0].starts_with("/nowhere/gateway.yaml: cannot read"));
    }
}
