//! Groups and sorts measurements: load points by axes and load, gateways in the scenario's order, repeats by number.

use std::cmp::Ordering;

use serde_json::Value;
use weir_results::{ArrivalModel, Cell, CellOutcome, DIRECT, DIRECT_TWIN, Run};

use crate::points::axes::Axes;
use crate::points::measured::{Repeat, Repeats};

/// The measurements of one load with the same values of the axes.
pub(crate) struct Group<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) load: &'a str,
    pub(crate) model: ArrivalModel,
    pub(crate) connections: u32,
    pub(crate) rate_per_s: Option<f64>,
    /// The load's fields in the scenario, without its duration.
    written: Option<Value>,
    /// Gateways in the scenario's order, then the direct baseline, then its twin (the second direct cell).
    pub(crate) rows: Vec<(&'a str, Repeats<'a>)>,
}

impl<'a> Group<'a> {
    /// The repeats of `gateway`, which can also be [`DIRECT`] or [`DIRECT_TWIN`].
    pub(crate) fn repeats(&self, gateway: &str) -> Option<&Repeats<'a>> {
        self.rows.iter().find(|(name, _)| *name == gateway).map(|(_, repeats)| repeats)
    }
}

impl Group<'_> {
    /// Whether `other` is another load with the same axes, and differs only in name and duration.
    pub(crate) fn is_like(&self, other: &Group<'_>) -> bool {
        let size = |of: &Group<'_>| (of.model, of.connections, of.rate_per_s);
        let is_same = size(other) == size(self) && other.written == self.written;
        other.axes == self.axes && other.load != self.load && is_same
    }
}

/// Groups all measurements by axes and load.
pub(crate) fn group<'a>(run: &'a Run, cells: &'a [Cell]) -> Vec<Group<'a>> {
    let names = gateway_names(run, cells);
    let place = |gateway: &str| names.iter().position(|name| name == gateway).unwrap_or(names.len());
    let mut groups: Vec<Group<'a>> = Vec::new();
    for cell in cells {
        let CellOutcome::Measured { measurements } = &cell.outcome else { continue };
        // A trial of a capacity search is not a load point.
        for measurement in measurements.iter().filter(|measurement| measurement.trial.is_none()) {
            let found = groups
                .iter()
                .position(|group| *group.axes == cell.key.axes && group.load == measurement.load);
            let at = found.unwrap_or_else(|| {
                groups.push(Group {
                    axes: &cell.key.axes,
                    load: &measurement.load,
                    model: measurement.record.result.model,
                    connections: measurement.connections,
                    rate_per_s: measurement.rate_per_s,
                    written: written(run, &measurement.load),
                    rows: Vec::new(),
                });
                groups.len() - 1
            });
            add(
                &mut groups[at].rows,
                &cell.key.gateway,
                Repeat { thresholds: &run.thresholds, cell, measurement },
            );
        }
    }
    for group in &mut groups {
        group.rows.sort_by_key(|(gateway, _)| place(gateway));
        group.rows.iter_mut().for_each(|(_, repeats)| repeats.sort());
    }
    // The sort is stable, so loads keep the order of measurement, which is the scenario's.
    groups.sort_by(|a, b| compare_axes(a.axes, b.axes));
    groups
}

fn written(run: &Run, load: &str) -> Option<Value> {
    let mut written = run.scenario.get("loads")?.get(load)?.clone();
    if let Some(fields) = written.as_object_mut() {
        fields.remove("duration");
    }
    Some(written)
}

/// Names of the gateways: first those in the scenario, in its order, then all others by name, then the direct baseline.
/// [`DIRECT_TWIN`] is left out.
pub(crate) fn gateway_names(run: &Run, cells: &[Cell]) -> Vec<String> {
    let listed = run.scenario.get("gateways").and_then(Value::as_array).into_iter().flatten();
    let name = |gateway: &'_ Value| match gateway {
        Value::String(name) => Some(name.clone()),
        other => other.get("name").and_then(Value::as_str).map(str::to_owned),
    };
    let mut seen: Vec<String> = run.plan.iter().map(|key| key.gateway.clone()).collect();
    seen.extend(cells.iter().map(|cell| cell.key.gateway.clone()));
    seen.sort();
    seen.dedup();
    seen.retain(|name| name != DIRECT_TWIN);
    let mut names: Vec<String> = listed.filter_map(name).filter(|name| seen.contains(name)).collect();
    let others: Vec<String> = seen.into_iter().filter(|name| !names.contains(name)).collect();
    names.extend(others);
    names.sort_by_key(|name| name == DIRECT);
    names
}

fn add<'a>(rows: &mut Vec<(&'a str, Repeats<'a>)>, gateway: &'a str, repeat: Repeat<'a>) {
    match rows.iter_mut().find(|(known, _)| *known == gateway) {
        Some((_, repeats)) => repeats.push(repeat),
        None => rows.push((gateway, Repeats::from(repeat))),
    }
}

pub(crate) fn compare_axes(a: &Axes, b: &Axes) -> Ordering {
    let pairs = a.iter().zip(b.iter());
    let by_value = pairs.map(|((path, value), (other_path, other))| {
        path.cmp(other_path).then_with(|| compare_values(value, other))
    });
    by_value.fold(Ordering::Equal, Ordering::then).then_with(|| a.len().cmp(&b.len()))
}

fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.to_string().cmp(&b.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_ordered_by_number_and_then_by_text() {
        let axes = |value: Value| Axes::from([("limits.data.cpus".to_owned(), value)]);
        assert_eq!(compare_axes(&axes(2.into()), &axes(10.into())), Ordering::Less);
        assert_eq!(compare_axes(&axes("b".into()), &axes("a".into())), Ordering::Greater);
        assert_eq!(compare_axes(&Axes::new(), &axes(1.into())), Ordering::Less);
    }
}
