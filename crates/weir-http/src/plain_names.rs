//! Detects plain header names, which contain only letters, digits and `-`. A server can read any other name as the name
//! of another header field.
//!
//! CGI and its successors (WSGI, Rack, PHP) map both `X-Forwarded-For` and `X_Forwarded_For` to `HTTP_X_FORWARDED_FOR`.
//! Some servers, such as lighttpd, replace each character that is not a letter or a digit with `_`. Behind a gateway, a
//! name like `X_Forwarded_For` could stand for a header field that the gateway sets, checks or removes.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * ONES;

/// Whether a field name contains only letters, digits and `-`. `name` must be a token, like every parsed name.
#[inline]
pub fn is_plain_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.iter().all(|&byte| is_plain(byte)) };
    // Eight bytes are checked at a time. The last eight may overlap the eight before.
    bytes.as_chunks::<8>().0.iter().chain([last]).all(|eight| are_plain(*eight))
}

#[inline]
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Checks eight ASCII bytes at the same time. To compare each byte with `n`, it adds `0x80 - n` to the byte: the high
/// bit of the sum is set if the byte is at least `n`. The sum never carries into the next byte.
#[inline]
fn are_plain(eight: [u8; 8]) -> bool {
    let word = u64::from_ne_bytes(eight);
    debug_assert_eq!(word & HIGH_BITS, 0, "tokens are ASCII");
    let at_least = |word: u64, byte: u8| word + u64::from(0x80 - byte) * ONES;
    let lower_case = word | (0x20 * ONES);
    let letters = at_least(lower_case, b'a') & !at_least(lower_case, b'z' + 1);
    let digits = at_least(word, b'0') & !at_least(word, b'9' + 1);
    let hyphens = !at_least(word ^ (u64::from(b'-') * ONES), 1);
    (letters | digits | hyphens) & HIGH_BITS == HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_token_byte;

    #[test]
    fn plain_names_are_detected_at_every_length_and_position() {
        for len in 0..=20 {
            for at in 0..len {
                for byte in (0..0x80).filter(|&byte| is_token_byte(byte)) {
                    let mut name = b"X-Forwarded-For-1z0ZAa".to_vec();
                    name.truncate(len);
                    name[at] = byte;
                    let name = String::from_utf8(name).unwrap();
                    let expected = byte.is_ascii_alphanumeric() || byte == b'-';
                    assert_eq!(is_plain_name(&name), expected, "{name}");
                }
            }
        }
        assert!(is_plain_name(""));
    }
}
