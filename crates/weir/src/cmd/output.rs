//! Standard output whose reader may have gone (`weir runs | head`), which is its right and no error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use crate::failure::Failure;

/// What became of the first line that could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line. Where standard output can't take it, [`lost`] says so at the end of the command.
pub(crate) fn print(line: impl Display) {
    if let Err(error) = write(format!("{line}\n").as_bytes()) {
        let _ = LOST.set(error.to_string());
    }
}

/// Writes to standard output, whose reader may have gone.
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
            "not all was printed; make room there, or send it elsewhere",
        )
    })
}
