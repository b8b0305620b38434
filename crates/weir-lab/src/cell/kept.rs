//! Stored files of a cell: the rendered configuration of its processes, and the ends of their logs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use weir_results::{FileKind, KeptFile};

/// Maximum number of bytes stored from the start of a configuration. `weir render` can write the complete file again.
const CONFIGURATION_BYTES: u64 = 32 << 10;
/// Maximum number of bytes stored from the end of a log.
const LOG_BYTES: u64 = 4 << 10;
/// Maximum number of stored files of one kind. Further files are not stored.
const FILES_MAX: usize = 16;
/// Search depth for logs: the folder of the cell and its direct subfolders.
const DEPTH: usize = 2;

/// Reads the configuration files `files` of the cell in `dir`. Skips unreadable files, which must not fail the cell.
pub(crate) fn configuration(dir: &Path, files: &[PathBuf]) -> Vec<KeptFile> {
    keep(dir, files, FileKind::Configuration)
}

/// Reads the logs of the cell in `dir`. Skips empty ones.
pub(crate) fn logs(dir: &Path) -> Vec<KeptFile> {
    let mut found = Vec::new();
    find_logs(dir, DEPTH, &mut found);
    found.sort();
    keep(dir, &found, FileKind::Log)
}

/// The text of all logs in `files` that come from the folder `home` of a service or gateway, one after the other.
pub(crate) fn log_of(files: &[KeptFile], home: &str) -> String {
    let of_part = files
        .iter()
        .filter(|file| file.kind == FileKind::Log && Path::new(&file.name).parent() == Some(Path::new(home)));
    of_part.map(|file| file.text.trim_end()).collect::<Vec<_>>().join("\n")
}

fn find_logs(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links may lead out of the folder, so they are not followed.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 1 => find_logs(&path, depth - 1, found),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| end == "log") => {
                found.push(path)
            }
            _ => {}
        }
    }
}

fn keep(dir: &Path, files: &[PathBuf], kind: FileKind) -> Vec<KeptFile> {
    files.iter().filter_map(|path| read(dir, path, kind).ok().flatten()).take(FILES_MAX).collect()
}

fn read(dir: &Path, path: &Path, kind: FileKind) -> io::Result<Option<KeptFile>> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let most = match kind {
        FileKind::Configuration => CONFIGURATION_BYTES,
        FileKind::Log => LOG_BYTES,
    };
    if kind == FileKind::Log {
        file.seek(SeekFrom::Start(bytes.saturating_sub(most)))?;
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&text);
    let text = if bytes > most { whole_lines(&text, kind) } else { &text };
    let name = path.strip_prefix(dir).unwrap_or(path).display().to_string();
    Ok(Some(KeptFile { name, kind, bytes, text: text.to_owned() }))
}

/// Removes the line that was cut: the last one of a configuration, the first one of a log. A single line is kept.
fn whole_lines(text: &str, kind: FileKind) -> &str {
    match kind {
        FileKind::Configuration => text.rfind('\n').map_or(text, |end| &text[..=end]),
        FileKind::Log => match text.split_once('\n') {
            Some((_, rest)) if !rest.is_empty() => rest,
            _ => text,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_keep_their_start_and_logs_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let lines: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
        let (gateway, log) = (folder.path().join("gateway"), folder.path().join("gateway/nginx.log"));
        std::fs::create_dir(&gateway).unwrap();
        let file = gateway.join("nginx.conf");
        std::fs::write(&file, &lines).unwrap();
        std::fs::write(&log, &lines).unwrap();
        std::fs::write(folder.path().join("origin.log"), "").unwrap();
        std::fs::write(gateway.join("nginx.pid"), "1").unwrap();

        let missing = gateway.join("gone.conf");
        let kept = configuration(folder.path(), &[missing, file]);
        let [conf] = kept.as_slice() else { panic!("one file is there") };
        assert_eq!((conf.name.as_str(), conf.bytes), ("gateway/nginx.conf", lines.len() as u64));
        assert!(conf.text.starts_with("line 0\n") && conf.text.ends_with('\n'));
        assert!(conf.text.len() as u64 <= CONFIGURATION_BYTES);

        let kept = logs(folder.path());
        let [log] = kept.as_slice() else { panic!("one log is not empty") };
        assert_eq!((log.name.as_str(), log.bytes), ("gateway/nginx.log", lines.len() as u64));
        assert!(log.text.starts_with("line ") && log.text.ends_with("line 19999\n"));
        assert!(log.text.len() as u64 <= LOG_BYTES);
    }

    #[test]
    fn short_files_are_kept_completely() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b.log"), "no line end").unwrap();
        std::fs::write(folder.path().join("a.log"), [0xff, b'x', b'\n']).unwrap();
        let kept = logs(folder.path());
        let texts: Vec<&str> = kept.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["\u{fffd}x\n", "no line end"]);
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        (0..40).for_each(|n| std::fs::write(folder.path().join(format!("{n:02}.log")), "x").unwrap());
        assert_eq!(logs(folder.path()).len(), FILES_MAX);
    }
}
