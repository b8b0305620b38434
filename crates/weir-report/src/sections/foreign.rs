//! Escapes untrusted text before it is printed on a terminal: names, messages and logs of other programs and of
//! imported runs.
//!
//! Control characters can move the cursor, set the clipboard or inject input. Characters that change the direction
//! of text can disguise a line. Both are printed as escapes like `\u001b`. JSON has the same escapes, so an escaped
//! JSON document keeps its content.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The style sequences that weir itself prints, without `ESC [` at the beginning and `m` at the end.
const STYLES: &[&str] = &["0", "1", "2", "39", "49", "38;5;9", "1;31", "1;32"];

/// Escapes every control character of `text` except line breaks and tabs.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, |_| None)
}

/// Like [`escaped`], but keeps the style sequences that weir itself prints.
///
/// Use it for text that weir has composed. Escape the untrusted parts of that text with [`escaped`] before they are
/// styled.
pub fn escaped_but_styles(text: &str) -> Cow<'_, str> {
    escape(text, style_len)
}

/// Returns the length in bytes of the style sequence at the start of `text`; `None` if `text` does not start with a
/// sequence that weir prints.
fn style_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let (code, _) = rest.split_once('m')?;
    STYLES.contains(&code).then(|| "\u{1b}[".len() + code.len() + "m".len())
}

fn escape(text: &str, kept_len: impl Fn(&str) -> Option<usize>) -> Cow<'_, str> {
    let Some(first) = text.find(is_harmful) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(character) = rest.chars().next() {
        let (kept, next) = match kept_len(rest) {
            Some(kept) => rest.split_at(kept),
            None => rest.split_at(character.len_utf8()),
        };
        match kept.len() == character.len_utf8() && is_harmful(character) {
            true => _ = write!(out, "\\u{:04x}", u32::from(character)),
            false => out.push_str(kept),
        }
        rest = next;
    }
    Cow::Owned(out)
}

/// Whether this is a control character (except line break and tab), or a character that changes the direction of text
/// (Unicode property Bidi_Control).
fn is_harmful(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    let is_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (character.is_control() && !is_layout) || is_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_untrusted_text_are_escaped() {
        for (text, expected) in [
            ("plain, with ünï and\n\tlines", "plain, with ünï and\n\tlines"),
            ("\u{1b}]52;c;cm0gLXJm\u{7}", "\\u001b]52;c;cm0gLXJm\\u0007"),
            ("a\u{1b}[2Jb", "a\\u001b[2Jb"),
            ("\u{9b}31m", "\\u009b31m"),
            ("good\rbad\u{8}\u{7f}", "good\\u000dbad\\u0008\\u007f"),
            ("\u{202e}txt.exe", "\\u202etxt.exe"),
            ("\u{1b}[1mbold\u{1b}[0m", "\\u001b[1mbold\\u001b[0m"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn only_style_sequences_of_weir_are_kept() {
        for (text, expected) in [
            ("\u{1b}[1;31mbad\u{1b}[0m\n", "\u{1b}[1;31mbad\u{1b}[0m\n"),
            ("\u{1b}[8mhidden", "\\u001b[8mhidden"),
            ("\u{1b}[", "\\u001b["),
            ("\u{1b}[1\u{1b}[0m", "\\u001b[1\u{1b}[0m"),
            ("\u{1b}[1;31\u{7}m", "\\u001b[1;31\\u0007m"),
        ] {
            assert_eq!(escaped_but_styles(text), expected);
        }
    }

    #[test]
    fn an_escaped_json_document_keeps_its_content() {
        let value = serde_json::json!({ "\u{9b}": "a\u{1b}b\u{202e}\u{7f}\r\n" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let printed = escaped(&text);
        assert!(!printed.contains(is_harmful));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}
