//! The reference page of a document: a list of all its fields.

use serde_json::Value;

use crate::markdown::{page, table};

mod flow;
mod forms;
mod kind;
mod schema;
mod writer;

use writer::Writer;

/// A document, such as a scenario, whose fields a page lists.
#[derive(Clone, Copy, Debug)]
pub struct Document<'d> {
    /// Title of the page.
    pub title: &'d str,
    /// Text before the first table, in Markdown.
    pub introduction: &'d str,
    /// The JSON Schema (2020-12) of the document. Each type in its `$defs`, even a recursive one, becomes a section of
    /// the page.
    pub schema: &'d Value,
    /// Names of text formats. Each entry is a pattern in the schema, and the name that the page shows for it, like
    /// `host`.
    pub forms: &'d [(&'d str, &'d str)],
    /// Whether the user or the program writes the document.
    pub use_of: Use,
}

/// The writer of a document: the user or the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The user writes the document. The page shows defaults, and examples if the schema has some.
    Read,
    /// The program, not the user, writes the document. Its reference page shows which fields can be missing.
    Written,
}

impl Document<'_> {
    /// Returns the page: one section per type, and then the forms of values.
    ///
    /// A table cell is empty only if the schema has no description or no default for the field.
    pub fn to_markdown(&self) -> String {
        let mut writer = Writer::new(self);
        let mut body = writer.top();
        while let Some(section) = writer.next_section() {
            body += "\n";
            body += &section;
        }
        if !writer.values.is_empty() {
            let rows = writer.values.into_iter().map(|(name, description)| vec![name, description]);
            body += &format!("\n## {VALUES}\n{}", table(&["type", "meaning"], rows));
        }
        page(self.title, self.introduction, &body)
    }
}

/// The heading of the section about forms of values.
const VALUES: &str = "Forms of values";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::markdown::slug;

    fn schema() -> Value {
        let time = "a time with its unit, like 20ms";
        json!({
            "properties": {
                "name": { "type": "string", "description": "The name." },
                "hosts": {
                    "type": "array", "items": { "type": "string", "pattern": "^h$" },
                    "description": "Hosts.", "default": [], "examples": [["a.test"]]
                },
                "pause": { "$ref": "#/$defs/ThinkTime", "description": "Pause, `a|b`.", "default": "20ms" },
                "load": { "anyOf": [{ "$ref": "#/$defs/Load" }, { "type": "null" }], "description": "Load." },
                "model": { "$ref": "#/$defs/Model", "description": "Model.", "default": "open" },
                "step": { "$ref": "#/$defs/Step", "description": "Step.", "x-default": "nothing" },
                "api": {
                    "anyOf": [{ "$ref": "#/$defs/Own" }, { "$ref": "#/$defs/Other" }],
                    "description": "API.", "x-default": "its own"
                },
                "share": { "type": ["number", "null"], "maximum": 0.5, "description": "Share." },
                "is_fast": { "type": "boolean", "description": "Fast." },
                "extra": { "description": "Anything." },
                "limit": { "type": "integer", "minimum": 1, "x-unit": "threads", "description": "Limit." }
            },
            "required": ["name"],
            "$defs": {
                "ThinkTime": { "type": "string", "description": time },
                "Load": {
                    "type": "object", "description": "A load.",
                    "properties": {
                        "then": { "anyOf": [{ "$ref": "#/$defs/Load" }, { "type": "null" }], "description": "Next." },
                        "set": { "type": "object", "additionalProperties": true, "description": "Set." }
                    }
                },
                "Model": { "oneOf": [
                    { "const": "open", "description": "Open loop." },
                    { "const": "closed", "description": "Closed loop." }
                ] },
                "Step": { "description": "A step.", "oneOf": [
                    { "const": "wait", "description": "Waits." },
                    { "type": "object", "description": "Starts.", "properties": { "start": { "type": "string" } } },
                    { "type": "object", "description": "Ends.", "properties": { "end": { "const": true } } },
                    { "type": "object", "description": "Renders.", "properties": { "render": {
                        "type": "object", "required": ["to"], "properties": {
                            "to": { "type": "string", "description": "File." },
                            "from": { "type": ["string", "null"], "description": "Template." }
                        }
                    } } },
                    { "type": "object", "description": "Failed.", "properties": {
                        "kind": { "const": "failed" },
                        "cause": { "type": "string", "description": "Cause." }
                    }, "required": ["kind", "cause"] }
                ] },
                "Own": { "properties": { "on": { "type": "string", "description": "On." } }, "required": ["on"] },
                "Other": { "properties": { "at": { "type": "string", "description": "At." } }, "required": ["at"] }
            }
        })
    }

    fn page_of(use_of: Use) -> String {
        let forms = [("^h$", "host")];
        Document { title: "T", introduction: "I.", schema: &schema(), forms: &forms, use_of }.to_markdown()
    }

    #[test]
    fn fields_have_type_default_meaning_and_example() {
        let page = page_of(Use::Read);
        for row in [
            "| `name` | text | required | The name. |  |",
            "| `hosts` | list of host | none | Hosts. | `hosts: [a.test]` |",
            "| `pause` | [think time](#forms-of-values) | `20ms` | Pause, `a\\|b`. | `pause: 20ms` |",
            "| `load` | [mapping](#load) | none | Load. |  |",
            "| `model` | `open` or `closed` | `open` | Model. `open`: Open loop. `closed`: Closed loop. | `model: open` |",
            "| `step` | [one of several forms](#step) | nothing | Step. |  |",
            "| `api` | [mapping](#api) or [mapping](#api-with-at) | its own | API. |  |",
            "| `share` | number (at most 0.5) | none | Share. |  |",
            "| `is_fast` | `true` or `false` | `false` | Fast. |  |",
            "| `extra` | any value | none | Anything. |  |",
            "| `limit` | whole number of threads (at least 1) |  | Limit. |  |",
            "| `then` | [mapping](#load) | none | Next. |  |",
            "| `set` | mapping of names to any value | none | Set. |  |",
            "| `wait` | Waits. |",
            "| `start`: text | Starts. |",
            "| `end: true` | Ends. |",
            "| `render`: [mapping](#steprender) | Renders. |",
            "| [`kind: failed`](#step-with-kind-failed) | Failed. |",
            "| `from` | text | none | Template. |  |",
            "| `kind` | `failed` | required | Identifies this form. |  |",
            "| think time | a time with its unit, like 20ms |",
        ] {
            assert!(page.contains(&format!("\n{row}\n")), "{row} is not in {page}");
        }
    }

    #[test]
    fn written_documents_have_no_defaults() {
        let page = page_of(Use::Written);
        for row in [
            "| field | type | present | meaning |",
            "| `name` | text | always | The name. |",
            "| `share` | number (at most 0.5) | can be missing | Share. |",
        ] {
            assert!(page.contains(&format!("\n{row}\n")), "{row} is not in {page}");
        }
    }

    #[test]
    fn links_lead_to_one_section() {
        let page = page_of(Use::Read);
        let slugs: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(slug).collect();
        let links: Vec<&str> =
            page.split("](#").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).collect();
        assert!(links.len() > 7);
        for link in links {
            assert_eq!(slugs.iter().filter(|slug| *slug == link).count(), 1, "{link}: {slugs:?}");
        }
    }
}
