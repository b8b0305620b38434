//! Runs a command until it exits, with limits on time and output. Kills child processes that the command leaves behind.

use std::io::{self, PipeReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cleanup::{self, MARK_VARIABLE, ProcessId};
use crate::launch::spawn::in_own_session;

/// After the command has exited, reading stops if no output arrives for this time. The limit is needed because a child
/// can hold the output open.
const REST_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum output that is read per stream, bytes; after that, the stream is closed.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The exit status and the output of a command.
#[derive(Debug)]
pub struct Answer {
    /// The exit code, or the signal that ended the command.
    pub status: ExitStatus,
    /// The standard output, at most 64 KiB.
    pub output: String,
    /// The standard error, at most 64 KiB.
    pub errors: String,
}

/// Runs `command` until it exits. Its standard input is empty.
///
/// # Errors
/// If the command cannot be started, or does not exit within `timeout`.
pub fn ask(mut command: Command, timeout: Duration) -> io::Result<Answer> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let mark = format!("asked-{}-{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    let (output, its_output) = io::pipe()?;
    let (errors, its_errors) = io::pipe()?;
    command.env(MARK_VARIABLE, &mark);
    command.stdin(Stdio::null()).stdout(its_output).stderr(its_errors);
    in_own_session(&mut command);
    let mut child = command.spawn()?;
    // `command` still holds the write ends of the pipes. Drop it, so that reading ends when the child exits.
    drop(command);
    let streams = [output, errors].map(read_in_background);
    let leader = ProcessId::of(child.id() as i32);
    let status = wait(&mut child, timeout);
    // Kill all processes that the command left behind, and the command itself if it exceeded its time.
    cleanup::kill_sessions(leader.as_slice());
    cleanup::kill_marked(&mark);
    if status.is_err() {
        let _ = child.wait();
    }
    let status = status?;
    let [output, errors] = streams.map(|stream| String::from_utf8_lossy(&rest(&stream)).into_owned());
    Ok(Answer { status, output, errors })
}

fn wait(child: &mut Child, timeout: Duration) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("did not exit within {timeout:?}")));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads `output` on a new thread, so that the command does not block on a full pipe.
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

/// Collects the output until the stream ends, or nothing arrives for [`REST_TIMEOUT`].
fn rest(output: &Receiver<Vec<u8>>) -> Vec<u8> {
    let mut text = Vec::new();
    while let Ok(chunk) = output.recv_timeout(REST_TIMEOUT) {
        text.extend(chunk);
    }
    text
}
