//! Fields of the scenario language that are reserved for later versions. They are rejected, never ignored.

use serde_json::Value;

use weir_document::Problem;

/// Paths of the reserved fields; `*` stands for one name or list index.
const FIELDS: &[&str] = &[
    "services",
    "network.*",
    "mixes",
    "search",
    "curve",
    "size",
    "apply",
    "gateways.*.replicas",
    "gateways.*.services",
    "limits.services",
    "topology.routes",
    "topology.policies",
    "loads.*.ramp",
    "loads.*.users",
    "loads.*.warmup",
];

/// The paths of the fields in `scenario` that are not supported yet.
pub(crate) fn find(scenario: &Value) -> Vec<Vec<String>> {
    FIELDS.iter().flat_map(|field| walk(scenario, &field.split('.').collect::<Vec<_>>())).collect()
}

/// The error for a field that is reserved for a later version.
pub(crate) fn error() -> Problem<()> {
    Problem::new("this field is not supported yet", "remove the field; it is reserved for a later version")
}

fn walk(value: &Value, names: &[&str]) -> Vec<Vec<String>> {
    let Some((name, rest)) = names.split_first() else { return vec![Vec::new()] };
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) if *name == "*" => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Object(map) => map.get(*name).map(|value| ((*name).to_owned(), value)).into_iter().collect(),
        Value::Array(list) if *name == "*" => {
            list.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
        }
        _ => return Vec::new(),
    };
    let below = |(name, value): (String, &Value)| {
        walk(value, rest).into_iter().map(move |path| [vec![name.clone()], path].concat())
    };
    entries.into_iter().flat_map(below).collect()
}
