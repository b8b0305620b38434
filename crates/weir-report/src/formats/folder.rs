//! Checks whether the report folder is writable, and writes files atomically.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Checks that the folder `dir` is writable. If `dir` is missing, checks that it can be created, but does not
/// create it.
///
/// # Errors
/// If the file system is read-only, the user lacks permission, or the path is not a directory.
pub fn check_folder(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let there = dir.ancestors().find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is not a directory", there.display()),
        ));
    }
    Ok(access(there, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Writes `text` as the file `name` in `dir`, and returns the path. An existing file is replaced only when the new
/// one is complete. So the old file survives a full disk or a crash.
pub(crate) fn put(dir: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let path = dir.join(name);
    let beside = dir.join(format!("{name}.part"));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_reports_a_path_that_is_not_a_directory_and_creates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("a/b/c");
        check_folder(&new).unwrap();
        assert!(!folder.path().join("a").exists());
        fs::write(folder.path().join("a"), "in the way").unwrap();
        let error = check_folder(&new).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(error.to_string().contains(&folder.path().join("a").display().to_string()), "{error}");
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "report.md", "old").unwrap();
        // The temporary file is a link to a device on which every write fails, like on a full disk.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("report.md.part")).unwrap();
        let error = put(folder.path(), "report.md", "new").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(folder.path().join("report.md")).unwrap(), "old");
        assert!(!folder.path().join("report.md.part").exists());
        put(folder.path(), "report.md", "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("report.md")).unwrap(), "new");
    }
}
