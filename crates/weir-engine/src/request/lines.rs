//! Lists of texts in contiguous memory: the lines of a file for `{pick:FILE}`, domains, or tokens.

use std::fs::File;
use std::io::Read as _;

use super::template::Position;

/// Maximum number of lines of a file for `{pick:FILE}`.
pub(crate) const LINES_MAX: usize = 1_000_000;
/// Maximum size of a file for `{pick:FILE}`.
pub(crate) const LINES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A list of texts in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Position in `bytes` where each text ends. The size of files is limited, so 32 bits are enough.
    ends: Vec<u32>,
}

impl Lines {
    /// The non-empty lines of a text.
    ///
    /// # Errors
    /// Why the text is invalid. The error does not contain the name of the file.
    pub(crate) fn of_text(text: &[u8]) -> Result<Self, String> {
        if text.len() > LINES_BYTES_MAX {
            return Err(format!("the file is larger than {} MiB", LINES_BYTES_MAX >> 20));
        }
        let mut lines = Self::default();
        for line in text.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                lines.push(line);
            }
        }
        match lines.len() {
            0 => Err("the file has no lines".into()),
            1..=LINES_MAX => Ok(lines),
            _ => Err(format!("the file has more than {LINES_MAX} lines")),
        }
    }

    /// The non-empty lines of a file.
    ///
    /// # Errors
    /// As [`Lines::of_text`], or if the file cannot be read.
    pub(crate) fn of_file(path: &str) -> Result<Self, String> {
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LINES_BYTES_MAX as u64 + 1).read_to_end(&mut text))
            .map_err(|error| format!("cannot read the file: {error}"))?;
        Self::of_text(&text)
    }

    pub(crate) fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.ends.push(u32::try_from(self.bytes.len()).expect("the size of the list is checked earlier"));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn line(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] as usize };
        &self.bytes[start..self.ends[number] as usize]
    }

    /// Checks whether each line can be used at `position` in a request. Returns the index of the first invalid line,
    /// and why it is invalid. Indices start at 0, and empty lines are not counted.
    pub(crate) fn fault(&self, position: Position) -> Option<(usize, &'static str)> {
        (0..self.len()).find_map(|number| Some((number, position.fault(self.line(number))?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let lines = Lines::of_text(text.as_bytes());
        let read = lines.as_ref().map(|lines| {
            (0..lines.len()).map(|number| str::from_utf8(lines.line(number)).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(read.as_deref().map_err(|error| error.as_str()), expected);
    }

    #[test]
    fn files_are_read_line_by_line() {
        check("a\nb c\n\n\r\nlast", Ok(&["a", "b c", "last"]));
        check("a\r\nb\r\n", Ok(&["a", "b"]));
        check("", Err("the file has no lines"));
        check("\n\r\n", Err("the file has no lines"));
        check(&"a\n".repeat(LINES_MAX + 1), Err("the file has more than 1000000 lines"));
        let large = vec![b'a'; LINES_BYTES_MAX + 1];
        assert_eq!(Lines::of_text(&large).err().as_deref(), Some("the file is larger than 64 MiB"));
    }

    #[test]
    fn lines_that_would_break_a_request_are_found() {
        let lines = Lines::of_text(b"good\na b\nc\rd\n").unwrap();
        assert_eq!(lines.fault(Position::Path), Some((1, "a byte that must be percent-encoded")));
        assert_eq!(lines.fault(Position::Value), Some((2, "a control character")));
        assert_eq!(lines.fault(Position::Body), None);
    }
}
