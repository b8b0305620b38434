//! Standard output whose reader may have gone (`weir runs | head`), which is its right and no error.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use crate::failure::Failure;

/// What became of the first line that could not be written.
static LOST: OnceLock<String> = OnceLock::new();

/// Prints a line. Where standard output can't take it, [`lost`] says so at the end of the command.
pub(crate) fn print(line: impl Display) {
    let written = writeln!(std::io::stdout(), "{line}");
    if let Err(error) = written.and_then(|()| std::io::stdout().flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error.to_string());
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
