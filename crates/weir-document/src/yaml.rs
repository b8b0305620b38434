//! Reads YAML with `serde-saphyr`. Its limits stop YAML bombs, but not large files.

use serde::de::{DeserializeOwned, DeserializeSeed as _};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Options};

use crate::error::{offset_of, readable_type};
use crate::problem::{Position, Problem};
use crate::seek::{AtEnd, Path, Seek};

/// Maximum depth of nesting. weir's files have about eight levels. The parser is recursive, so deep nesting would
/// overflow its stack.
const DEPTH_MAX: usize = 32;

/// Maximum number of parser events (scalars, starts and ends) per file. A route has about ten events, so this allows
/// millions of routes.
const EVENTS_MAX: usize = 100_000_000;

/// Maximum number of events that aliases add, because they can expand a small file to a large one.
const ALIAS_EVENTS_MAX: usize = 2_000_000;

pub(crate) fn read<T: DeserializeOwned>(source_name: &str, text: &str) -> Result<T, Problem<Position>> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| located(source_name, text, &error))
}

/// Reads the value at the path of `seek`, and returns the error that stopped the reader. A valid value also stops it
/// with an error (see [`Seek`]). `None` if the value is missing.
pub(crate) fn seek<P: Path, E: AtEnd>(
    source_name: &str,
    text: &str,
    seek: Seek<'_, P, E>,
) -> Option<Problem<Position>> {
    let read = |document: serde_saphyr::Deserializer<'_, '_>| seek.deserialize(document);
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), read);
    read.err().map(|error| located(source_name, text, &error))
}

/// The YAML options of all readers in this crate.
pub(crate) fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_aliases: ALIAS_EVENTS_MAX,
            max_anchors: ALIAS_EVENTS_MAX,
            max_merge_keys: ALIAS_EVENTS_MAX,
            max_recorded_anchor_events: ALIAS_EVENTS_MAX,
            max_recorded_anchor_bytes: 1 << 30,
            max_total_scalar_bytes: 1 << 30,
            max_total_comment_bytes: 1 << 30,
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            // A hundred thousand routes can use one anchor; this is not an attack.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIAS_EVENTS_MAX },
        strict_booleans: true,
        with_snippet: false,
    }
}

fn located(source_name: &str, text: &str, error: &Error) -> Problem<Position> {
    let error = error.without_snippet();
    let (line, column) = match error.location() {
        Some(place) if place.line() > 0 => (place.line(), place.column()),
        _ => (0, 0),
    };
    // If the tab follows a plain value, the parser reports the end of the value, although the tab is on a later line.
    let (line, column) = match error.to_string().contains("found a tab") {
        true => tab_from(text, line).unwrap_or((line, column)),
        false => (line, column),
    };
    let here = Here {
        line: text.lines().nth(line.saturating_sub(1) as usize).unwrap_or(""),
        rest: offset_of(text, line, column).map_or("", |start| &text[start..]),
    };
    problem(error, here).located(source_name, text, line, column)
}

/// The position of the first tab in the indentation of `line` or a later line.
fn tab_from(text: &str, line: u64) -> Option<(u64, u64)> {
    let lines = (1_u64..).zip(text.lines()).skip_while(|(number, _)| *number < line);
    let indented = lines.map(|(number, text)| (number, text.chars().take_while(|c| *c == ' ').count(), text));
    let mut tabs = indented.filter(|(_, spaces, text)| text[*spaces..].starts_with('\t'));
    tabs.next().map(|(number, spaces, _)| (number, spaces as u64 + 1))
}

/// The text around the position of an error.
#[derive(Clone, Copy)]
struct Here<'a> {
    /// The whole line with the position.
    line: &'a str,
    /// The text from the position to the end of the document.
    rest: &'a str,
}

impl Here<'_> {
    /// Describes the value at the position, as the parser would.
    fn value(&self) -> String {
        match self.rest.chars().next() {
            Some('[') => "a list".to_owned(),
            Some('-') if self.rest.starts_with("- ") => "a list".to_owned(),
            Some('{') => "a mapping".to_owned(),
            Some(_) => {
                let line = self.rest.lines().next().unwrap_or("");
                let end = line.find([',', '}', ']', '#']).unwrap_or(line.len());
                format!("`{}`", line[..end].trim())
            }
            None => "nothing".to_owned(),
        }
    }
}

fn problem(error: &Error, here: Here<'_>) -> Problem<()> {
    let owned = |names: &[&'static str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match error {
        Error::SerdeUnknownField { field, expected, .. } => Problem::unknown_field(field, &owned(expected)),
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            Problem::unknown_variant(variant, &owned(expected))
        }
        Error::SerdeMissingField { field, .. } => Problem::missing_field(field),
        Error::DuplicateMappingKey { key, .. } => Problem::duplicate_key(key.as_deref().unwrap_or("a key")),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            Problem::wrong_type(&readable_type(unexpected), &readable_type(expected))
        }
        Error::SerdeInvalidLength { len, expected, .. } => {
            Problem::wrong_type(&format!("a length of {len}"), expected)
        }
        Error::InvalidScalar { ty, .. } => Problem::wrong_type(&here.value(), &readable_type(ty)),
        Error::InvalidBooleanStrict { .. } => Problem::wrong_type(&here.value(), &readable_type("bool")),
        Error::NullIntoString { .. } => Problem::wrong_type("an empty value", "a string"),
        Error::Unexpected { expected, .. } => Problem::wrong_type(&here.value(), &readable_type(expected)),
        Error::Message { msg, .. } | Error::SerdeVariantId { msg, .. } => Problem::from_text(msg),
        Error::MultipleDocuments { .. } => {
            Problem::new("a second document starts here", "keep one document and remove what follows `---`")
        }
        Error::UnknownAnchor { .. } => {
            Problem::new("an alias without an anchor", "define the anchor first with `&name`")
        }
        Error::AliasError { error, .. } => problem(error.without_snippet(), here),
        Error::Budget { breach, .. } => over_budget(breach),
        Error::ExternalMessage { msg, .. } => syntax(msg, here.line),
        Error::Eof { .. } => Problem::new(
            "the document ends too early",
            "add what is missing, for example a bracket or a quote",
        ),
        other => syntax(&other.to_string(), here.line),
    }
}

fn over_budget(breach: &BudgetBreach) -> Problem<()> {
    match breach {
        BudgetBreach::Depth { .. } => {
            Problem::new("nested too deeply", format!("nest at most {DEPTH_MAX} levels"))
        }
        other => Problem::new(
            format!("the file is too large or uses too many aliases: {other:?}"),
            "make the file smaller, or use fewer aliases",
        ),
    }
}

/// Describes an error of the YAML scanner.
fn syntax(message: &str, line: &str) -> Problem<()> {
    let message = message.trim().trim_end_matches('.');
    if line.trim_start_matches(' ').starts_with('\t') {
        return Problem::new("a tab in the indentation", "indent with spaces");
    }
    if message.contains("recursion") || message.contains("nesting") || message.contains("depth") {
        return Problem::new("nested too deeply", format!("nest at most {DEPTH_MAX} levels"));
    }
    Problem::new(
        message,
        "check the indentation, the colons and the quotes of this line and the one before it",
    )
}
