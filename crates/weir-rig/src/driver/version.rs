//! Runs a binary to get its version.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::VersionFile;
use crate::ask::{Answer, ask};

/// How long a binary may take to report its version.
pub(super) const REPORT_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of characters in a version. A version with name and build has a few dozen.
const VERSION_CHARS_MAX: usize = 120;

/// Runs the binary at `path`, and returns the word after `how.after` in the first line that it prints. If the line does
/// not contain `how.after`, returns the whole line.
pub(super) fn version(path: &Path, how: &VersionFile) -> Result<String, String> {
    let failed = |why: String| format!("{} does not report its version: {why}", path.display());
    let mut command = Command::new(path);
    command.args(&how.args);
    let answer = ask(command, REPORT_TIMEOUT).map_err(|error| failed(error.to_string()))?;
    version_in(&answer, how).map_err(failed)
}

/// Finds the version in the output of a binary. If the binary failed, the error contains its first line of output.
pub(super) fn version_in(answer: &Answer, how: &VersionFile) -> Result<String, String> {
    let Answer { status, output, errors } = answer;
    let mut lines = output.lines().chain(errors.lines()).map(printable);
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    if !status.success() {
        return Err(format!("{status}: {line}"));
    }
    let word = line.split_once(&how.after).and_then(|(_, rest)| rest.split_whitespace().next());
    let piece = word.and_then(|word| how.piece.map_or(Some(word), |piece| word.split('/').nth(piece)));
    Ok(piece.unwrap_or(&line).to_owned())
}

/// The line without control characters, limited in length.
fn printable(line: &str) -> String {
    let shown = line.trim().chars().filter(|letter| !letter.is_control() && *letter != '\u{fffd}');
    shown.take(VERSION_CHARS_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleanup;

    fn reported(script: &str, after: &str, piece: Option<usize>) -> Result<String, String> {
        let args = ["-c", script].map(str::to_owned).into();
        version(Path::new("/bin/sh"), &VersionFile { args, after: after.into(), piece })
    }

    #[test]
    fn the_version_is_the_word_after_a_text_in_the_first_line() {
        assert_eq!(reported("echo; echo x/1.2 y; echo z", "x/", None).unwrap(), "1.2");
        assert_eq!(reported("echo p version: ab/1.40/RELEASE", "version: ", Some(1)).unwrap(), "1.40");
        assert_eq!(reported("echo version: ab", "version: ", Some(1)).unwrap(), "version: ab");
        assert_eq!(reported("echo a b >&2", "none ", None).unwrap(), "a b");
        assert!(reported("echo broken; exit 3", "x", None).unwrap_err().contains("broken"));
    }

    #[test]
    fn garbage_is_truncated_and_loses_control_characters() {
        let garbage = "printf '\\033[31m\\377\\000\\007 x/1.2\\033[0m\\n'; head -c 30000 /dev/zero; echo";
        assert_eq!(reported(garbage, "x/", None).unwrap(), "1.2[0m");
        let long = reported("head -c 50000 /dev/zero | tr '\\0' v", "", None).unwrap();
        assert_eq!(long, "v".repeat(VERSION_CHARS_MAX));
        // If a binary never stops printing, weir closes the pipe, and SIGPIPE ends the binary.
        assert!(reported("exec yes x/1.2", "x/", None).unwrap_err().contains("SIGPIPE"));
    }

    #[test]
    fn remaining_child_processes_are_killed() {
        let secret = format!("{}71", std::process::id());
        let away = format!("echo x/1.2; setsid sh -c 'exec sleep {secret}' & exit");
        assert_eq!(reported(&away, "x/", None).unwrap(), "1.2");
        let lives = || {
            procfs::process::all_processes()
                .unwrap()
                .flatten()
                .any(|process| process.cmdline().is_ok_and(|words| words.last() == Some(&secret)))
        };
        assert!(cleanup::wait_until(|| !lives()));
    }
}
