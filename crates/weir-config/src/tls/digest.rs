//! SHA-256 (FIPS 180-4).

use aws_lc_rs::digest::{Context, SHA256};

/// The digest of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha256_of([bytes])
}

/// The digest of the concatenated `parts`.
pub(crate) fn sha256_of<const N: usize>(parts: [&[u8]; N]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_parts_equals_digest_of_the_whole() {
        // The one-block example of FIPS 180-4.
        let expected = [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
            0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
        ];
        assert_eq!(sha256(b"abc"), expected);
        assert_eq!(sha256_of([&b"a"[..], b"", b"bc"]), expected);
    }
}
