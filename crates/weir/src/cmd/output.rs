//! All output of weir except live progress. It escapes control characters, so that foreign text (names, logs, imported
//! runs) cannot control the terminal.
//!
//! A closed standard output (`weir runs | head`) is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use weir_report::{escaped, escaped_but_styles};

use crate::failure::Failure;

/// The error of the first line that could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line on standard output. If that fails, [`lost`] reports it at the end of the command.
pub(crate) fn print(line: impl Display) {
    if let Err(error) = write(escaped_but_styles(&format!("{line}\n")).as_bytes()) {
        let _ = LOST.set(error.to_string());
    }
}

/// Prints a line on standard error. Errors are ignored.
pub(crate) fn note(line: impl Display) {
    let _ = io::stderr().write_all(escaped(&format!("{line}\n")).as_bytes());
}

/// Writes bytes to standard output unchanged.
///
/// # Errors
/// If they cannot be written, for example because a disk is full.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The failure if printed text was lost.
pub(crate) fn lost() -> Option<Failure> {
    LOST.get().map(|why| {
        Failure::environment(
            format!("standard output: {why}"),
            "the output is incomplete; free space there, or redirect it elsewhere",
        )
    })
}
