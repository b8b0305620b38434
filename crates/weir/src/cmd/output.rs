//! Everything that weir prints, but for live progress: foreign text in it (names, logs, imported runs) cannot control
//! the terminal.
//!
//! The reader of standard output may be gone (`weir runs | head`). That is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use weir_report::{escaped, escaped_but_styles};

use crate::failure::Failure;

/// What became of the first line that could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line on standard output. If that fails, [`lost`] reports it at the end of the command.
pub(crate) fn print(line: impl Display) {
    if let Err(error) = write(escaped_but_styles(&format!("{line}\n")).as_bytes()) {
        let _ = LOST.set(error.to_string());
    }
}

/// Prints a line on standard error. If that fails, nobody reads it.
pub(crate) fn note(line: impl Display) {
    let _ = io::stderr().write_all(escaped(&format!("{line}\n")).as_bytes());
}

/// Writes bytes to standard output as they are.
///
/// # Errors
/// When it can't take them, as on a disk that is full.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// That something which was to be printed is lost, if it is.
pub(crate) fn lost() -> Option<Failure> {
    LOST.get().map(|why| {
        Failure::environment(
            format!("standard output: {why}"),
            "the output is incomplete; free space there, or redirect it elsewhere",
        )
    })
}
