//! The reference of a configuration as Markdown, generated from its JSON Schema.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use crate::model::forms::{ADDRESS, HOST, HOST_OR_ANY, PATH, TOKEN};
use crate::schema::schema;

mod flow;

use flow::flow;

const INTRODUCTION: &str = "\
# Every field of weir-gateway's configuration
Look up the type, default and meaning of a field. `weir-gateway reference` generates this page, and `weir-gateway schema` \
prints the same as JSON Schema, for editors. How the fields work together is described in [gateway.md](gateway.md), \
[filters.md](filters.md) and [tls.md](tls.md).

A file is one document, YAML or JSON. Unknown fields are errors.
";

const HEAD: &str = "| field | type | default | meaning | example |\n|---|---|---|---|---|\n";

/// The section on quantities.
const QUANTITIES: &str = "Times, sizes and shares";

/// Names of text forms, by pattern.
const FORMS: [(&str, &str); 5] = [
    (ADDRESS, "IP address and port"),
    (HOST, "host"),
    (HOST_OR_ANY, "host or `*`"),
    (PATH, "path"),
    (TOKEN, "name"),
];

/// Every field of a configuration: type, unit, default, meaning, example.
pub fn reference() -> String {
    let schema = schema();
    let mut writer = Writer { root: &schema, titles: BTreeMap::new(), waiting: VecDeque::new() };
    let mut text = INTRODUCTION.to_owned();
    text += &writer.section("The document", "", &schema);
    while let Some((place, section)) = writer.waiting.pop_front() {
        text += &writer.section(&format!("`{place}`"), &place, section);
    }
    text + &writer.quantities()
}

struct Writer<'s> {
    root: &'s Value,
    /// Titles of sections by type.
    titles: BTreeMap<&'s str, String>,
    /// Sections that are linked and not written yet.
    waiting: VecDeque<(String, &'s Value)>,
}

impl<'s> Writer<'s> {
    /// The section of a mapping at `place`.
    fn section(&mut self, title: &str, place: &str, section: &'s Value) -> String {
        let mut text = format!("\n## {title}\n");
        // The introduction describes the whole document.
        if let Some(description) = description(section).filter(|_| !place.is_empty()) {
            text += &format!("{description}\n\n");
        }
        text += HEAD;
        for (name, field) in section["properties"].as_object().into_iter().flatten() {
            let is_required = array(&section["required"]).any(|required| required == name.as_str());
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            let kind = self.kind(field, &place);
            let default = default_of(field, is_required);
            let (meaning, example) = (self.meaning(field), self.example(name, field));
            text += &format!("| `{name}` | {kind} | {default} | {meaning} | {example} |\n");
        }
        text
    }

    /// The type of a value, with a link to its section if it has one.
    fn kind(&mut self, schema: &'s Value, place: &str) -> String {
        if let Some(name) = reference_in(schema) {
            return self.named_kind(name, place);
        }
        if let Some(choices) = schema.get("enum") {
            return listed(&array(choices).map(|value| format!("`{}`", flow(value))).collect::<Vec<_>>());
        }
        if let Some(value) = schema.get("const") {
            return format!("`{}`", flow(value));
        }
        let choices: Vec<&Value> = choices(schema).collect();
        if !choices.is_empty() {
            let kinds: Vec<String> = choices.into_iter().map(|choice| self.kind(choice, place)).collect();
            return listed(&kinds);
        }
        match kind_name(schema) {
            "array" => format!("list of {}", self.kind(&schema["items"], &format!("{place}[]"))),
            "object" => self.mapping(schema, place),
            "integer" => number(schema),
            "boolean" => "`true` or `false`".to_owned(),
            "string" => {
                let form = FORMS.iter().find(|(pattern, _)| schema["pattern"] == *pattern);
                form.map_or("text", |(_, form)| form).to_owned()
            }
            other => other.to_owned(),
        }
    }

    fn named_kind(&mut self, name: &'s str, place: &str) -> String {
        let named = &self.root["$defs"][name];
        if is_quantity(named) {
            return format!("[{}](#{})", name.to_lowercase(), slug(QUANTITIES));
        }
        if named.get("properties").is_none() {
            return self.kind(named, place);
        }
        if !self.titles.contains_key(name) {
            self.titles.insert(name, place.to_owned());
            self.waiting.push_back((place.to_owned(), named));
        }
        format!("[mapping](#{})", slug(&self.titles[name]))
    }

