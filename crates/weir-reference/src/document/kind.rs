//! Describes the type of a value in words.

use serde_json::Value;

use super::VALUES;
use super::flow::flow;
use super::schema::{array, choices, description, is_of_forms, reference_in, type_names, values, words};
use super::writer::Writer;
use crate::markdown::{listed, slug};

impl<'s> Writer<'s> {
    /// Describes the type of a value at `place`. If the type has a section, the description is a link to it.
    pub(super) fn kind(&mut self, schema: &'s Value, place: &str) -> String {
        match &self.kinds(schema, place)[..] {
            [] => "any value".to_owned(),
            kinds => listed(kinds),
        }
    }

    /// Describes each type that a value at `place` can have.
    fn kinds(&mut self, schema: &'s Value, place: &str) -> Vec<String> {
        if let Some(name) = reference_in(schema) {
            return self.named_kinds(name, place);
        }
        if let Some(words) = schema.get("enum") {
            return array(words).map(|word| format!("`{}`", flow(word))).collect();
        }
        if let Some(word) = schema.get("const") {
            return vec![format!("`{}`", flow(word))];
        }
        if choices(schema).next().is_some() {
            return choices(schema).flat_map(|choice| self.kinds(choice, place)).collect();
        }
        type_names(schema).into_iter().map(|name| self.simple_kind(name, schema, place)).collect()
    }

    fn named_kinds(&mut self, name: &'s str, place: &str) -> Vec<String> {
        let named = self.definition(name);
        if is_of_forms(named) {
            let what = if words(named).len() == choices(named).count() { "words" } else { "forms" };
            return vec![format!("[one of several {what}](#{})", self.anchor_of(name, place, named))];
        }
        if named.get("properties").is_some() {
            return vec![format!("[mapping](#{})", self.anchor_of(name, place, named))];
        }
        match description(named).filter(|description| is_value(named, description)) {
            Some(description) => {
                let words = in_words(name);
                self.values.insert(words.clone(), description);
                vec![format!("[{words}](#{})", slug(VALUES))]
            }
            None => self.kinds(named, place),
        }
    }

    fn simple_kind(&mut self, name: &str, schema: &'s Value, place: &str) -> String {
        match name {
            "array" => match schema.get("items") {
                Some(items) => {
                    let kind = self.kind(items, &format!("{place}[]"));
                    format!("list of {}", kind.replacen("mapping of", "mappings of", 1))
                }
                None => "list".to_owned(),
            },
            "object" => self.mapping(schema, place),
            "integer" => number("whole number", schema),
            "boolean" => "`true` or `false`".to_owned(),
            "string" => {
                let form = self.document.forms.iter().find(|(pattern, _)| schema["pattern"] == *pattern);
                form.map_or("text", |(_, form)| form).to_owned()
            }
            "number" => number("number", schema),
            other => other.to_owned(),
        }
    }

    /// Describes a mapping without a named type. It maps arbitrary names to values, or has fields of its own.
    fn mapping(&mut self, schema: &'s Value, place: &str) -> String {
        match schema["properties"].as_object().map(|fields| (fields.len(), fields.iter().next())) {
            Some((1, Some((name, field)))) => {
                format!("{{ `{name}`: {} }}", self.kind(field, &format!("{place}.{name}")))
            }
            Some(_) => format!("[mapping](#{})", self.anchor(place, schema)),
            None => match values(schema) {
                Some(values) => {
                    format!("mapping of names to {}", self.kind(values, &format!("{place}.NAME")))
                }
                None => "mapping".to_owned(),
            },
        }
    }
}

/// Whether a named type is a text without fixed choices, or its description contains `with its unit, like`.
fn is_value(named: &Value, description: &str) -> bool {
    let is_text = type_names(named).contains(&"string");
    description.contains(" with its unit, like ") || is_text && named.get("enum").is_none()
}

/// Describes a number with its unit and its range.
fn number(name: &str, schema: &Value) -> String {
    let of = schema["x-unit"].as_str().map_or(String::new(), |unit| format!(" of {unit}"));
    let bound = |key: &str| schema[key].as_f64();
    let bounds = match (bound("minimum"), bound("maximum")) {
        (Some(minimum), Some(maximum)) => format!(" ({minimum} to {maximum})"),
        (Some(minimum), None) if minimum != 0.0 => format!(" (at least {minimum})"),
        (None, Some(maximum)) => format!(" (at most {maximum})"),
        _ => String::new(),
    };
    format!("{name}{of}{bounds}")
}

/// Converts a type name to words: `ThinkTime` becomes `think time`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
