//! Sets values of a scenario by their path, for `--set`, axes and cases.

use serde_json::{Map, Value};
use weir_document::{Problem, nearest};

use crate::check::problem::suggestion;

/// Fields that apply to the whole run, so an axis cannot vary them.
const WHOLE_RUN: [&str; 13] = [
    "name",
    "question",
    "gateways",
    "vary",
    "cases",
    "repeats",
    "retries",
    "twin",
    "control",
    "cold_start",
    "seed",
    "objective",
    "thresholds",
];

/// Splits a path like `limits.data.cpus` into its names.
pub(crate) fn segments(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

/// A path as errors print it: `gateways[0].listen`.
pub(crate) fn written(path: &[String]) -> String {
    path.iter().fold(String::new(), |before, name| match name.parse::<usize>() {
        Ok(place) => format!("{before}[{place}]"),
        Err(_) if before.is_empty() => name.clone(),
        Err(_) => format!("{before}.{name}"),
    })
}

/// Sets the value at `path` to `new`, and creates missing maps.
///
/// Rejects mistyped names of loads, gateways and list entries. Unknown fields are found later, when the result is read.
pub(crate) fn lay(scenario: &mut Value, path: &str, new: Value) -> Result<(), Problem<()>> {
    let names = segments(path);
    if names.iter().any(String::is_empty) {
        return Err(Problem::new(
            format!("invalid path `{path}`"),
            "separate names by single dots, like limits.data.cpus",
        ));
    }
    let mut here = scenario;
    for (depth, name) in names.iter().enumerate() {
        if depth == 1 && names[0] == "loads" {
            known_load(here, name)?;
        }
        here = step(here, name, &names[..depth])?;
    }
    *here = new;
    Ok(())
}

/// Rejects an axis over a field that applies to the whole run.
pub(crate) fn may_vary(path: &str) -> Result<(), Problem<()>> {
    let names: Vec<&str> = path.split('.').collect();
    let first = names.first().copied().unwrap_or_default();
    let is_setting = matches!(names[..], ["gateways", _, "set", _, ..]);
    if matches!(names[..], ["loads", _, "of"]) {
        return Err(Problem::new(
            format!("`{path}` applies to the whole run and cannot vary"),
            "use two loads, one with `of: least` and one with `of: greatest`",
        ));
    }
    match WHOLE_RUN.contains(&first) && !is_setting {
        true => Err(Problem::new(
            format!("`{first}` applies to the whole run and cannot vary"),
            "vary a field of limits, topology, origin or loads, or gateways.NAME.set.SETTING; or start two runs",
        )),
        false => Ok(()),
    }
}

/// Whether a path belongs to an objective. Objectives do not change any measurement.
pub(crate) fn is_objective(path: &str) -> bool {
    let names: Vec<&str> = path.split('.').collect();
    matches!(names[..], ["objective", ..] | ["loads", _, "objective", ..])
}

/// The error for an axis that varies an objective.
pub(crate) fn objective_axis() -> Problem<()> {
    Problem::new(
        "an objective cannot vary: it does not change any measurement",
        "move the objective to `cases`, to a gateway or to a load",
    )
}

/// The fields of a case in the written order, each with its path and value, such as `limits.data.cpus` and 1.
pub(crate) fn leaves(case: &Map<String, Value>) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect_leaves("", case, &mut found);
    found
}

fn collect_leaves(prefix: &str, map: &Map<String, Value>, found: &mut Vec<(String, Value)>) {
    for (name, value) in map {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => collect_leaves(&path, inner, found),
            leaf => found.push((path, leaf.clone())),
        }
    }
}

