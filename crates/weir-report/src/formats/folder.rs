//! The folder that reports go to: whether they can be written there, and each file wholly or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Sees that files can be written into `dir`, or that it can be made where it is not there. Makes nothing.
///
/// # Errors
/// Why not: a write-protected disk, no permission, or something in its place that is no folder.
pub fn check_folder(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let there = dir.ancestors().find(|folder| folder.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is no folder", there.display()),
        ));
    }
    Ok(access(there, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Writes `text` as the file `name` in `dir`, and gives its path. A file of that name is replaced when the new one is
/// whole: a full disk or a crash leaves the old one.
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
    fn a_folder_that_cannot_be_made_is_told_and_one_that_can_is_not_made() {
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
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "report.md", "old").unwrap();
        // What is written beside the file meets a full disk.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("report.md.part")).unwrap();
        let error = put(folder.path(), "report.md", "new").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(folder.path().join("report.md")).unwrap(), "old");
        assert!(!folder.path().join("report.md.part").exists());
        put(folder.path(), "report.md", "new").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("report.md")).unwrap(), "new");
    }
}
