//! SHA-256 of programs and configuration files.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256};

/// An incremental SHA-256 digest.
pub(crate) struct Digest(Context);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes.as_ref());
    }

    /// Adds everything that `reader` returns.
    pub(crate) fn read(&mut self, mut reader: impl Read) -> io::Result<()> {
        let mut buffer = [0; 64 << 10];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(()),
                bytes => self.update(&buffer[..bytes]),
            }
        }
    }

    /// The digest in lower-case hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digest of `bytes` in lower-case hexadecimal digits.
pub(crate) fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    let mut digest = Digest::new();
    digest.update(bytes);
    digest.hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incremental_digest_equals_the_digest_of_the_whole() {
        // The one-block example of FIPS 180-4.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex("abc"), expected);
        let mut digest = Digest::new();
        digest.update("a");
        digest.read(&b"bc"[..]).unwrap();
        assert_eq!(digest.hex(), expected);
    }
}
