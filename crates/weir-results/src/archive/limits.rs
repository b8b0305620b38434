//! Limits the memory that the reader of a small file allocates.
//!
//! Archives of weir decompress to about ten times their size, and need about as much memory as their decompressed text.
//! A hostile file can decompress to a thousand times its size, and can contain JSON in which every second byte becomes
//! a value of 32 bytes.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of decompressed bytes per compressed byte, in addition to [`FREE_BYTES`].
pub(super) const RATIO_MAX: u64 = 32;
/// Number of decompressed bytes that are always allowed, because a short archive can compress unusually well.
const FREE_BYTES: u64 = 4 << 20;
/// Maximum length of a cell's key, in bytes.
const KEY_BYTES_MAX: usize = 64 << 10;
/// Maximum number of JSON values in the line with the run. A plan of 100,000 cells needs about a third of this number.
const RUN_VALUES_MAX: usize = 2_000_000;

/// Error: the file decompresses to more than [`RATIO_MAX`] allows.
#[derive(Debug, thiserror::Error)]
#[error("decompresses to more than {RATIO_MAX} times its size")]
pub(super) struct TooLarge;

/// Reads the decompressed content of a gzip file. The limit grows with the number of compressed bytes read.
pub(super) struct Unpacked<R> {
    decoder: MultiGzDecoder<Counted<R>>,
    unpacked_bytes: u64,
}

impl<R: Read> Unpacked<R> {
    pub(super) fn new(packed: R) -> Self {
        Self { decoder: MultiGzDecoder::new(Counted { input: packed, bytes: 0 }), unpacked_bytes: 0 }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.unpacked_bytes += read as u64;
        match self.unpacked_bytes > FREE_BYTES + RATIO_MAX * self.decoder.get_ref().bytes {
            true => Err(io::Error::other(TooLarge)),
            false => Ok(read),
        }
    }
}

/// Counts the bytes that are read from `input`.
struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A line with a cell; only the key is parsed.
#[derive(Deserialize)]
struct CellLine<'a> {
    #[serde(borrow)]
    cell: CellKeyOnly<'a>,
}

#[derive(Deserialize)]
struct CellKeyOnly<'a> {
    #[serde(borrow)]
    key: &'a RawValue,
}

/// Checks the size of a line before it is parsed. If the line has an unknown form, the parser reports it.
///
/// # Errors
/// When a part of the line is too large; the error names it.
pub(super) fn check_line(line: &[u8]) -> Result<(), String> {
    if line.starts_with(br#"{"run""#) {
        return match values(line) > RUN_VALUES_MAX {
            true => Err(format!("the run has more than {RUN_VALUES_MAX} JSON values")),
            false => Ok(()),
        };
    }
    match serde_json::from_slice::<CellLine<'_>>(line) {
        Ok(line) if line.cell.key.get().len() > KEY_BYTES_MAX => {
            Err(format!("the key of the cell has more than {KEY_BYTES_MAX} bytes"))
        }
        _ => Ok(()),
    }
}

/// Approximate number of JSON values in `text`. It counts each empty array or object twice.
fn values(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::{ArchiveError, read_archive};

    fn packed(parts: &[&[u8]]) -> Vec<u8> {
        let mut output = GzEncoder::new(Vec::new(), Compression::best());
        parts.iter().for_each(|part| output.write_all(part).unwrap());
        output.finish().unwrap()
    }

    /// Pseudo-random bytes, which cannot be compressed.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn a_small_archive_that_decompresses_to_much_is_rejected_early() {
        let zeros = vec![b'0'; 64 << 20];
        let bytes = packed(&[br#"{"weir":""#, &zeros]);
        let mut unpacked = Unpacked::new(&bytes[..]);
        let mut taken = 0;
        let mut buffer = vec![0; 8 << 10];
        let error = loop {
            match unpacked.read(&mut buffer) {
                Ok(read) => taken += read as u64,
                Err(error) => break error,
            }
        };
        assert!(error.get_ref().unwrap().is::<TooLarge>());
        assert!(taken <= FREE_BYTES + RATIO_MAX * bytes.len() as u64, "{taken} of {}", bytes.len());
        let refused = read_archive("run.weir", &bytes[..]).unwrap_err();
        assert_eq!(refused.to_string(), "run.weir: the file decompresses to more than 32 times its size");
        assert!(refused.is_wrong_use() && refused.remedy().contains("nothing was imported"));
        assert!(matches!(refused, ArchiveError::TooLarge { .. }));
    }

    #[test]
    fn content_that_compresses_like_archives_is_read() {
        // 10 MiB, of which a tenth cannot be compressed, so that the ratio stays below the limit.
        let parts: Vec<Vec<u8>> = (0..256).map(|_| [noise(4 << 10), vec![0; 36 << 10]].concat()).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut all = Vec::new();
        Unpacked::new(&packed(&parts)[..]).read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 256 * (40 << 10));
    }

    #[test]
    fn lines_with_too_many_values_are_rejected() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
        let cell = |count| format!(r#"{{"cell":{{"rest":[1],"key":{{"axes":{{"a":{}}}}}}}}}"#, zeros(count));
        let run = |count| format!(r#"{{"run":{{"scenario":{}}}}}"#, zeros(count));
        for (line, expected) in [
            (cell(100), Ok(())),
            (cell(40_000), Err("the key of the cell has more than 65536 bytes")),
            (run(100_000), Ok(())),
            (run(2_000_000), Err("the run has more than 2000000 JSON values")),
            (r#"{"end":{"cells":0}}"#.to_owned(), Ok(())),
            ("no JSON".to_owned(), Ok(())),
        ] {
            assert_eq!(check_line(line.as_bytes()), expected.map_err(str::to_owned));
        }
        assert_eq!(values(br#"{"a":"[,\\\",","b":[1,2]}"#), 5);
    }
}
