//! Writes the sections of a page. A section describes the fields of a type, or its forms.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::flow::flow;
use super::schema::{array, can_be_null, description, is_any, is_of_forms, reference_in, words};
use super::{Document, Use};
use crate::markdown::{slug, table};

/// Writes one section after the other. If a section links to a type, the section of that type is put into the
/// queue.
pub(super) struct Writer<'s> {
    pub(super) document: &'s Document<'s>,
    has_examples: bool,
    /// The anchor of the section for each type.
    anchors: BTreeMap<&'s str, String>,
    titles: BTreeSet<String>,
    queue: VecDeque<Section<'s>>,
    /// Descriptions of types by name, for the section `Forms of values`.
    pub(super) values: BTreeMap<String, String>,
}

struct Section<'s> {
    title: String,
    /// Where in the document the type is used.
    place: String,
    schema: &'s Value,
}

impl<'s> Writer<'s> {
    pub(super) fn new(document: &'s Document<'s>) -> Self {
        let has_examples = document.use_of == Use::Read && has_examples(document.schema);
        let (anchors, titles) = (BTreeMap::new(), BTreeSet::new());
        Self { document, has_examples, anchors, titles, queue: VecDeque::new(), values: BTreeMap::new() }
    }

    /// Returns the section about the fields of the document itself.
    pub(super) fn top(&mut self) -> String {
        format!("## Top-level fields\n{}", self.fields(self.document.schema, ""))
    }

    /// Returns the next section of the queue; `None` if the queue is empty.
    pub(super) fn next_section(&mut self) -> Option<String> {
        let Section { title, place, schema } = self.queue.pop_front()?;
        let mut text = format!("## {title}\n");
        if let Some(description) = description(schema) {
            text += &format!("{description}\n\n");
        }
        if schema.get("properties").is_some() {
            text += &self.fields(schema, &place);
        }
        if is_of_forms(schema) {
            if schema.get("properties").is_some() {
                text += "\nAnd one of these forms:\n\n";
            }
            let rows = self.forms(schema, &place);
            text += &table(&["form", "meaning"], rows);
        }
        Some(text)
    }

    /// Returns the anchor of the section for a named type. Puts the section into the queue if it is new.
    pub(super) fn anchor_of(&mut self, name: &'s str, place: &str, schema: &'s Value) -> String {
        if let Some(anchor) = self.anchors.get(name) {
            return anchor.clone();
        }
        let anchor = self.anchor(place, schema);
        self.anchors.insert(name, anchor.clone());
        anchor
    }

    /// Returns the anchor of a new section for the type at `place`. If the title is already used, the new title also
    /// contains the first required field, or a number.
    pub(super) fn anchor(&mut self, place: &str, schema: &'s Value) -> String {
        let first = array(&schema["required"]).find_map(Value::as_str).unwrap_or_default();
        let titles = [format!("`{place}`"), format!("`{place}` with `{first}`")];
        let numbered = (2..).map(|number| format!("`{place}` ({number})"));
        let title = titles.into_iter().chain(numbered).find(|title| !self.titles.contains(title));
        self.open(title.unwrap_or_default(), place, schema)
    }

    /// Puts a section into the queue, and returns its anchor.
    pub(super) fn open(&mut self, title: String, place: &str, schema: &'s Value) -> String {
        let anchor = slug(&title);
        self.titles.insert(title.clone());
        self.queue.push_back(Section { title, place: place.to_owned(), schema });
        anchor
    }

    fn fields(&mut self, schema: &'s Value, place: &str) -> String {
        let mut head = match self.document.use_of {
            Use::Read => vec!["field", "type", "default", "meaning"],
            Use::Written => vec!["field", "type", "present", "meaning"],
        };
        head.extend(self.has_examples.then_some("example"));
        let mut rows = Vec::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = array(&schema["required"]).any(|required| required == name.as_str());
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            let presence = match self.document.use_of {
                Use::Read => self.default_of(field, is_required),
                Use::Written => presence(field, is_required).to_owned(),
            };
            let mut row = vec![format!("`{name}`"), self.kind(field, &place), presence, self.meaning(field)];
            row.extend(self.has_examples.then(|| self.example(name, field)));
            rows.push(row);
        }
        table(&head, rows)
    }

    /// Describes a field, and each word that it can have as a value.
    pub(super) fn meaning(&self, field: &Value) -> String {
        let of_tag = || field.get("const").map(|_| "Identifies this form.".to_owned());
        let mut meaning = description(field).or_else(of_tag).unwrap_or_default();
        for choice in self.words_of(field) {
            if let (Some(word), Some(description)) = (choice.get("const"), description(choice)) {
                meaning += &format!(" `{}`: {description}", flow(word));
            }
        }
        meaning
    }

    /// The words that are allowed as value of a field, or as elements of a list field. Empty if there are none, or if a
    /// separate section describes the field's type.
    fn words_of(&self, field: &Value) -> Vec<&'s Value> {
        let own = [field, &field["items"]];
        let mut referred = own.into_iter().chain(array(&field["anyOf"])).chain(array(&field["oneOf"]));
        let named = referred.find_map(reference_in).map(|name| self.definition(name));
        named.filter(|named| !is_of_forms(named)).map(words).unwrap_or_default()
    }

    /// An example of a field: the first example in the schema, or else the default, or else the first allowed word.
    fn example(&self, name: &str, field: &Value) -> String {
        let given = array(&field["examples"]).next();
        let default = field.get("default").filter(|default| !is_nothing(default) && !default.is_object());
        let words = self.words_of(field);
        let word = || words.first().and_then(|choice| choice.get("const"));
        match given.or(default).or_else(word) {
            Some(value) => format!("`{name}: {}`", flow(value)),
            None => String::new(),
        }
    }

    /// The text about the default of a field; empty if it has none.
    fn default_of(&self, field: &Value, is_required: bool) -> String {
        match (field.get("x-default"), field.get("default")) {
            _ if is_required => "required".to_owned(),
            (Some(Value::String(words)), _) => words.clone(),
            (Some(value), _) => format!("`{}`", flow(value)),
            (None, Some(value)) if is_nothing(value) => "none".to_owned(),
            (None, Some(Value::Object(_))) => "see its fields".to_owned(),
            (None, Some(value)) => format!("`{}`", flow(value)),
            (None, None) => self.implied_default(field).to_owned(),
        }
    }

    /// The default of a field if the schema contains none: the value that its type gives to a missing field.
    fn implied_default(&self, field: &Value) -> &'static str {
        let named = reference_in(field).map(|name| self.definition(name));
        let schema = named.unwrap_or(field);
        let is_a = |name: &str| schema["type"] == name;
        match () {
            () if can_be_null(field) || is_any(field) => "none",
            () if ["array", "object", "string"].into_iter().any(is_a) => "none",
            () if is_a("boolean") => "`false`",
            () => "",
        }
    }

    pub(super) fn definition(&self, name: &str) -> &'s Value {
        &self.document.schema["$defs"][name]
    }
}

fn presence(field: &Value, is_required: bool) -> &'static str {
    match (is_required, can_be_null(field)) {
        (true, false) => "always",
        (true, true) => "can be null",
        (false, _) => "can be missing",
    }
}

fn has_examples(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("examples") || fields.values().any(has_examples),
        Value::Array(elements) => elements.iter().any(has_examples),
        _ => false,
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value == ""
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}
