//! A configuration of which not everything can be read: the parts that can, and what is wrong with each of the others.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use weir_config::{Configuration, Key};
use weir_document::{Part, Position, Problem, wrong_part};

use crate::problem::problems_max;

/// The field whose elements are listeners.
const LISTENERS: &str = "listeners";

/// What concerns the process and not its configuration: the command line has it.
const OPTIONS: [(&str, &str); 3] =
    [("admin", "--admin ADDR"), ("runtime_dir", "--runtime-dir DIR"), ("watch", "--watch")];

/// What could be made of a document.
#[derive(Debug)]
pub(crate) struct Parts {
    /// What is right in form. In a list, harmless elements stand for those that are not, so that the others keep their
    /// places.
    pub(crate) configuration: Configuration,
    /// The resources that could not be made out.
    pub(crate) unread: BTreeSet<Key>,
    /// Why the first of them could not.
    pub(crate) errors: Vec<Problem<Position>>,
    /// How many others were not looked into.
    pub(crate) untold: usize,
}

/// Reads `text`, whose file is called `name`.
///
/// # Errors
/// When it is no document, so that nothing can be made of it.
pub(crate) fn read(name: &str, text: &str) -> Result<Parts, Problem<Position>> {
    match weir_document::read(name, text) {
        Ok(configuration) => {
            Ok(Parts { configuration, unread: BTreeSet::new(), errors: Vec::new(), untold: 0 })
        }
        Err(whole) => read_apart(name, text).ok_or(whole),
    }
}

/// Every part by itself. `None` where that finds nothing wrong, or where there are no parts.
fn read_apart(name: &str, text: &str) -> Option<Parts> {
    let document: Map<String, Value> = weir_document::read(name, text).ok()?;
    let mut apart = Apart { name, text, errors: Vec::new(), untold: 0, unread: BTreeSet::new() };
    let mut good = Map::new();
    for (field, value) in document {
        if let Some(value) = apart.take(&field, value) {
            good.insert(field, value);
        }
    }
    let configuration = serde_json::from_value(Value::Object(good)).ok()?;
    let Apart { errors, untold, unread, .. } = apart;
    (!errors.is_empty()).then_some(Parts { configuration, unread, errors, untold })
}

/// The parts that were looked at so far.
struct Apart<'d> {
    name: &'d str,
    text: &'d str,
    errors: Vec<Problem<Position>>,
    untold: usize,
    unread: BTreeSet<Key>,
}

impl Apart<'_> {
    /// What is good of a field's value.
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

    /// Finds out what is wrong with a part. What the document's own reader takes after all is not told, but not known
    /// either.
    fn refuse(&mut self, part: Part<'_>, key: Key) {
        match self.errors.len() < problems_max(self.text) {
            true => {
                let wrong = wrong_part::<Configuration>(self.name, self.text, part, &[]);
                self.errors.extend(wrong.map(|error| with_option(part, error)));
            }
            false => self.untold += 1,
        }
        self.unread.insert(key);
    }
}

/// The error, which tells the option of the command line where the part is one.
fn with_option(part: Part<'_>, error: Problem<Position>) -> Problem<Position> {
    let option = OPTIONS.iter().find(|(name, _)| matches!(part, Part::Field(field) if field == *name));
    let Some((_, option)) = option else { return error };
    error.help(format!("it is a command-line option: `{option}`"))
}

/// Whether a configuration can have this field.
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
    fn every_part_that_is_wrong_is_told_and_the_others_are_kept() {
        let parts = read("a.yaml", TEXT).unwrap();
        let told: Vec<String> = parts.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
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
    fn of_many_the_first_are_looked_into() {
        let text = format!("listeners: []\nroutes:\n{}", "  - { pth: / }\n".repeat(100));
        let parts = read("a.yaml", &text).unwrap();
        assert_eq!((parts.errors.len(), parts.untold, parts.unread.len()), (32, 68, 100));
    }

    #[test]
    fn what_is_no_document_is_one_error() {
        let error = read("a.yaml", "listeners: [\n").unwrap_err();
        assert!(error.place.line > 0, "{error}");
    }
}
