//! Records the files from which a configuration was read, to detect when they must be read again.

use std::collections::BTreeSet;

use weir_config::SYSTEM_AUTHORITIES;

use crate::documents::stamps_of;
use crate::file::FileSource;
use crate::stamp::{Stamp, Stamps};

impl FileSource {
    /// The stamps (metadata) of the configuration file, or of the directory and its files, taken before the last read.
    /// Includes all files that the configuration names, except TLS files; for these, see [`FileSource::stamps`].
    pub fn sources(&self) -> Stamps {
        self.sources.clone()
    }

    /// Whether one of [`FileSource::sources`] changed, so that [`FileSource::load`] is needed. A rejected configuration
    /// is read again only after a change.
    pub fn is_outdated(&self) -> bool {
        self.sources.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
    }

    /// Records the current stamps of the configuration file, or of the directory and its files, and drops all earlier
    /// stamps. Call it before reading these files.
    pub(crate) fn begin_sources(&mut self) {
        // For a single file, `stamps_of` fails, because it is not a directory.
        self.sources = stamps_of(&self.path).unwrap_or_default();
        self.sources.insert(self.path.clone(), Stamp::of(&self.path));
    }

    /// Records the stamps of the files that the configuration names, except TLS files. Call it before reading them.
    pub(crate) fn add_sources(&mut self, files: impl IntoIterator<Item = String>, of_tls: &BTreeSet<String>) {
        let others = files.into_iter().filter(|file| file != SYSTEM_AUTHORITIES && !of_tls.contains(file));
        for file in others {
            let path = self.place_of(&file);
            let stamp = Stamp::of(&path);
            self.sources.insert(path, stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "listeners: [{ address: 127.0.0.1:8080 }]\n\
                        routes: [{ path: /, backend: b, tokens: tokens.lst }]\nbackends: { b: { endpoints: [] } }\n";

    #[test]
    fn reports_a_change_of_any_file_until_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("gateway.yaml", TEXT);
        write("tokens.lst", "one\n");
        let mut source = FileSource::new(dir.path().join("gateway.yaml"));
        source.load().unwrap();
        assert_eq!((source.sources().len(), source.is_outdated()), (2, false));
        write("tokens.lst", "one\ntwo\n");
        assert!(source.is_outdated());
        source.load().unwrap();
        assert!(!source.is_outdated());
        write("gateway.yaml", "nonsense");
        assert!(source.is_outdated());
        source.load().unwrap_err();
        assert!(!source.is_outdated(), "a rejected file is read again only after a change");
        write("gateway.yaml", TEXT);
        assert!(source.is_outdated());
    }

    #[test]
    fn reports_a_change_of_a_directory_until_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("gateway.d");
        std::fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("gateway.yaml", TEXT);
        write("tokens.lst", "one\n");
        let mut source = FileSource::new(&folder);
        source.load().unwrap();
        assert!(!source.is_outdated());
        let more = "routes: [{ path: /more, backend: b }]\n";
        for (name, text) in [("tokens.lst", "two\n"), ("more.yaml", more), ("more.yaml", "routes: []\n")] {
            write(name, text);
            assert!(source.is_outdated(), "{name}");
            source.load().unwrap();
            assert!(!source.is_outdated(), "{name}");
        }
        std::fs::remove_file(folder.join("more.yaml")).unwrap();
        assert!(source.is_outdated());
    }
}
