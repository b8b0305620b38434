//! Splits a text with several YAML documents.

use crate::is_blank;

/// One document of a multi-document text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPart<'t> {
    /// The text of the document, with the marker before it, if any.
    pub text: &'t str,
    /// The line of the whole text in which the document starts, from 1.
    pub first_line: u64,
}

/// Splits `text` into its documents, without empty ones. Markers (`---`, `...`) are recognized only at the start of a
/// line. No other YAML content can look like a marker there.
pub fn documents(text: &str) -> Vec<StreamPart<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parts = Vec::new();
    let (mut start, mut first_line, mut at) = (0, 1, 0);
    for (line_number, line) in (1..).zip(text.split_inclusive('\n')) {
        let next = at + line.len();
        if is_marker(line, "---") {
            parts.push(StreamPart { text: &text[start..at], first_line });
            (start, first_line) = (at, line_number);
        } else if is_marker(line, "...") {
            parts.push(StreamPart { text: &text[start..at], first_line });
            (start, first_line) = (next, line_number + 1);
        }
        at = next;
    }
    parts.push(StreamPart { text: &text[start..], first_line });
    parts.retain(|part| !is_blank(part.text));
    parts
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, u64)]) {
        let parts = documents(text);
        let parts: Vec<(&str, u64)> = parts.iter().map(|part| (part.text, part.first_line)).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn documents_are_split_at_markers() {
        check("a: 1\n", &[("a: 1\n", 1)]);
        check("a: 1\n---\nb: 2", &[("a: 1\n", 1), ("---\nb: 2", 2)]);
        check("# note\n---\na: 1\n--- # b\nb: 2\n", &[("---\na: 1\n", 2), ("--- # b\nb: 2\n", 4)]);
        check("---\n---\n\n---\r\na: 1\n", &[("---\r\na: 1\n", 4)]);
        check("a: 1\n...\nb: 2\n", &[("a: 1\n", 1), ("b: 2\n", 3)]);
        check("{ a: [", &[("{ a: [", 1)]);
        check(" \n# nothing\n", &[]);
    }

    #[test]
    fn similar_text_is_not_a_marker() {
        check("a: |\n  ---\n  b\n---x: 1\n", &[("a: |\n  ---\n  b\n---x: 1\n", 1)]);
    }

    #[test]
    fn errors_have_the_line_in_the_whole_text() {
        let text = "a: 1\n---\nb: 2\nc: 3\n";
        let part = documents(text)[1];
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct One {
            #[serde(rename = "b")]
            _b: u32,
        }
        let error = crate::read::<One>("x.yaml", part.text).unwrap_err().in_stream(part.first_line);
        assert_eq!(error.to_string(), "x.yaml:4:1: unknown field `c`");
    }
}
