//! Errors of a document, with reason, position and remedy.

use crate::nearest::remedy_for;
use crate::problem::{Position, Problem};

impl Problem<()> {
    pub(crate) fn unknown_field(field: &str, valid: &[String]) -> Self {
        Self::new(format!("unknown field `{field}`"), remedy_for(field, valid))
    }

    pub(crate) fn unknown_variant(variant: &str, valid: &[String]) -> Self {
        Self::new(format!("unknown value `{variant}`"), remedy_for(variant, valid))
    }

    pub(crate) fn missing_field(field: &str) -> Self {
        Self::new(format!("missing field `{field}`"), format!("add `{field}`"))
    }

    pub(crate) fn duplicate_key(key: &str) -> Self {
        Self::new(format!("duplicate field `{key}`"), "remove one of them")
    }

    pub(crate) fn wrong_type(found: &str, expected: &str) -> Self {
        Self::new(format!("{found} is not {expected}"), format!("write {expected}"))
    }

    /// Parses the message of an error. For buffered values (`flatten`, tagged enums), serde reports only a message. A
    /// message that is not in one of serde's formats comes from the type of the value: `cause; remedy`, or only a
    /// cause.
    pub(crate) fn from_text(text: &str) -> Self {
        let names = quoted(text);
        if text.starts_with("unknown field `") {
            return Self::unknown_field(first(&names), names.get(1..).unwrap_or_default());
        }
        if text.starts_with("unknown variant `") {
            return Self::unknown_variant(first(&names), names.get(1..).unwrap_or_default());
        }
        if text.starts_with("missing field `") {
            return Self::missing_field(first(&names));
        }
        if text.starts_with("duplicate field `") {
            return Self::duplicate_key(first(&names));
        }
        for prefix in ["invalid type: ", "invalid value: ", "invalid length "] {
            if let Some((found, expected)) =
                text.strip_prefix(prefix).and_then(|rest| rest.rsplit_once(", expected "))
            {
                let found = if prefix.contains("length") { format!("length {found}") } else { found.into() };
                return Self::wrong_type(&readable_type(&found), &readable_type(expected));
            }
        }
        match text.split_once("; ") {
            Some((message, remedy)) => Self::new(message, remedy),
            None => Self::new(text, "correct the value"),
        }
    }

    /// Adds the position of the error. If serde buffered the value, it reports the position of the enclosing value.
    /// From there, this function searches for the message's first word in backticks.
    pub(crate) fn located(self, source_name: &str, text: &str, line: u64, column: u64) -> Problem<Position> {
        let (line, column) = match quoted(&self.message).first() {
            Some(word) if !self.message.starts_with("missing") => sharpen(text, line, column, word),
            _ => (line, column),
        };
        self.at(Position::new(source_name, line, column))
    }
}

/// The error for an empty document.
pub(crate) fn empty(source_name: &str) -> Problem<Position> {
    Problem::new("the document is empty", "write one YAML or JSON document").located(source_name, "", 1, 1)
}

/// Replaces type names of serde and Rust with words for users.
pub(crate) fn readable_type(name: &str) -> String {
    match name {
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number (0 or more)".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "bool" | "boolean" => "`true` or `false`".to_owned(),
        "null" | "unit value" => "an empty value".to_owned(),
        "string" | "a string" => "a string".to_owned(),
        "string scalar" => "a single value".to_owned(),
        "map" | "a map" | "mapping start" => "a mapping (`name: value`)".to_owned(),
        "sequence" | "a sequence" | "sequence start" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a mapping (`name: value`)".to_owned(),
        other => match other.split_once(' ') {
            Some(("string", text)) => format!("`{}`", text.trim_matches('"')),
            Some(("integer" | "floating" | "boolean", number)) => {
                format!("`{}`", number.trim_start_matches("point ").trim_matches('`'))
            }
            _ => other.to_owned(),
        },
    }
}

/// Maximum distance in bytes from the reported position of an error to the word that its message quotes.
const SHARPEN_BYTES: usize = 64 * 1024;

/// The position of `word` at or after the given position. If the word is not found, the given position.
fn sharpen(text: &str, line: u64, column: u64, word: &str) -> (u64, u64) {
    let Some(start) = offset_of(text, line, column).filter(|_| !word.is_empty()) else {
        return (line, column);
    };
    let rest = &text[start..];
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let found = rest.match_indices(word).take_while(|(at, _)| *at < SHARPEN_BYTES).find(|(at, _)| {
        let before = rest[..*at].chars().next_back();
        let after = rest[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    });
    match found {
        // If `at` is 0 or 1, the given position already points to the start of the word, or to the quote before the
        // word.
        Some((at, _)) if at > 1 => {
            let before = &rest[..at];
            let line_start = before.rfind('\n');
            let characters = before[line_start.map_or(0, |newline| newline + 1)..].chars().count() as u64;
            let lines = before.matches('\n').count() as u64;
            let column = if line_start.is_some() { characters + 1 } else { column + characters };
            (line + lines, column)
        }
        _ => (line, column),
    }
}

/// The byte offset of a line and column, which both count from 1; `None` if the text has no such position.
pub(crate) fn offset_of(text: &str, line: u64, column: u64) -> Option<usize> {
    let line_start = match line.checked_sub(2) {
        None => 0,
        Some(nth) => text.match_indices('\n').nth(usize::try_from(nth).ok()?)?.0 + 1,
    };
    let before = usize::try_from(column.checked_sub(1)?).ok()?;
    let rest = &text[line_start..];
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(before).map(|at| line_start + at)
}

fn first(names: &[String]) -> &str {
    names.first().map_or("", String::as_str)
}

/// The texts within backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, message: &str, remedy: &str) {
        assert_eq!(Problem::from_text(text), Problem::new(message, remedy));
    }

    #[test]
    fn serde_error_texts_are_parsed() {
        check(
            "unknown field `wamup`, expected `warmup` or `name`",
            "unknown field `wamup`",
            "did you mean `warmup`?",
        );
        check(
            "unknown field `x`, there are no fields",
            "unknown field `x`",
            "remove the field: no field is allowed here",
        );
        check(
            "unknown variant `q`, expected one of `open`, `closed`, `x`",
            "unknown value `q`",
            "valid names here: `open`, `closed`, `x`",
        );
        check("missing field `name`", "missing field `name`", "add `name`");
        check("duplicate field `name`", "duplicate field `name`", "remove one of them");
        check(
            "invalid type: string \"a\", expected u32",
            "`a` is not a whole number (0 or more)",
            "write a whole number (0 or more)",
        );
        check("10 has no unit; write 10ms", "10 has no unit", "write 10ms");
        check("strange", "strange", "correct the value");
    }

    #[test]
    fn hostile_error_texts_do_not_panic() {
        for text in ["unknown field `", "missing field `", "invalid type: ", "`", "; ", ""] {
            let _ = Problem::from_text(text);
        }
    }
}
