//! Fields of the scenario language that no code serves yet. They are refused by name, never ignored.

use serde_json::Value;

use crate::overlay::Fault;

/// Paths of such fields; `*` stands for any one name or place.
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

/// The path of the first field in `scenario` that is not yet served.
pub(crate) fn find(scenario: &Value) -> Option<Vec<String>> {
    FIELDS.iter().find_map(|field| walk(scenario, &field.split('.').collect::<Vec<_>>()))
}

/// What to say about such a field.
pub(crate) fn fault(path: &[impl AsRef<str>]) -> Fault {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    Fault::new(format!("`{}` is not yet served", path.join(".")), "leave it out; a later version serves it")
}

fn walk(value: &Value, names: &[&str]) -> Option<Vec<String>> {
    let Some((name, rest)) = names.split_first() else { return Some(Vec::new()) };
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) if *name == "*" => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Object(map) => map.get(*name).map(|value| ((*name).to_owned(), value)).into_iter().collect(),
        Value::Array(list) if *name == "*" => {
            list.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
        }
        _ => return None,
    };
    entries.into_iter().find_map(|(name, value)| {
        let mut path = walk(value, rest)?;
        path.insert(0, name);
        Some(path)
    })
}
