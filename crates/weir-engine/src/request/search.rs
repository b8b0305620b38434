//! Finds a text in a body that arrives in pieces, in linear time and without buffering.

use memchr::memmem::Finder;

/// A text to find. While a body arrives, the search needs to remember only how many bytes of the text match so far.
#[derive(Clone, Debug)]
pub(crate) struct TextSearch {
    finder: Finder<'static>,
    /// For the first n bytes of the text: the length of their longest proper prefix that is also their suffix (Knuth,
    /// Morris, Pratt).
    fallback: Vec<u32>,
}

impl TextSearch {
    /// A search for a text that is not empty.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.as_bytes();
        debug_assert!(!text.is_empty() && u32::try_from(text.len()).is_ok());
        let mut search = Self { finder: Finder::new(text).into_owned(), fallback: vec![0; 2] };
        for &byte in &text[1..] {
            let before = search.fallback.last().map_or(0, |&length| length as usize);
            let next = search.advance(before, byte);
            search.fallback.push(next as u32);
        }
        search
    }

    /// Whether `matched` is the length of the whole text in bytes, which ends the search.
    pub(crate) fn is_found(&self, matched: usize) -> bool {
        matched == self.finder.needle().len()
    }

    /// Continues the search in the next piece of a body. `matched` is the number of bytes of the text that matched at
    /// the end of the previous piece. Returns this number for the end of this piece.
    pub(crate) fn feed(&self, mut matched: usize, piece: &[u8]) -> usize {
        let mut at = 0;
        // If the text began in an earlier piece, compare byte by byte until it is found or does not match.
        while matched > 0 && at < piece.len() && !self.is_found(matched) {
            matched = self.advance(matched, piece[at]);
            at += 1;
        }
        if self.is_found(matched) || at == piece.len() {
            return matched;
        }
        let rest = &piece[at..];
        if self.finder.find(rest).is_some() {
            return self.finder.needle().len();
        }
        // The piece does not contain the whole text, but its end may match the beginning of the text.
        let tail = &rest[rest.len() - rest.len().min(self.finder.needle().len() - 1)..];
        tail.iter().fold(0, |matched, byte| self.advance(matched, *byte))
    }

    /// Advances the search by `byte`, the next byte of the body. Returns how many bytes of the text now match.
    /// `matched` is the previous number; it must be less than the length of the text.
    fn advance(&self, mut matched: usize, byte: u8) -> usize {
        let text = self.finder.needle();
        while matched > 0 && text[matched] != byte {
            matched = self.fallback[matched] as usize;
        }
        if text[matched] == byte { matched + 1 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::schedule::hash;

    #[test]
    fn texts_are_found_in_any_segmentation() {
        let check = |text: &str, body: &str| {
            let search = TextSearch::new(text);
            for first in 0..=body.len() {
                for second in first..=body.len() {
                    let pieces = [&body[..first], &body[first..second], &body[second..]];
                    let matched =
                        pieces.iter().fold(0, |matched, piece| search.feed(matched, piece.as_bytes()));
                    assert_eq!(search.is_found(matched), body.contains(text), "{text} in {pieces:?}");
                }
            }
        };
        check("a", "");
        check("a", "bab");
        check("abab", "abaabab");
        check("aab", "aaaaaab");
        check("aab", "aaaaaac");
        check("abcabd", "abcabcabd");
        check("hello", "helhellhelo hello");
    }

    #[test]
    fn a_search_in_pieces_agrees_with_a_search_of_the_whole() {
        // Short texts that contain only the letters `a` and `b`: their prefixes overlap in every way.
        let mut found = 0;
        for case in 0..4_000 {
            let letters = |salt: u64, count: u64| -> String {
                (0..count).map(|at| if hash(case * 8 + salt, at) & 1 == 0 { 'a' } else { 'b' }).collect()
            };
            let (text, body) = (letters(0, 1 + hash(case, 1) % 7), letters(1, hash(case, 2) % 40));
            let search = TextSearch::new(&text);
            let (mut matched, mut rest, mut step) = (0, body.as_bytes(), 0);
            while !rest.is_empty() {
                step += 1;
                let (piece, further) = rest.split_at((1 + hash(case, 3 + step) as usize % 9).min(rest.len()));
                matched = search.feed(matched, piece);
                rest = further;
            }
            assert_eq!(search.is_found(matched), body.contains(&text), "{text} in {body}");
            found += u32::from(body.contains(&text));
        }
        assert!((1_000..3_500).contains(&found), "{found} of 4000 cases hold the text");
    }
}
