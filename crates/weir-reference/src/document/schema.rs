//! Extracts details of a value from its JSON Schema.

use serde_json::Value;

use crate::markdown::one_line;

/// Maximum number of alternative values that a table cell lists with their meanings.
const WORDS_MAX: usize = 6;

/// The name of the type to which a schema refers.
pub(super) fn reference_in(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

pub(super) fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The description of a type or field, on one line. It comes from a doc comment of the program. So a rustdoc link is
/// replaced with the last word of its path, and `None` is replaced with `null`.
pub(super) fn description(schema: &Value) -> Option<String> {
    let text = one_line(schema["description"].as_str()?).replace("`None`", "`null`");
    let mut pieces = text.split("[`");
    let mut plain = pieces.next()?.to_owned();
    for piece in pieces {
        match piece.split_once("`]") {
            Some((path, rest)) if !rest.starts_with('(') => {
                let word = path.rsplit("::").next().unwrap_or(path);
                plain += &format!("`{word}`{rest}");
            }
            _ => plain += &format!("[`{piece}"),
        }
    }
    Some(plain)
}

/// The alternatives of a value, except for `null`.
pub(super) fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let choices = array(&schema["anyOf"]).chain(array(&schema["oneOf"]));
    choices.filter(|choice| choice["type"] != "null")
}

/// Whether the alternatives of a type need a separate section. They need one only if all have a description, and either
/// some are mappings or there are too many for a table cell.
pub(super) fn is_of_forms(schema: &Value) -> bool {
    let is_mapping = |choice: &Value| choice.get("properties").is_some();
    let count = choices(schema).count();
    count > 1
        && (count > WORDS_MAX || choices(schema).any(is_mapping))
        && choices(schema).all(|choice| description(choice).is_some() && reference_in(choice).is_none())
}

/// The alternatives in the schema that are one fixed word (`const`).
pub(super) fn words(schema: &Value) -> Vec<&Value> {
    choices(schema).filter(|choice| choice.get("const").is_some()).collect()
}

/// The names of the types that a value can have, except for `null`.
pub(super) fn type_names(schema: &Value) -> Vec<&str> {
    let kind = &schema["type"];
    kind.as_str()
        .into_iter()
        .chain(array(kind).filter_map(Value::as_str))
        .filter(|name| *name != "null")
        .collect()
}

/// The schema of the values in a mapping with arbitrary keys.
pub(super) fn values(schema: &Value) -> Option<&Value> {
    let of_patterns = || schema["patternProperties"].as_object()?.values().next();
    schema.get("additionalProperties").filter(|values| **values != false).or_else(of_patterns)
}

pub(super) fn can_be_null(field: &Value) -> bool {
    let is_null =
        |schema: &Value| schema["type"] == "null" || array(&schema["type"]).any(|name| name == "null");
    is_null(field) || array(&field["anyOf"]).chain(array(&field["oneOf"])).any(is_null)
}

/// Whether the schema allows every value.
pub(super) fn is_any(field: &Value) -> bool {
    ["type", "$ref", "anyOf", "oneOf", "enum", "const"].iter().all(|key| field.get(key).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn doc_comments_lose_what_only_rustdoc_reads() {
        let text = "As in [`crate::TimesNs`];\n`None` if [`x`](x.md) and [y] are not.";
        let plain = description(&json!({ "description": text })).unwrap();
        assert_eq!(plain, "As in `TimesNs`; `null` if [`x`](x.md) and [y] are not.");
    }
}
