//! Prints everything that weir prints, except for live progress. Control characters are escaped, so that text from
//! outside (names, logs, imported runs) cannot control the terminal.
//!
//! A closed standard output (`weir runs | head`) is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use weir_report::{escaped, escaped_but_styles};

use crate::failure::Failure;

/// The first write error on standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line to standard output. If this fails, [`lost`] reports it when the command ends.
pub(crate) fn print(line: impl Display) {
    if let Err(error) = write(escaped_but_styles(&format!("{line}\n")).as_bytes()) {
        let _ = LOST.set(error.to_string());
    }
}

/// Prints a line to standard error. Errors are ignored.
pub(crate) fn note(line: impl Display) {
    let _ = io::stderr().write_all(escaped(&format!("{line}\n")).as_bytes());
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// If the bytes cannot be written, for example because a disk is full. A closed pipe is not an error.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Returns an error if printed text could not be written.
pub(crate) fn lost() -> Option<Failure> {
    LOST.get().map(|why| {
        Failure::environment(
            format!("cannot write to standard output: {why}"),
            "the output is incomplete; free up disk space, or redirect the output to another disk",
        )
    })
}