    /// A mapping without a type name: from names to values, or with a few fields.
    fn mapping(&mut self, schema: &'s Value, place: &str) -> String {
        match schema["properties"].as_object() {
            None => {
                let values = self.kind(&schema["additionalProperties"], &format!("{place}.NAME"));
                format!("mapping of names to: {values}")
            }
            Some(fields) => {
                let fields =
                    fields.iter().map(|(name, field)| format!("{name}: {}", self.kind(field, place)));
                // Code spans cannot be nested.
                format!("`{{ {} }}`", fields.collect::<Vec<_>>().join(", ").replace('`', ""))
            }
        }
    }

    /// The description of a field, and of each of its keywords.
    fn meaning(&self, field: &'s Value) -> String {
        let mut meaning = description(field).unwrap_or_default();
        let named = array(&field["anyOf"]).find_map(reference_in).or_else(|| reference_in(field));
        let choices = named.map(|name| &self.root["$defs"][name]["oneOf"]);
        for choice in choices.into_iter().flat_map(array) {
            if let (Some(word), Some(description)) = (choice.get("const"), description(choice)) {
                meaning += &format!(" `{}`: {}", flow(word), description);
            }
        }
        meaning.replace('|', "\\|")
    }

    /// The first example, else the default, else the first keyword.
    fn example(&self, name: &str, field: &'s Value) -> String {
        let given = array(&field["examples"]).next();
        let default = field.get("default").filter(|default| !is_nothing(default) && !default.is_object());
        let word = || {
            let named = reference_in(field).map(|name| &self.root["$defs"][name]["oneOf"])?;
            array(named).find_map(|choice| choice.get("const"))
        };
        match given.or(default).or_else(word) {
            Some(value) => format!("`{name}: {}`", flow(value)).replace('|', "\\|"),
            None => String::new(),
        }
    }

    fn quantities(&self) -> String {
        let mut text = format!("\n## {QUANTITIES}\n| type | is |\n|---|---|\n");
        for (name, named) in self.root["$defs"].as_object().into_iter().flatten() {
            if let Some(description) = description(named).filter(|_| is_quantity(named)) {
                text += &format!("| {} | {description} |\n", name.to_lowercase());
            }
        }
        text
    }
}

/// The type that a schema refers to.
fn reference_in(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Whether it is a number with a unit, whose description lists its forms.
fn is_quantity(named: &Value) -> bool {
    named["description"].as_str().is_some_and(|description| description.contains(" with its unit, like "))
}

/// The alternatives except `null`.
fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let choices = array(&schema["anyOf"]).chain(array(&schema["oneOf"]));
    choices.filter(|choice| choice["type"] != "null")
}

/// The name of its type, except `null`.
fn kind_name(schema: &Value) -> &str {
    let kind = &schema["type"];
    let several = array(kind).filter_map(Value::as_str).find(|name| *name != "null");
    kind.as_str().or(several).unwrap_or("anything")
}

/// A number with its unit and range.
fn number(schema: &Value) -> String {
    let of = schema["x-unit"].as_str().map_or(String::new(), |unit| format!(" of {unit}"));
    let bounds = match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    };
    format!("whole number{of}{bounds}")
}

fn default_of(field: &Value, is_required: bool) -> String {
    match (field.get("x-default"), field.get("default")) {
        _ if is_required => "required".to_owned(),
        (Some(Value::String(words)), _) => words.clone(),
        (Some(value), _) => format!("`{}`", flow(value)),
        (None, Some(value)) if !is_nothing(value) => format!("`{}`", flow(value)),
        _ => "none".to_owned(),
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The description on one line.
fn description(schema: &Value) -> Option<String> {
    let text = schema["description"].as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `a, b or c`
fn listed(words: &[String]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// The anchor of a heading.
fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_type_and_a_meaning() {
        let reference = reference();
        let rows: Vec<Vec<&str>> = reference
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect())
            .collect();
        assert!(rows.len() > 80, "{reference}");
        for row in rows {
            assert_eq!(row.len(), 5, "{row:?}");
            assert!(!row[1].contains("anything") && row[..4].iter().all(|cell| !cell.is_empty()), "{row:?}");
        }
    }

    #[test]
    fn links_lead_to_sections() {
        let reference = reference();
        let titles = reference.lines().filter_map(|line| line.strip_prefix("## "));
        let slugs: Vec<String> = titles.map(slug).collect();
        let links: Vec<&str> = reference
            .split("](#")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(link, _)| link)
            .collect();
        assert!(links.len() > 20);
        for link in links {
            assert_eq!(slugs.iter().filter(|slug| *slug == link).count(), 1, "{link}");
        }
    }
}
