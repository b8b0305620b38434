//! Standard output whose reader may have gone (`weir runs | head`), which is its right and no error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
