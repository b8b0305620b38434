//! Asks a binary for its version, with limits on time and output. Whatever it starts is killed.

use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::VersionFile;
use crate::cleanup::{self, MARK_VARIABLE, ProcessId};
use crate::launch::in_own_session;

/// How long a binary may take to report its version.
const REPORT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the rest of its output may take to arrive after it exits; a child can hold the output open.
const REST_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum output that is read per stream; after that, the stream is closed.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// The longest version, in characters; a name with version and build needs a few dozen.
const VERSION_CHARS_MAX: usize = 120;

/// The word after `after` in the first line that the binary prints, else that line.
pub(super) fn version(path: &Path, how: &VersionFile) -> Result<String, String> {
    let failed = |why: String| format!("{} does not report its version: {why}", path.display());
    let (status, text) = ask(path, &how.args).map_err(|error| failed(error.to_string()))?;
    let line = text.lines().map(printable).find(|line| !line.is_empty()).unwrap_or_default();
    if !status.success() {
        return Err(failed(format!("{status}: {line}")));
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

/// Runs the binary until it exits; returns its status, and standard output followed by standard error.
fn ask(path: &Path, arguments: &[String]) -> io::Result<(ExitStatus, String)> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let mark = format!("version-{}-{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    let (output, its_output) = io::pipe()?;
    let (errors, its_errors) = io::pipe()?;
    let mut command = Command::new(path);
    command.args(arguments).env(MARK_VARIABLE, &mark);
    command.stdin(Stdio::null()).stdout(its_output).stderr(its_errors);
    in_own_session(&mut command);
    let mut child = command.spawn()?;
    // The command holds the write ends of the pipes.
    drop(command);
    let output = [read_in_background(output), read_in_background(errors)];
    let leader = ProcessId::of(child.id() as i32);
    let status = wait(&mut child);
    // It can leave processes behind, or exceed its time.
    cleanup::kill_sessions(leader.as_slice());
    cleanup::kill_marked(&mark);
    if status.is_err() {
        let _ = child.wait();
    }
    let status = status?;
    let text: Vec<u8> = output.iter().flat_map(rest).collect();
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + REPORT_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("no output within {REPORT_TIMEOUT:?}")));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads on its own thread, so that a binary with much output does not block.
fn read_in_background(output: PipeReader) -> Receiver<Vec<u8>> {
    let (chunks, inbox) = channel();
    thread::spawn(move || {
        let mut output = output.take(OUTPUT_BYTES_MAX);
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut chunk) {
            if chunks.send(chunk[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    inbox
}

/// The output that was read, up to its end.
fn rest(output: &Receiver<Vec<u8>>) -> Vec<u8> {
    let mut text = Vec::new();
    while let Ok(chunk) = output.recv_timeout(REST_TIMEOUT) {
        text.extend(chunk);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(script: &str, after: &str, piece: Option<usize>) -> Result<String, String> {
        let args = ["-c", script].map(str::to_owned).into();
        version(Path::new("/bin/sh"), &VersionFile { args, after: after.into(), piece })
    }

    #[test]
    fn the_version_is_the_word_behind_a_text_of_the_first_line() {
        assert_eq!(reported("echo; echo x/1.2 y; echo z", "x/", None).unwrap(), "1.2");
        assert_eq!(reported("echo p version: ab/1.40/RELEASE", "version: ", Some(1)).unwrap(), "1.40");
        assert_eq!(reported("echo version: ab", "version: ", Some(1)).unwrap(), "version: ab");
        assert_eq!(reported("echo a b >&2", "none ", None).unwrap(), "a b");
        assert!(reported("echo broken; exit 3", "x", None).unwrap_err().contains("broken"));
    }

    #[test]
    fn garbage_is_bounded_and_has_no_control_characters() {
        let garbage = "printf '\\033[31m\\377\\000\\007 x/1.2\\033[0m\\n'; head -c 30000 /dev/zero; echo";
        assert_eq!(reported(garbage, "x/", None).unwrap(), "1.2[0m");
        let long = reported("head -c 50000 /dev/zero | tr '\\0' v", "", None).unwrap();
        assert_eq!(long, "v".repeat(VERSION_CHARS_MAX));
        // Output without end is cut, and the binary gets SIGPIPE.
        assert!(reported("exec yes x/1.2", "x/", None).unwrap_err().contains("SIGPIPE"));
    }

    #[test]
    fn what_it_leaves_behind_is_ended() {
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
