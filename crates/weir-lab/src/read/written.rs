//! Reads the text of a scenario, and reports every invalid field.
//!
//! The document reader stops at the first error. This module removes the invalid field and reads the rest again, until
//! the rest is valid. The rest is JSON, so its positions differ from the original text: weir finds the position of a
//! later error by its path.

use serde_json::Value;
use weir_document::{Position, Problem, place, place_of_key};

use super::overlay;
use crate::check::reserved;
use crate::scenario::Scenario;
use crate::{LabError, Source};

/// Maximum number of errors that are reported at once.
const ERRORS_MAX: usize = 20;

/// Reads the scenario; fails with every invalid field, up to [`ERRORS_MAX`].
pub(crate) fn read(source: &Source) -> Result<Scenario, LabError> {
    let Source { name, text } = source;
    let raw: Value = weir_document::read(name, text)?;
    let mut rest = Rest { value: raw, removed: Vec::new() };
    let mut errors: Vec<Problem<Position>> = Vec::new();
    for path in reserved::find(&rest.value) {
        errors.push(reserved(source, &path));
        rest.remove(path, None);
    }
    let mut goes_on = true;
    if errors.is_empty() {
        match weir_document::read(name, text) {
            Ok(scenario) => return Ok(scenario),
            Err(error) => {
                goes_on = rest.without(&error, text);
                errors.push(error);
            }
        }
    }
    while goes_on && errors.len() < ERRORS_MAX {
        let json = rest.value.to_string();
        let Err(error) = weir_document::read::<Scenario>(name, &json) else { break };
        let follows = rest.cause_of_missing(&error, &json).is_some();
        let path = if missing_field(&error).is_none() { rest.path_of(&error, &json) } else { Vec::new() };
        goes_on = rest.without(&error, &json);
        if !follows {
            errors.push(located(source, error, &path));
        }
    }
    errors.sort_by_key(|error| (error.place.line, error.place.column));
    Err(LabError::of_all(errors.into_iter().map(LabError::from)))
}

/// The error for a field that is not supported yet.
fn reserved(source: &Source, path: &[String]) -> Problem<Position> {
    let Problem { message, remedy, .. } = reserved::error();
    let (line, column) = place(&source.text, path).unwrap_or((0, 0));
    let message = format!("{}: {message}", overlay::written(path));
    Problem::new(message, remedy).at(Position::new(&source.name, line, column))
}

/// Moves `error` from its position in [`Rest`] to the position of `path` in the original text.
fn located(source: &Source, error: Problem<Position>, path: &[String]) -> Problem<Position> {
    let found = match error.message.starts_with("unknown field") {
        true => place_of_key(&source.text, path),
        false => place(&source.text, path),
    };
    let (line, column) = found.unwrap_or((0, 0));
    error.moved_to(line, column)
}

/// The rest of a document, without the invalid fields found so far.
struct Rest {
    value: Value,
    removed: Vec<Removed>,
}

/// An invalid field that was removed.
struct Removed {
    path: Vec<String>,
    /// The name that the error suggests instead of the unknown name; `None` without a suggestion.
    meant: Option<String>,
}

impl Rest {
    /// Removes the field that `error` is about; returns whether that was possible.
    fn without(&mut self, error: &Problem<Position>, text: &str) -> bool {
        if missing_field(error).is_some() {
            return match self.cause_of_missing(error, text) {
                Some(map) => self.remove(map, None),
                None => false,
            };
        }
        let meant = error.remedy.strip_prefix("did you mean `").and_then(|name| name.strip_suffix("`?"));
        self.remove(self.path_of(error, text), meant.map(str::to_owned))
    }

    /// The path of the map from which weir removed the missing field, or a misspelling of it, after an earlier error.
    /// `None` if `error` has another cause.
    fn cause_of_missing(&self, error: &Problem<Position>, text: &str) -> Option<Vec<String>> {
        let field = missing_field(error)?;
        let path = self.path_of(error, text);
        let causes = self.removed.iter().filter_map(|removed| {
            let (last, map) = removed.path.split_last()?;
            let is_it = last == field || removed.meant.as_deref() == Some(field);
            (is_it && path.starts_with(map)).then(|| map.to_vec())
        });
        causes.max_by_key(Vec::len)
    }

    /// The path of the field that `error` is about; for a missing field, the path of the last field before the error's
    /// position.
    fn path_of(&self, error: &Problem<Position>, text: &str) -> Vec<String> {
        let target = (error.place.line, error.place.column);
        if let Some(field) = quoted(error, "unknown field `") {
            return first_named(&self.value, field, text, target).unwrap_or_default();
        }
        let mut path = Vec::new();
        deepest(&self.value, text, target, &mut path);
        path
    }

    fn remove(&mut self, path: Vec<String>, meant: Option<String>) -> bool {
        let Some((last, before)) = path.split_last() else { return false };
        let parent = before.to_vec();
        let is_removed = match at_mut(&mut self.value, before) {
            Some(Value::Object(map)) => {
                let is_removed = map.remove(last).is_some();
                // Also removes the map if it is now empty, because an empty map can be invalid.
                if is_removed && map.is_empty() && !parent.is_empty() {
                    self.remove(parent, None);
                }
                is_removed
            }
            // Removes the whole list: removing one entry would change the indexes of the following ones.
            Some(Value::Array(_)) => self.remove(parent, None),
            _ => false,
        };
        if is_removed {
            self.removed.push(Removed { path, meant });
        }
        is_removed
    }
}

fn missing_field(error: &Problem<Position>) -> Option<&str> {
    quoted(error, "missing field `")
}

fn quoted<'a>(error: &'a Problem<Position>, before: &str) -> Option<&'a str> {
    error.message.strip_prefix(before)?.strip_suffix('`')
}

/// Returns the path of the field `name` whose key is at the position `target`. This is the first field of that name
/// whose value begins after `target`.
fn first_named(value: &Value, name: &str, text: &str, target: (u64, u64)) -> Option<Vec<String>> {
    let mut paths = Vec::new();
    collect_named(value, name, &mut Vec::new(), &mut paths);
    let placed = paths.into_iter().filter_map(|path| Some((place(text, &path)?, path)));
    placed.filter(|(begin, _)| *begin > target).min_by_key(|(begin, _)| *begin).map(|(_, path)| path)
}

fn collect_named(value: &Value, name: &str, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (child, value) in children(value) {
        let is_field = child == name;
        path.push(child);
        if is_field {
            found.push(path.clone());
        }
        collect_named(value, name, path, found);
        path.pop();
    }
}

fn children(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(nth, value)| (nth.to_string(), value)).collect(),
        _ => Vec::new(),
    }
}

/// Extends `path` to the deepest field that begins at or before `target` in `text`.
fn deepest(value: &Value, text: &str, target: (u64, u64), path: &mut Vec<String>) {
    let begins = |name: &str| place(text, &[path.as_slice(), &[name.to_owned()]].concat());
    let before = children(value).into_iter().filter_map(|(name, value)| Some((begins(&name)?, name, value)));
    let Some((begin, name, value)) =
        before.filter(|(begin, ..)| *begin <= target).max_by_key(|(begin, ..)| *begin)
    else {
        return;
    };
    path.push(name);
    if begin < target {
        deepest(value, text, target, path);
    }
}

fn at_mut<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |here, name| match here {
        Value::Array(list) => list.get_mut(name.parse::<usize>().ok()?),
        other => other.get_mut(name),
    })
}