fn step<'a>(here: &'a mut Value, name: &str, before: &[String]) -> Result<&'a mut Value, Problem<()>> {
    if here.is_null() {
        *here = Value::Object(Map::new());
    }
    match here {
        Value::Object(map) => Ok(map.entry(name).or_insert(Value::Null)),
        Value::Array(list) => {
            let count = list.len();
            let names: Vec<String> = list.iter().map(name_of).collect();
            let place = names.iter().position(|other| other == name).or_else(|| name.parse().ok());
            let known = names.iter().map(String::as_str);
            let remedy = match nearest(name, known) {
                Some(near) if !near.is_empty() => format!("did you mean `{near}`?"),
                _ => format!("the list has {count} entries; indexes start at 0"),
            };
            place
                .and_then(|place| list.get_mut(place))
                .ok_or_else(|| Problem::new(format!("`{}` has no entry `{name}`", before.join(".")), remedy))
        }
        _ => Err(Problem::new(
            format!("`{}` has no fields, so `{name}` is unknown", before.join(".")),
            format!("end the path with `{}`", before.last().map_or("", String::as_str)),
        )),
    }
}

fn name_of(entry: &Value) -> String {
    entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn known_load(loads: &Value, name: &str) -> Result<(), Problem<()>> {
    let known: Vec<&str> =
        loads.as_object().map(|loads| loads.keys().map(String::as_str).collect()).unwrap_or_default();
    if known.contains(&name) {
        return Ok(());
    }
    let remedy = suggestion(name, known.iter().copied(), "loads");
    Err(Problem::new(format!("unknown load `{name}`"), remedy))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laid(path: &str, new: Value) -> Result<Value, String> {
        let mut scenario = json!({
            "gateways": [{ "name": "weir" }, { "name": "nginx" }],
            "topology": { "domains": 1, "paths": ["/a", "/b"] },
            "loads": { "full": { "connections": 10 } }
        });
        lay(&mut scenario, path, new).map(|()| scenario).map_err(|f| format!("{}; {}", f.message, f.remedy))
    }

    #[test]
    fn values_are_set_at_their_path() {
        assert_eq!(laid("topology.domains", json!(7)).unwrap()["topology"]["domains"], json!(7));
        assert_eq!(laid("limits.data.cpus", json!(0.5)).unwrap()["limits"], json!({"data": {"cpus": 0.5}}));
        assert_eq!(laid("topology.paths.1", json!("/c")).unwrap()["topology"]["paths"], json!(["/a", "/c"]));
        assert_eq!(laid("gateways.nginx.set.x", json!(1)).unwrap()["gateways"][1]["set"]["x"], json!(1));
        assert_eq!(
            laid("loads.full.connections", json!(2)).unwrap()["loads"],
            json!({"full": {"connections": 2}})
        );
    }

    #[test]
    fn mistyped_paths_are_rejected() {
        let said = |path: &str| laid(path, json!(1)).unwrap_err();
        assert_eq!(said("loads.ful.rate"), "unknown load `ful`; did you mean `full`?");
        assert_eq!(said("loads.xyz.rate"), "unknown load `xyz`; known loads: full");
        assert_eq!(
            said("topology.paths.9"),
            "`topology.paths` has no entry `9`; the list has 2 entries; indexes start at 0"
        );
        assert_eq!(said("gateways.nginy.set"), "`gateways` has no entry `nginy`; did you mean `nginx`?");
        assert_eq!(
            said("topology.domains.x"),
            "`topology.domains` has no fields, so `x` is unknown; end the path with `domains`"
        );
        assert_eq!(
            said("topology..x"),
            "invalid path `topology..x`; separate names by single dots, like limits.data.cpus"
        );
    }

    #[test]
    fn cases_have_leaves_by_path() {
        let case = json!({"limits": {"data": {"cpus": 1, "memory": "1GiB"}}, "topology.domains": 2});
        let Value::Object(case) = case else { unreachable!() };
        let expected = [("limits.data.cpus", json!(1)), ("limits.data.memory", json!("1GiB"))]
            .map(|(path, value)| (path.to_owned(), value));
        assert_eq!(leaves(&case)[..2], expected);
        assert_eq!(leaves(&case)[2], ("topology.domains".to_owned(), json!(2)));
    }
}
