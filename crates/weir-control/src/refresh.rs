//! Reloads certificates, keys and CA certificates that change while the configuration stays the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_config::{Batch, Change, Key, Policy, Resource, Table};
use weir_document::Problem;

use crate::file::FileSource;
use crate::problem::{unreadable, with_remedy};
use crate::stamp::{Stamp, Stamps};

/// The result of a refresh.
#[derive(Debug)]
pub struct Refreshed {
    /// The new table; `None` if no active content changed.
    pub table: Option<Arc<Table>>,
    /// Files whose new content took effect.
    pub files: Vec<String>,
    /// Messages about rejected changes: one line per problem, followed by a line with its remedy if there is one.
    pub problems: Vec<String>,
}

impl FileSource {
    /// The stamps (metadata) of the TLS files, taken before the files were read. If one of them differs now, call
    /// [`FileSource::refresh`].
    pub fn stamps(&self) -> Stamps {
        self.stamps.iter().map(|(file, stamp)| (self.place_of(file), *stamp)).collect()
    }

    /// Reads the TLS files that changed, without reading the configuration again. The new content of valid files takes
    /// effect. If a file is invalid, or a certificate does not match its key, the previous content stays active, and
    /// the next refresh reads the file again.
    pub fn refresh(&mut self) -> Refreshed {
        let (mut changes, mut problems) = (Vec::new(), Vec::new());
        let known: Vec<(String, Option<Stamp>)> = self.stamps.clone().into_iter().collect();
        for (file, stamp) in known {
            let now = Stamp::of(&self.place_of(&file));
            if now == stamp && !self.refused.contains(&file) {
                continue;
            }
            self.stamps.insert(file.clone(), now);
            self.refused.remove(&file);
            match self.read_file(&file) {
                Ok(content) => {
                    let (key, content) = (Key::File(file), Resource::File(content));
                    if self.resources.get(&key) != Some(&content) {
                        changes.push(Change::Put(key, content));
                    }
                }
                Err(error) => {
                    problems.push(unreadable(self.path.display().to_string(), &file, &error));
                    self.refused.insert(file);
                }
            }
        }
        self.take_in(changes, problems)
    }

    fn take_in(&mut self, changes: Vec<Change>, mut problems: Vec<Problem>) -> Refreshed {
        if changes.is_empty() {
            return Refreshed { table: None, files: Vec::new(), problems: lines(problems) };
        }
        let batch = Batch { version: self.version + 1, policy: Policy::EachAlone, changes: changes.clone() };
        let applied = self.state.apply(batch);
        let mut refused = BTreeSet::new();
        for (key, problem) in applied.refused {
            self.refused.insert(key.name().to_owned());
            refused.insert(key);
            // A certificate and a key that do not match cause the same problem twice. Report it only once.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let mut files = Vec::new();
        for change in changes {
            if let Change::Put(key, content) = change
                && !refused.contains(&key)
            {
                files.push(key.name().to_owned());
                self.resources.insert(key, content);
            }
        }
        self.version += u64::from(!files.is_empty());
        let table = applied.table.filter(|_| !files.is_empty());
        Refreshed { table, files, problems: lines(problems) }
    }
}

fn lines(problems: Vec<Problem>) -> Vec<String> {
    problems.into_iter().flat_map(|p| with_remedy(p.to_string(), &p.remedy)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const TEXT: &str = "listeners: [{ address: 127.0.0.1:8443, tls: { certificate: a.pem, key: a.key, \
                        certificates: [{ certificate: b.pem, key: b.key }] } }]\n";

    /// Writes a certificate for `name`, and its key.
    fn write_pair(dir: &Path, name: &str, files: [&str; 2]) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(dir.join(files[0]), certificate.pem()).unwrap();
        std::fs::write(dir.join(files[1]), key.serialize_pem()).unwrap();
    }

    fn source() -> (tempfile::TempDir, FileSource) {
        let dir = tempfile::tempdir().unwrap();
        write_pair(dir.path(), "a.test", ["a.pem", "a.key"]);
        write_pair(dir.path(), "b.test", ["b.pem", "b.key"]);
        std::fs::write(dir.path().join("gateway.yaml"), TEXT).unwrap();
        let mut source = FileSource::new(dir.path().join("gateway.yaml"));
        source.load().unwrap();
        (dir, source)
    }

    #[test]
    fn refresh_ignores_unchanged_files() {
        let (dir, mut source) = source();
        let refreshed = source.refresh();
        assert!(refreshed.table.is_none() && refreshed.problems.is_empty());
        let same = std::fs::read(dir.path().join("a.pem")).unwrap();
        std::fs::write(dir.path().join("a.pem"), same).unwrap();
        assert!(source.refresh().table.is_none(), "the content is the same");
        std::fs::write(dir.path().join("gateway.yaml"), "nonsense").unwrap();
        write_pair(dir.path(), "a.test", ["a.pem", "a.key"]);
        let refreshed = source.refresh();
        assert!(refreshed.table.is_some(), "refresh uses the active configuration: {:?}", refreshed.problems);
        assert_eq!(refreshed.files, ["a.key", "a.pem"]);
    }

    #[test]
    fn mismatched_pair_keeps_the_previous_one_until_it_matches() {
        let (dir, mut source) = source();
        let at = |name: &str| dir.path().join(name);
        write_pair(dir.path(), "a.test", ["a.pem", "a.new"]);
        write_pair(dir.path(), "b.test", ["b.pem", "b.key"]);
        let refreshed = source.refresh();
        assert_eq!(refreshed.files, ["b.key", "b.pem"], "valid changes take effect");
        assert_eq!(refreshed.problems.len(), 2, "{:?}", refreshed.problems);
        assert!(
            refreshed.problems[0].contains("`a.key` is not the private key of `a.pem`"),
            "{:?}",
            refreshed.problems
        );
        std::fs::rename(at("a.new"), at("a.key")).unwrap();
        let refreshed = source.refresh();
        assert_eq!((refreshed.files.len(), refreshed.problems.len()), (2, 0), "{:?}", refreshed.problems);
    }

    #[test]
    fn reports_a_missing_file_and_keeps_its_content() {
        let (dir, mut source) = source();
        let at = |name: &str| dir.path().join(name);
        std::fs::rename(at("a.pem"), at("away")).unwrap();
        let refreshed = source.refresh();
        assert!(refreshed.table.is_none());
        assert!(refreshed.problems[0].contains("cannot read `a.pem`"), "{:?}", refreshed.problems);
        std::fs::rename(at("away"), at("a.pem")).unwrap();
        let refreshed = source.refresh();
        assert!(refreshed.table.is_none() && refreshed.problems.is_empty(), "{:?}", refreshed.problems);
    }
}
