//! Templates: texts with placeholders, whose values are inserted for each request.

use weir_document::{Problem, nearest};

/// The position of a template in a request. It decides which bytes are valid, and how a brace without a placeholder
/// is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// In the path. A URI cannot contain a brace, so a brace without a placeholder is an error.
    Path,
    /// In the value of a header field. Braces without a placeholder are literal text.
    Value,
    /// A text body. Braces without a placeholder are literal text.
    Body,
}

/// A part of a parsed template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Constant text.
    Literal(&'a str),
    /// `{1..50}`: a whole number from `low` to `high`, both included.
    Integer { low: u64, high: u64 },
    /// `{seq}`: the index of the arrival.
    Seq,
    /// `{uuid}`: a UUID of version 4.
    Uuid,
    /// `{domain}`: the domain that the request is for.
    Domain,
    /// `{pick:FILE}`: a random line of this file.
    Pick(&'a str),
}

/// All placeholders, as error messages list them.
const PLACEHOLDERS: &str = "`{1..50}`, `{domain}`, `{seq}`, `{uuid}` and `{pick:FILE}`";
/// Words that an unknown placeholder is compared with, each with the placeholder to suggest.
const WORDS: [(&str, &str); 5] = [
    ("1..50", "{1..50}"),
    ("domain", "{domain}"),
    ("seq", "{seq}"),
    ("uuid", "{uuid}"),
    ("pick", "{pick:FILE}"),
];

impl Position {
    /// The name of the field in the load specification that contains the template, for error messages.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Value => "header",
            Self::Body => "body",
        }
    }

    /// Returns why these bytes are invalid at this position, or `None` if they are valid.
    pub(crate) fn fault(self, bytes: &[u8]) -> Option<&'static str> {
        let is_allowed: fn(&u8) -> bool = match self {
            Self::Path => |byte| byte.is_ascii_graphic() && *byte != b'#',
            Self::Value => |byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f),
            Self::Body => return None,
        };
        let fault =
            if self == Self::Path { "a byte that must be percent-encoded" } else { "a control character" };
        (!bytes.iter().all(is_allowed)).then_some(fault)
    }
}

/// Parses a template. In a header value or a body, braces without a placeholder are literal text. In a path, they
/// are an error.
///
/// # Errors
/// If a placeholder is invalid, or a brace in a path has no placeholder.
pub(crate) fn parse(text: &str, position: Position) -> Result<Vec<Piece<'_>>, Problem<()>> {
    let mut pieces = Vec::new();
    let (mut literal_start, mut at) = (0, 0);
    while let Some(open) = memchr::memchr(b'{', &text.as_bytes()[at..]).map(|found| at + found) {
        let inside_start = open + 1;
        // The search ends at another opening brace, so each byte is read at most twice.
        let end =
            memchr::memchr2(b'{', b'}', &text.as_bytes()[inside_start..]).map(|found| inside_start + found);
        let inside = match end {
            Some(end) if text.as_bytes()[end] == b'}' => Some(&text[inside_start..end]),
            _ => None,
        };
        let Some(piece) = inside.map(placeholder).transpose()?.flatten() else {
            if position == Position::Path {
                return Err(unknown(inside));
            }
            at = inside_start;
            continue;
        };
        if literal_start < open {
            pieces.push(Piece::Literal(&text[literal_start..open]));
        }
        pieces.push(piece);
        at = inside_start + inside.map_or(0, str::len) + 1;
        literal_start = at;
    }
    if literal_start < text.len() {
        pieces.push(Piece::Literal(&text[literal_start..]));
    }
    Ok(pieces)
}

/// Whether the text contains a placeholder, valid or invalid.
pub(crate) fn has_placeholder(text: &str) -> bool {
    parse(text, Position::Body)
        .map_or(true, |pieces| pieces.iter().any(|piece| !matches!(piece, Piece::Literal(_))))
}

/// Parses the text between braces; `None` if this is not a placeholder.
fn placeholder(inside: &str) -> Result<Option<Piece<'_>>, Problem<()>> {
    Ok(Some(match inside {
        "seq" => Piece::Seq,
        "uuid" => Piece::Uuid,
        "domain" => Piece::Domain,
        "pick:" => return Err(Problem::new("`{pick:}` has no file name", "use `{pick:FILE}`")),
        _ => match (inside.strip_prefix("pick:"), inside.split_once("..")) {
            (Some(file), _) => Piece::Pick(file),
            (None, Some((low, high))) if is_number(low) && is_number(high) => range(inside, low, high)?,
            _ => return Ok(None),
        },
    }))
}

