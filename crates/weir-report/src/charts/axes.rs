//! The axes of a run in charts. An axis is a field of the scenario that the run varies.

use serde_json::Value;
use weir_analysis::{Axes, Point, axes_words};
use weir_document::{Rate, Share, Size, Time};
use weir_results::Run;

use crate::model::scale::Unit;

/// An axis, and its values at the load points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The path of the field in the scenario.
    pub(crate) path: String,
    pub(crate) unit: Unit,
    /// The values of the axis in ascending order, each with its position on a scale.
    values: Vec<(Value, f64)>,
}

impl Axis {
    /// The axis `path` at `points`; `None` if the points have fewer than two different values of it.
    ///
    /// If all values are numbers or quantities of one kind, the position of a value is the value itself. Otherwise the
    /// values are numbered in the order of the scenario's `vary`, and the position is this number.
    pub(crate) fn of(run: &Run, points: &[&Point], path: &str) -> Option<Self> {
        let listed = run.scenario.pointer("/vary").and_then(|vary| vary.get(path)).and_then(Value::as_array);
        let there = points.iter().filter_map(|point| point.axes.get(path));
        let mut values: Vec<Value> = Vec::new();
        for value in listed
            .into_iter()
            .flatten()
            .filter(|value| there.clone().any(|at| at == *value))
            .chain(there.clone())
        {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if values.len() < 2 {
            return None;
        }
        let measured: Option<Vec<(f64, Unit)>> = values.iter().map(|value| quantity(path, value)).collect();
        let alike = measured.filter(|measured| measured.iter().all(|(_, unit)| *unit == measured[0].1));
        let (unit, places) = match alike {
            Some(measured) => (measured[0].1, measured.into_iter().map(|(at, _)| at).collect()),
            None => (Unit::Plain, (0..values.len()).map(|place| place as f64).collect::<Vec<f64>>()),
        };
        let mut values: Vec<(Value, f64)> = values.into_iter().zip(places).collect();
        values.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        Some(Self { path: path.to_owned(), unit, values })
    }

    /// The position of the point's value on a scale.
    pub(crate) fn place(&self, point: &Point) -> Option<f64> {
        let value = point.axes.get(&self.path)?;
        self.values.iter().find(|(known, _)| known == value).map(|(_, place)| *place)
    }

    /// The position and the label of each value.
    pub(crate) fn values(&self) -> Vec<(f64, String)> {
        self.values.iter().map(|(value, place)| (*place, said(value))).collect()
    }

    /// Whether this axis is the CPU limit of the gateways.
    pub(crate) fn is_cpu_limit(&self) -> bool {
        self.unit == Unit::Cores && ["limits.data.cpus", "limits.data"].contains(&self.path.as_str())
    }

    /// Whether each value of this axis occurs with only one value of the axis `path`, so that the two change
    /// together.
    pub(crate) fn determines(&self, path: &str, points: &[&Point]) -> bool {
        points.iter().all(|point| {
            let same = |other: &&&Point| self.place(other) == self.place(point);
            points.iter().filter(same).all(|other| other.axes.get(path) == point.axes.get(path))
        })
    }

    /// Whether this axis is the size of a load: its number of connections, or its rate.
    pub(crate) fn is_load_size(&self) -> bool {
        self.path.starts_with("loads.")
            && (self.path.ends_with(".connections") || self.path.ends_with(".rate"))
    }
}

/// Returns the paths of all axes. The axis that changes fastest, which is the last in `vary`, comes first. Without
/// `vary`, the order is by name.
pub(crate) fn paths(run: &Run, points: &[&Point]) -> Vec<String> {
    let mut paths: Vec<String> = points.iter().flat_map(|point| point.axes.keys().cloned()).collect();
    paths.sort();
    paths.dedup();
    let order = |path: &String| {
        let vary = run.scenario.get("vary").and_then(Value::as_object);
        vary.and_then(|vary| vary.keys().position(|known| known == path))
    };
    paths.sort_by_key(|path| std::cmp::Reverse(order(path)));
    paths
}

/// Whether the axis `path` affects `load`. Settings of other loads do not.
pub(crate) fn concerns(path: &str, load: &str) -> bool {
    path.strip_prefix("loads.").is_none_or(|rest| rest.split('.').next() == Some(load))
}

/// The axis values of a panel in words. Axes that are drawn or do not vary are left out.
pub(crate) fn rest(point: &Point, drawn: impl Fn(&str) -> bool, points: &[&Point]) -> String {
    let changes = |path: &String| points.iter().any(|other| other.axes.get(path) != point.axes.get(path));
    let rest = point.axes.iter().filter(|(path, _)| !drawn(path) && changes(path));
    let rest: Axes = rest.map(|(path, value)| (path.clone(), value.clone())).collect();
    axes_words(&rest)
}

fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", said(value)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// Converts a value to a number and its unit; `None` if it is not a number or quantity.
fn quantity(path: &str, value: &Value) -> Option<(f64, Unit)> {
    if let Some(number) = value.as_f64() {
        return Some((number, if path.ends_with("cpus") { Unit::Cores } else { Unit::Plain }));
    }
    if let Some(cpus) = value.get("cpus").and_then(Value::as_f64) {
        // Limits that vary together are ordered by their CPU limit.
        return Some((cpus, Unit::Cores));
    }
    let text = value.as_str()?;
    let size = || Some((text.parse::<Size>().ok()?.0 as f64, Unit::Bytes));
    let rate = || Some((text.parse::<Rate>().ok()?.0, Unit::PerSecond));
    let time = || Some((text.parse::<Time>().ok()?.0.as_secs_f64(), Unit::Seconds));
    let share = || Some((text.parse::<Share>().ok()?.0, Unit::Share));
    size().or_else(rate).or_else(time).or_else(share)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn points(path: &str, values: &[Value]) -> Vec<Point> {
        let point = |value: &Value| Point {
            axes: Axes::from([(path.to_owned(), value.clone())]),
            load: "full".into(),
            model: weir_results::ArrivalModel::Closed,
            connections: 10,
            rate_per_s: None,
            bias: None,
            rows: Vec::new(),
            conclusions: Vec::new(),
        };
        values.iter().map(point).collect()
    }

    fn run(scenario: Value) -> Run {
        serde_json::from_value(json!({
            "schema_version": 1, "id": "x", "name": "x", "question": "", "scenario": scenario, "seed": 1,
            "started_unix_ms": 0, "ended_unix_ms": null, "plan": [], "objective": null, "thresholds": {},
            "manifest": weir_results::Manifest::default(),
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(path: &str, values: &[Value], expected: &[(f64, &str)]) {
        let points = points(path, values);
        let points: Vec<&Point> = points.iter().collect();
        let run = run(json!({ "vary": { path: values } }));
        let axis = Axis::of(&run, &points, path).unwrap();
        let expected: Vec<(f64, String)> =
            expected.iter().map(|(at, said)| (*at, (*said).to_owned())).collect();
        assert_eq!(axis.values(), expected);
        assert_eq!(
            axis.place(points[0]),
            Some(expected.iter().find(|(_, said)| *said == self::said(&values[0])).unwrap().0)
        );
    }

    #[test]
    fn values_lie_where_their_size_says() {
        check("limits.data.cpus", &[json!(1), json!(0.25)], &[(0.25, "0.25"), (1.0, "1")]);
        check("loads.tail.rate", &[json!("1000/s"), json!("200/s")], &[(200.0, "200/s"), (1000.0, "1000/s")]);
        check(
            "limits.data",
            &[json!({ "cpus": 2, "memory": "1GiB" }), json!({ "cpus": 1, "memory": "1GiB" })],
            &[(1.0, "cpus 1, memory 1GiB"), (2.0, "cpus 2, memory 1GiB")],
        );
        check("origin.body", &[json!("64B"), json!("1KiB")], &[(64.0, "64B"), (1024.0, "1KiB")]);
    }

    #[test]
    fn words_stand_in_the_order_of_the_scenario() {
        check("origin.driver", &[json!("nginx"), json!("caddy")], &[(0.0, "nginx"), (1.0, "caddy")]);
        check(
            "mixed",
            &[json!("nginx"), json!(1), json!("64B")],
            &[(0.0, "nginx"), (1.0, "1"), (2.0, "64B")],
        );
    }

    #[test]
    fn one_value_is_no_axis() {
        let points = points("limits.data.cpus", &[json!(1), json!(1)]);
        let points: Vec<&Point> = points.iter().collect();
        assert_eq!(Axis::of(&run(json!({})), &points, "limits.data.cpus"), None);
    }

    #[test]
    fn values_that_vary_together_are_one_axis() {
        let mut all = points("limits.data.cpus", &[json!(1), json!(2), json!(2)]);
        for (point, memory) in all.iter_mut().zip(["1GiB", "2GiB", "2GiB"]) {
            point.axes.insert("limits.data.memory".into(), json!(memory));
        }
        let run = run(json!({}));
        let determined = |all: &[Point]| {
            let points: Vec<&Point> = all.iter().collect();
            let axis = Axis::of(&run, &points, "limits.data.cpus").unwrap();
            axis.determines("limits.data.memory", &points)
        };
        assert!(determined(&all));
        all[2].axes.insert("limits.data.memory".into(), json!("4GiB"));
        assert!(!determined(&all));
    }

    #[test]
    fn other_loads_settings_do_not_concern_a_load() {
        assert!(concerns("limits.data.cpus", "full") && concerns("loads.full.connections", "full"));
        assert!(!concerns("loads.full.connections", "tail"));
    }
}
