//! Bearer tokens (RFC 6750) that a route accepts.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use weir_document::Problem;

use crate::files::Line;
use crate::tls::digest::sha256;

/// Maximum length of a token in bytes. Request headers of the default size can contain several.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// A set of tokens. It keeps only digests, so that neither the time of a lookup nor a memory dump reveals a token.
#[derive(Debug, Default)]
pub struct TokenSet {
    digests: HashSet<[u8; 32], RandomState>,
}

impl TokenSet {
    /// Reads one token per line. Empty lines and lines that start with `#` are ignored.
    pub(crate) fn read(bytes: &[u8]) -> Result<TokenSet, Problem<Line>> {
        let mut digests = HashSet::default();
        for (line, text) in (1..).zip(bytes.split(|&b| b == b'\n')) {
            let token = text.trim_ascii();
            if token.is_empty() || token.starts_with(b"#") {
                continue;
            }
            if !is_token(token) {
                let message = "invalid bearer token";
                let remedy = "write one token per line: letters, digits and -._~+/, with = only at the end";
                return Err(Problem::new(message, remedy).at(Line(line)));
            }
            digests.insert(sha256(token));
        }
        match digests.is_empty() {
            true => {
                let message = "the file contains no token, so every request would get 401";
                let remedy = "write one token per line, or remove `tokens`";
                Err(Problem::new(message, remedy).at(Line(1)))
            }
            false => Ok(TokenSet { digests }),
        }
    }

    /// Whether `token` is in the set.
    pub fn has(&self, token: &[u8]) -> bool {
        token.len() <= TOKEN_BYTES_MAX && self.digests.contains(&sha256(token))
    }
}

/// Whether the text has the form `b64token` of RFC 6750, 2.1.
fn is_token(token: &[u8]) -> bool {
    let end = token.iter().rposition(|&b| b != b'=').map_or(0, |last| last + 1);
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(b);
    end > 0 && token.len() <= TOKEN_BYTES_MAX && token[..end].iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_exact_tokens() {
        let set = TokenSet::read(b"# ours\nabc.DEF-1_2~3+4/5==\r\n\n  other  \n").unwrap();
        assert!(set.has(b"abc.DEF-1_2~3+4/5==") && set.has(b"other"));
        for wrong in ["", "abc.def-1_2~3+4/5==", "abc.DEF-1_2~3+4/5=", "othe", "other ", "others", "# ours"] {
            assert!(!set.has(wrong.as_bytes()), "{wrong:?}");
        }
        assert!(!set.has(&[b'a'; TOKEN_BYTES_MAX + 1]));
    }

    #[test]
    fn reports_the_line_of_an_invalid_token() {
        let line = |text: &str| TokenSet::read(text.as_bytes()).unwrap_err().place.0;
        for wrong in ["a b", "=", "a=b", "ü", "a\"b", "a\0b"] {
            assert_eq!(line(&format!("good\n\n{wrong}\n")), 3, "{wrong:?}");
        }
        assert_eq!(line("# none\n\n"), 1);
    }
}
