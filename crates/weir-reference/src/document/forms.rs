//! Types with several alternative forms: words, and mappings with different fields.

use serde_json::Value;

use super::flow::flow;
use super::schema::{choices, description};
use super::writer::Writer;

impl<'s> Writer<'s> {
    /// One row for each form: how it is written, and what it means.
    pub(super) fn forms(&mut self, schema: &'s Value, place: &str) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for choice in choices(schema) {
            let meaning = description(choice).unwrap_or_default();
            rows.push(vec![self.form(choice, place), meaning]);
        }
        rows
    }

    fn form(&mut self, choice: &'s Value, place: &str) -> String {
        let fields = choice["properties"].as_object();
        let tag = fields.and_then(|fields| fields.iter().find(|(_, field)| field.get("const").is_some()));
        match (fields.map(|fields| (fields.len(), fields.iter().next())), tag) {
            (Some((1, _)), Some((name, field))) => format!("`{name}: {}`", flow(&field["const"])),
            (Some((1, Some((name, field)))), None) => {
                format!("`{name}`: {}", self.kind(field, &format!("{place}.{name}")))
            }
            (Some(_), Some((name, field))) => {
                let tag = format!("{name}: {}", flow(&field["const"]));
                let anchor = self.open(format!("`{place}` with `{tag}`"), place, choice);
                format!("[`{tag}`](#{anchor})")
            }
            _ => self.kind(choice, place),
        }
    }
}
