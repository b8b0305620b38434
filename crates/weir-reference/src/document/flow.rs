//! Formats values as YAML on one line.

use serde_json::Value;

/// Formats a value as it is written after the name of a field.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(elements) => format!("[{}]", elements.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Formats a text. It is quoted if YAML would read it as something else.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " /._%-+:".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_alphanumeric() || c == '/');
    let is_other = text.parse::<f64>().is_ok() || matches!(text, "true" | "false" | "null");
    let is_mapping = text.contains(": ") || text.ends_with([':', ' ']);
    match begins_well && text.chars().all(is_plain) && !is_mapping && !is_other {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for value in [
            json!("/api"),
            json!("127.0.0.1:80"),
            json!("[::1]:80"),
            json!("*.example.org"),
            json!("2"),
            json!("1.5"),
            json!("true"),
            json!("off"),
            json!("it's: so"),
            json!(""),
            json!(" a "),
            json!("/users/[0-9]+"),
            json!({ "a": [1, 2.5, true, null], "b c": { "x-y": "10%" }, "d": {}, "e": [] }),
        ] {
            let text = flow(&value);
            let read: Value = weir_document::read("a.yaml", &format!("a: {text}\n")).unwrap();
            assert_eq!(read["a"], value, "{text}");
        }
    }
}
