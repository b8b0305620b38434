//! Reads a configuration with errors part by part: keeps the valid parts and reports each invalid one.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use weir_config::{Configuration, Key};
use weir_document::{Part, Position, Problem, wrong_part};

use crate::problem::problems_max;

/// The field whose elements are listeners.
const LISTENERS: &str = "listeners";

/// Fields that users may write into the configuration by mistake, each with the command-line option to use instead.
const OPTIONS: [(&str, &str); 3] =
    [("admin", "--admin ADDR"), ("runtime_dir", "--runtime-dir DIR"), ("watch", "--watch")];

/// A document, read as far as possible.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The valid parts. Harmless placeholders replace invalid list elements, so that the positions of the others do not
    /// change.
    pub(crate) configuration: Configuration,
    /// The keys of the resources that the invalid parts define.
    pub(crate) unread: BTreeSet<Key>,
    /// The errors of the invalid parts that were examined.
    pub(crate) errors: Vec<Problem<Position>>,
    /// The number of further invalid parts, which were not examined.
    pub(crate) skipped: usize,
}

/// Reads `text`, the content of the file `name`. If it is invalid as a whole, reads each part separately.
///
/// # Errors
/// If the text is not a document that can be split into parts.
pub(crate) fn read(name: &str, text: &str) -> Result<Parts, Problem<Position>> {
    match weir_document::read(name, text) {
        Ok(configuration) => {
            Ok(Parts { configuration, unread: BTreeSet::new(), errors: Vec::new(), skipped: 0 })
        }
        Err(whole) => read_apart(name, text).ok_or(whole),
    }
}

/// Reads every part separately. `None` if all parts are valid, or if the document has no parts.
fn read_apart(name: &str, text: &str) -> Option<Parts> {
    let document: Map<String, Value> = weir_document::read(name, text).ok()?;
    let mut apart = Apart { name, text, errors: Vec::new(), skipped: 0, unread: BTreeSet::new() };
    let mut good = Map::new();
    for (field, value) in document {
        if let Some(value) = apart.take(&field, value) {
            good.insert(field, value);
        }
    }
    let configuration = serde_json::from_value(Value::Object(good)).ok()?;
    let Apart { errors, skipped, unread, .. } = apart;
    (!errors.is_empty()).then_some(Parts { configuration, unread, errors, skipped })
}

/// The parts that were examined so far.
struct Apart<'d> {
    name: &'d str,
    text: &'d str,
    errors: Vec<Problem<Position>>,
    skipped: usize,
    unread: BTreeSet<Key>,
}

impl Apart<'_> {
    /// Returns the valid parts of `value`, the content of `field`; `None` if `value` is rejected as a whole.
    fn take(&mut self, field: &str, value: Value) -> Option<Value> {
        if fits(field, &value) {
            return Some(value);
        }
        match value {
            Value::Array(elements) => self.take_list(field, elements),
            Value::Object(entries) if fits(field, &json!({})) => Some(self.take_mapping(field, entries)),
            _ => {
                self.refuse(Part::Field(field), Key::Settings);
                None
            }
        }
    }

    fn take_list(&mut self, field: &str, elements: Vec<Value>) -> Option<Value> {
        let harmless = [json!({}), json!({ "address": "127.0.0.1:0" })];
        let harmless = harmless.into_iter().find(|element| fits(field, &json!([element])));
        let Some(harmless) = harmless else {
            self.refuse(Part::Field(field), Key::Settings);
            return None;
        };
        let each = elements.into_iter().enumerate().map(|(position, element)| {
            let alone = Value::Array(vec![element]);
            if fits(field, &alone) {
                return alone[0].clone();
            }
            let key = format!("{field}[{position}]");
            let key = if field == LISTENERS { Key::Listener(key) } else { Key::Route(key) };
            self.refuse(Part::Element(field, position), key);
            harmless.clone()
        });
        Some(each.collect())
    }

    fn take_mapping(&mut self, field: &str, entries: Map<String, Value>) -> Value {
        let good = entries.into_iter().filter(|(name, value)| {
            let is_good = fits(field, &json!({ name: value }));
            if !is_good {
                let key = if field == "backends" { Key::Backend(name.clone()) } else { Key::Settings };
                self.refuse(Part::Entry(field, name), key);
            }
            is_good
        });
        Value::Object(good.collect())
    }

    /// Records that a part is invalid, and therefore not read. If the document reader finds an error in the part, adds
    /// this error. Once the maximum number of errors is reached, counts the part as skipped instead.
    fn refuse(&mut self, part: Part<'_>, key: Key) {
        match self.errors.len() < problems_max(self.text) {
            true => {
                let wrong = wrong_part::<Configuration>(self.name, self.text, part, &[]);
                self.errors.extend(wrong.map(|error| with_option(part, error)));
            }
            false => self.skipped += 1,
        }
        self.unread.insert(key);
    }
}

/// Suggests the command-line option as the remedy if `part` is a field that exists only as an option.
fn with_option(part: Part<'_>, error: Problem<Position>) -> Problem<Position> {
    let option = OPTIONS.iter().find(|(name, _)| matches!(part, Part::Field(field) if field == *name));
    let Some((_, option)) = option else { return error };
    error.help(format!("use the command-line option `{option}`"))
}

/// Whether a configuration with only this field is valid.
fn fits(field: &str, value: &Value) -> bool {
    serde_json::from_value::<Configuration>(json!({ field: value })).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "listeners:
  - { address: 127.0.0.1:1 }
  - { adress: 127.0.0.1:2 }
wokers: 1
routes:
  - { path: /a, backend: b }
  - { pth: /b, backend: b }
  - { exact: [/c], backend: b, timeouts: { request: 10 } }
backends:
  b: { endpoints: [127.0.0.1:9] }
  c: { endpoints: [here] }
limits: { head: 1KiB, fields: many, body: 10 }
";

    #[test]
    fn reports_every_invalid_part_and_keeps_the_others() {
        let parts = read("a.yaml", TEXT).unwrap();
        let reported: Vec<String> = parts.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "a.yaml:3:7: unknown field `adress`",
                "a.yaml:4:1: unknown field `wokers`",
                "a.yaml:7:7: unknown field `pth`",
                "a.yaml:8:53: `10` has no unit",
                "a.yaml:11:20: `here` is not an IP address or a host name with a port",
                "a.yaml:12:31: `many` is not a whole number (0 or more)",
                "a.yaml:12:43: `10` has no unit",
            ]
        );
        let Configuration { listeners, routes, backends, limits, .. } = &parts.configuration;
        assert_eq!((listeners.len(), routes.len(), backends.len()), (2, 3, 1));
        assert_eq!((listeners[0].address.port(), routes[0].path.as_deref()), (1, Some("/a")));
        assert_eq!((limits.head.0, limits.fields), (1 << 10, 100));
        let unread: Vec<&str> = parts.unread.iter().map(Key::name).collect();
        assert_eq!(unread, ["settings", "listeners[1]", "c", "routes[1]", "routes[2]"]);
    }

    #[test]
    fn examines_only_the_first_invalid_parts() {
        let text = format!("listeners: []\nroutes:\n{}", "  - { pth: / }\n".repeat(100));
        let parts = read("a.yaml", &text).unwrap();
        assert_eq!((parts.errors.len(), parts.skipped, parts.unread.len()), (32, 68, 100));
    }

    #[test]
    fn reports_a_syntax_error_once() {
        let error = read("a.yaml", "listeners: [\n").unwrap_err();
        assert!(error.place.line > 0, "{error}");
    }
}
