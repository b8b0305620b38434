//! Differences between two datasets, field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use weir_results::{Manifest, Part, Role, Run};

/// Scenario fields that `of_scenarios` does not compare, because they are not conditions of a measurement. weir matches
/// gateways by name, and axis values by cell.
const NOT_CONDITIONS: [&str; 9] =
    ["name", "question", "gateways", "vary", "cases", "repeats", "retries", "seed", "objective"];
/// Number of digits of a hash that are printed.
const HASH_DIGITS: usize = 12;

/// A field in which two datasets differ; `None` for a missing field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Path of the field: `loads.tail.rate`.
    pub field: String,
    /// Value of the field in A.
    pub a: Option<String>,
    /// Value of the field in B.
    pub b: Option<String>,
}

impl Difference {
    /// The difference in words: `loads.tail.rate: 5000/s in A, 3000/s in B`.
    pub fn words(&self) -> String {
        let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "missing".into());
        format!("{}: {} in A, {} in B", self.field, said(&self.a), said(&self.b))
    }
}

/// Differences between the conditions of two scenarios.
pub(super) fn of_scenarios(a: &Run, b: &Run) -> Vec<Difference> {
    let varied: BTreeSet<String> = &axes(a) & &axes(b);
    let conditions = |run: &Run| {
        let mut fields = fields(&run.scenario);
        fields.retain(|path, _| {
            let top = path.split('.').next().unwrap_or_default();
            let is_varied = varied.iter().any(|axis| {
                path == axis || path.strip_prefix(axis.as_str()).is_some_and(|rest| rest.starts_with('.'))
            });
            !NOT_CONDITIONS.contains(&top) && !is_varied && !path.starts_with("thresholds.margins.")
        });
        fields
    };
    between(&conditions(a), &conditions(b))
}

/// Differences between the environments (`docs/method.md#manifest`).
pub(super) fn of_environments(a: &Manifest, b: &Manifest) -> Vec<Difference> {
    let environment = |manifest: &Manifest| {
        let mut value = serde_json::to_value(manifest).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            // Leave out the command line, because it differs in every run. Leave out configurations, because they are
            // compared together with the gateways.
            object.remove("command_line");
            object.remove("configurations");
        }
        fields(&value)
    };
    between(&environment(a), &environment(b))
}

/// Differences between A and B in the programs of the upstream and the generator.
pub(super) fn of_rigs(a: &[Part], b: &[Part]) -> Vec<Difference> {
    let rig = |parts: &[Part]| -> BTreeMap<String, String> {
        let rig = parts.iter().filter(|part| matches!(part.role, Role::Origin | Role::Generator));
        rig.flat_map(program).collect()
    };
    between(&rig(a), &rig(b))
}

/// A gateway in A or in B.
#[derive(Clone, Copy)]
pub(super) struct GatewaySide<'a> {
    pub(super) run: &'a Run,
    pub(super) parts: &'a [Part],
    pub(super) name: &'a str,
}

/// Differences between two gateways: scenario entry, programs, configuration.
pub(super) fn of_gateways(a: GatewaySide<'_>, b: GatewaySide<'_>) -> Vec<Difference> {
    let of = |GatewaySide { run, parts, name }: GatewaySide<'_>| {
        let mut found = BTreeMap::new();
        if let Some(written) = written(run, name) {
            found.extend(fields(&written));
        }
        found.remove("name");
        let own = parts.iter().filter(|part| matches!(part.role, Role::Data | Role::Control | Role::Service));
        found.extend(own.flat_map(program));
        if let Some(configuration) = run.manifest.configurations.get(name) {
            found.insert("config (SHA-256)".into(), short(&configuration.sha256));
        }
        found
    };
    let name = if a.name == b.name { a.name.to_owned() } else { format!("{} / {}", a.name, b.name) };
    let mut differences = between(&of(a), &of(b));
    for difference in &mut differences {
        difference.field = format!("{name}: {}", difference.field);
    }
    differences
}

/// The gateway's entry in the scenario.
fn written(run: &Run, name: &str) -> Option<Value> {
    let listed = run.scenario.get("gateways")?.as_array()?;
    let is_meant = |gateway: &&Value| {
        gateway.as_str() == Some(name) || gateway.get("name").and_then(Value::as_str) == Some(name)
    };
    let found = listed.iter().find(is_meant)?;
    Some(match found {
        Value::String(driver) => serde_json::json!({ "driver": driver }),
        other => other.clone(),
    })
}

fn program(part: &Part) -> [(String, String); 2] {
    [
        (format!("{}.version", part.name), part.version.clone()),
        (format!("{}.binary (SHA-256)", part.name), short(&part.binary_sha256)),
    ]
}

fn short(hash: &str) -> String {
    hash.chars().take(HASH_DIGITS).collect()
}

/// Paths of a run's axes.
fn axes(run: &Run) -> BTreeSet<String> {
    run.plan.iter().flat_map(|key| key.axes.keys().cloned()).collect()
}

/// The leaves of a document by path. Null counts as absent, because older versions of weir lack new fields.
fn fields(value: &Value) -> BTreeMap<String, String> {
    fn collect(path: String, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    collect(path, value, found);
                }
            }
            Value::String(text) => drop(found.insert(path, text.clone())),
            other => drop(found.insert(path, other.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    collect(String::new(), value, &mut found);
    found
}

fn between(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let all: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = all.into_iter().filter(|field| a.get(*field) != b.get(*field));
    let difference = |field: &String| Difference {
        field: field.clone(),
        a: a.get(field).cloned(),
        b: b.get(field).cloned(),
    };
    differ.map(difference).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_have_their_path_and_null_is_absent() {
        let fields = fields(&json!({ "a": { "b": 1, "c": null }, "d": ["x", 2], "e": "word" }));
        let expected = [("a.b", "1"), ("d", "[\"x\",2]"), ("e", "word")];
        assert_eq!(fields, expected.map(|(path, value)| (path.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn a_missing_field_is_a_difference() {
        let of = |value: Value| fields(&value);
        let found = between(&of(json!({ "a": 1, "b": 2 })), &of(json!({ "a": 1, "c": 3 })));
        let words: Vec<String> = found.iter().map(Difference::words).collect();
        assert_eq!(words, ["b: 2 in A, missing in B", "c: missing in A, 3 in B"]);
    }
}
