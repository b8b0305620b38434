//! Decides when to parse request headers again while they arrive in pieces.
//!
//! Each parse starts at the first byte. So a client that sends single bytes or short lines must not cause a parse of
//! long headers for each byte or line.

/// The parses of one request's headers.
#[derive(Debug, Default)]
pub(crate) struct Parses {
    count: u32,
    /// Length of the input at the last parse, bytes.
    bytes: usize,
}

impl Parses {
    /// While there have been at most this many parses, each new line causes a parse. After that, a new line causes a
    /// parse only if the length has doubled since the last parse, or if an empty line has arrived.
    const OF_LINES_MAX: u32 = 8;

    /// Whether to parse `bytes` now. `seen` is the length of `bytes` at the last call. This limits the work: all parses
    /// of one request's headers together read at most `OF_LINES_MAX + 4` times the length of the headers.
    pub(crate) fn are_due(&mut self, bytes: &[u8], seen: usize, head_bytes_max: usize) -> bool {
        let are_due = seen == 0
            || bytes.len() >= head_bytes_max
            || bytes[seen..].contains(&b'\n')
                && (self.count <= Self::OF_LINES_MAX
                    || bytes.len() >= 2 * self.bytes
                    || has_empty_line(&bytes[seen.saturating_sub(2)..]));
        if are_due {
            *self = Parses { count: self.count + 1, bytes: bytes.len() };
        }
        are_due
    }
}

/// Whether `bytes` contains an empty line, which ends the headers.
fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds headers: first `first` bytes, then pieces of `piece` bytes. Returns the sum of parsed bytes, and whether
    /// the complete headers are parsed.
    fn parsed(head: &[u8], first: usize, piece: usize) -> (usize, bool) {
        let mut parses = Parses::default();
        let (mut seen, mut sum, mut is_last_due) = (0, 0, false);
        let mut end = first;
        while seen < head.len() {
            is_last_due = parses.are_due(&head[..end], seen, 1 << 20);
            sum += if is_last_due { end } else { 0 };
            seen = end;
            end = (end + piece).min(head.len());
        }
        (sum, is_last_due)
    }

    #[test]
    fn a_head_that_arrives_line_by_line_is_not_parsed_for_every_line() {
        let long = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n", "x".repeat(1_000_000));
        let lines = "a:\r\n".repeat(97);
        for (head, first) in [(format!("{long}{lines}\r\n"), long.len()), (format!("{lines}{long}\r\n"), 1)] {
            for piece in [1, 2, 3, 4, 7, 64, 1000] {
                let (sum, is_last_due) = parsed(head.as_bytes(), first, piece);
                assert!(is_last_due, "{piece}");
                assert!(sum <= 12 * head.len(), "{piece}: {sum} bytes for {}", head.len());
            }
        }
    }

    #[test]
    fn the_end_of_a_head_is_detected_wherever_it_is_cut() {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "a: 1\r\n".repeat(60));
        for first in 1..head.len() {
            for piece in [1, 2, 3, head.len()] {
                assert!(parsed(head.as_bytes(), first, piece).1, "{first} {piece}");
            }
        }
        assert!(has_empty_line(b"a\n\n") && has_empty_line(b"\n\r\n") && !has_empty_line(b"\r\na"));
    }
}