fn range(inside: &str, low: &str, high: &str) -> Result<Piece<'static>, Problem<()>> {
    let (Ok(low), Ok(high)) = (low.parse(), high.parse()) else {
        return Err(Problem::new(
            format!("the range `{{{inside}}}` is too large"),
            format!("use numbers up to {}", u64::MAX),
        ));
    };
    if low > high {
        return Err(Problem::new(
            format!("the range `{{{inside}}}` ends before it starts"),
            format!("use `{{{high}..{low}}}`"),
        ));
    }
    Ok(Piece::Integer { low, high })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn unknown(inside: Option<&str>) -> Problem<()> {
    let known = || format!("use one of {PLACEHOLDERS}, or write a brace as %7B");
    let Some(inside) = inside else {
        return Problem::new("the brace `{` is not closed", known());
    };
    let word = inside.split(':').next().unwrap_or(inside);
    let by_word = nearest(word, WORDS.iter().map(|(word, _)| *word));
    let near = WORDS.iter().find(|(candidate, _)| {
        // A word that begins with a digit is meant as a number or a range.
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            *candidate == "1..50"
        } else {
            Some(*candidate) == by_word
        }
    });
    let remedy = near.map_or_else(known, |(_, near)| format!("did you mean `{near}`?"));
    Problem::new(format!("unknown placeholder `{{{inside}}}`"), remedy)
}

#[cfg(test)]
mod tests {
    use super::Piece::*;
    use super::*;

    #[track_caller]
    fn check(text: &str, position: Position, expected: Result<&[Piece<'_>], &str>) {
        let parsed = parse(text, position).map_err(|wrong| format!("{} | {}", wrong.message, wrong.remedy));
        assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn placeholders_are_found() {
        check("/get/{1..50}", Position::Path, Ok(&[Literal("/get/"), Integer { low: 1, high: 50 }]));
        check("{0..18446744073709551615}", Position::Body, Ok(&[Integer { low: 0, high: u64::MAX }]));
        check("/{seq}{uuid}?{domain}", Position::Path, Ok(&[Literal("/"), Seq, Uuid, Literal("?"), Domain]));
        check("{pick:my words/a:b.txt}", Position::Value, Ok(&[Pick("my words/a:b.txt")]));
        check("", Position::Path, Ok(&[]));
    }

    #[test]
    fn braces_without_a_placeholder_stay_in_text() {
        for text in [
            "{",
            "}",
            "{}",
            "{{",
            "{Seq}",
            "{1-50}",
            "{1..}",
            "{..5}",
            "{a..b}",
            "{ seq }",
            "\u{e9}{\u{e9}}",
            "{seq",
        ] {
            check(text, Position::Body, Ok(&[Literal(text)]));
            check(text, Position::Value, Ok(&[Literal(text)]));
        }
        check("{\"id\": {seq}}", Position::Body, Ok(&[Literal("{\"id\": "), Seq, Literal("}")]));
        check("{{uuid}}", Position::Value, Ok(&[Literal("{"), Uuid, Literal("}")]));
        assert!(has_placeholder("{{uuid}}") && has_placeholder("{5..1}") && !has_placeholder("{\"a\": {}}"));
    }

    #[test]
    fn errors_name_the_placeholder() {
        let known = "`{1..50}`, `{domain}`, `{seq}`, `{uuid}` and `{pick:FILE}`";
        for position in [Position::Path, Position::Value, Position::Body] {
            check("/{50..1}", position, Err("the range `{50..1}` ends before it starts | use `{1..50}`"));
            check("/{pick:}", position, Err("`{pick:}` has no file name | use `{pick:FILE}`"));
            check(
                "/{0..18446744073709551616}",
                position,
                Err(
                    "the range `{0..18446744073709551616}` is too large | use numbers up to 18446744073709551615",
                ),
            );
        }
        let path = |text, expected: &str| check(text, Position::Path, Err(expected));
        path("/{sec}", "unknown placeholder `{sec}` | did you mean `{seq}`?");
        path("/{UUID}", "unknown placeholder `{UUID}` | did you mean `{uuid}`?");
        path("/{domains}", "unknown placeholder `{domains}` | did you mean `{domain}`?");
        path("/{pik:a.txt}", "unknown placeholder `{pik:a.txt}` | did you mean `{pick:FILE}`?");
        path("/{1-50}", "unknown placeholder `{1-50}` | did you mean `{1..50}`?");
        path(
            "/{colour}",
            &format!("unknown placeholder `{{colour}}` | use one of {known}, or write a brace as %7B"),
        );
        path("/{a", &format!("the brace `{{` is not closed | use one of {known}, or write a brace as %7B"));
        path(
            "/{{seq}}",
            &format!("the brace `{{` is not closed | use one of {known}, or write a brace as %7B"),
        );
    }
}
