//! Instance types of a run: their load points by rate, with all values that a sizing may need.

use serde::Serialize;
use serde_json::{Map, Value};
use weir_results::{ArrivalModel, DIRECT, Reason, Role, Run};

use super::searched::SearchedFor;
use super::{Bound, bounds_of};
use crate::added::common_name;
use crate::figures::figure::{Figure, Repeated, Sample};
use crate::points::axes::{Axes, axes_words};
use crate::points::conclusions::why_no_headline;
use crate::points::{Point, Row};
use crate::summary::Summary;

/// Fields of a load that set only the amount of load, its duration, or the goal of a search. Loads that differ only in
/// these fields are of the same kind.
const LEVELS: [&str; 8] =
    ["rate", "rates", "of", "connections", "duration", "requests", "search", "objective"];

/// A gateway with one value of each axis except the rate, and the rates that were measured with these values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceType {
    /// Name of the gateway.
    pub gateway: String,
    /// The axes in words, followed by `load` if `load` is not empty.
    pub setting: String,
    /// Common name of the loads in `points`; empty if the gateway has only one kind of load with these axes.
    pub load: String,
    /// Values of the axes, without the rate.
    pub axes: Axes,
    /// CPU limit of the data plane, cores; `None` if it has no limit.
    pub cores: Option<f64>,
    /// The bounds that the run's objective sets; empty without an objective.
    pub bounds: Vec<Bound>,
    /// Open loads, by ascending rate.
    pub points: Vec<RatePoint>,
    /// Results of capacity searches.
    pub searched: Vec<SearchedFor>,
}

/// One measured rate of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatePoint {
    /// Name of the load.
    pub load: String,
    /// The offered rate, requests per second.
    pub asked_per_s: f64,
    /// Number of repeats with a valid throughput, or number of repeats with a valid median latency, whichever is
    /// smaller.
    pub valid_repeats: usize,
    /// The throughput with its interval over repeats. If the gateway sustained the offered rate, the value is that
    /// rate.
    pub carried_per_s: Shown,
    /// Latency in nanoseconds, by name such as `p99`.
    pub latency_ns: Vec<(String, Shown)>,
    /// Errors as share of all scheduled requests, 0 to 1.
    pub errors: Shown,
    /// CPU use as share of the CPU limit, 0 to 1.
    pub cpu_share: Shown,
    /// The rate that would use the whole CPU limit, if CPU time per request were the same as at this point.
    pub whole_limit_per_s: Shown,
}

/// The value of a metric, computed from its repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Shown {
    /// The mean of the valid repeats, with its interval.
    Interval {
        /// The mean of the valid repeats.
        mean: f64,
        /// The lower end of the mean's 95 % interval.
        low: f64,
        /// The upper end of the mean's 95 % interval.
        high: f64,
    },
    /// The gateway failed, so every bound is missed.
    Failed {
        /// The failure in words: `overloaded`.
        why: String,
    },
    /// There is no valid value.
    Invalid {
        /// The reason in words.
        why: String,
    },
}

impl InstanceType {
    /// Whether this type can be sized: a load point or a search has an interval from at least two valid repeats.
    pub fn may_answer(&self) -> bool {
        let is_known = |shown: &Shown| matches!(shown, Shown::Interval { .. });
        let is_kept = |point: &RatePoint| {
            let mut of_latency = point.latency_ns.iter().map(|(_, shown)| shown);
            let has_bound = of_latency.any(is_known) || is_known(&point.errors) || is_known(&point.cpu_share);
            is_known(&point.carried_per_s) && has_bound
        };
        self.points.iter().any(is_kept) || self.searched.iter().any(|searched| is_known(&searched.per_s))
    }
}

/// The instance types of a run: gateways in the scenario's order, axis values ascending.
pub fn instance_types(run: &Run, summary: &Summary) -> Vec<InstanceType> {
    let names = summary.gateways.iter().map(|gateway| gateway.name.as_str());
    let mut types: Vec<InstanceType> =
        names.filter(|name| *name != DIRECT).flat_map(|name| types_of(run, summary, name)).collect();
    for of in &mut types {
        of.points.sort_by(|a, b| a.asked_per_s.total_cmp(&b.asked_per_s));
    }
    name_settings(&mut types);
    types
}

/// The instance types of one gateway. If a combination of axis values has no open load, it still gets a type, but
/// without load points.
fn types_of<'a>(run: &Run, summary: &'a Summary, name: &'a str) -> Vec<InstanceType> {
    let rows = || {
        let of_name =
            move |point: &'a Point| Some((point, point.gateways().find(|row| row.gateway == name)?));
        summary.points.iter().filter_map(of_name)
    };
    let mut found: Vec<(Value, InstanceType)> = Vec::new();
    for (point, row) in rows() {
        let Some(kind) = kind(run, point) else { continue };
        let axes = without_levels(&point.axes);
        let known = found.iter().position(|(other, of)| of.axes == axes && *other == kind);
        let at = known.unwrap_or_else(|| {
            found.push((kind, empty(run, point, row)));
            found.len() - 1
        });
        found[at].1.points.push(rate_point(run, point, row));
    }
    add_searches(run, summary, name, &mut found);
    let mut types: Vec<InstanceType> = found.into_iter().map(|(_, of)| of).collect();
    for (point, row) in rows() {
        let axes = without_levels(&point.axes);
        if !types.iter().any(|of| of.axes == axes) {
            types.push(empty(run, point, row));
        }
    }
    if types.is_empty() {
        let (gateway, setting, axes) = (name.to_owned(), String::new(), Axes::new());
        types.push(InstanceType {
            gateway,
            setting,
            load: String::new(),
            axes,
            cores: None,
            bounds: vec![],
            points: vec![],
            searched: vec![],
        });
    }
    types
}

/// Adds each capacity search to the instance type with the same axes and kind of load. Creates this type if it is
/// missing. If its `bounds` are empty, copies the `bounds` of the search.
fn add_searches(run: &Run, summary: &Summary, name: &str, found: &mut Vec<(Value, InstanceType)>) {
    for capacity in &summary.capacities {
        let Some(row) = capacity.gateways().find(|row| row.gateway == name) else { continue };
        let axes = without_levels(&capacity.axes);
        let kind = written(run, &capacity.load).map_or(Value::Null, without_level_fields);
        let known = found.iter().position(|(other, of)| of.axes == axes && *other == kind);
        let at = known.unwrap_or_else(|| {
            let bounds = bounds(run, name, &capacity.axes, &capacity.load);
            let (gateway, load) = (name.to_owned(), capacity.load.clone());
            let (points, searched, setting) = (Vec::new(), Vec::new(), String::new());
            let of =
                InstanceType { gateway, setting, load, axes, cores: row.cores, bounds, points, searched };
            found.push((kind, of));
            found.len() - 1
        });
        let searched = SearchedFor::of(capacity, row, shown(&row.per_s));
        let of = &mut found[at].1;
        if of.bounds.is_empty() {
            of.bounds.clone_from(&searched.bounds);
        }
        of.searched.push(searched);
    }
}

/// Creates the instance type that `row` belongs to, still without load points.
fn empty(run: &Run, point: &Point, row: &Row) -> InstanceType {
    let data = row.parts.iter().filter(|part| part.role == Role::Data);
    let cores = data.map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cores| *cores > 0.0);
    InstanceType {
        gateway: row.gateway.clone(),
        setting: String::new(),
        load: point.load.clone(),
        axes: without_levels(&point.axes),
        cores,
        bounds: bounds(run, &row.gateway, &point.axes, &point.load),
        points: Vec::new(),
        searched: Vec::new(),
    }
}

/// The bounds that the run's objective sets for `gateway`, `axes` and `load`; empty without an objective.
fn bounds(run: &Run, gateway: &str, axes: &Axes, load: &str) -> Vec<Bound> {
    let objective = run.objective.as_ref().map(|objective| objective.of(gateway, axes, load));
    objective.map(|objective| bounds_of(&objective)).unwrap_or_default()
}

/// Sets `load` and `setting` of each type. `load` names the loads of the type; it is empty if no other type has the
/// same gateway and axes. `setting` is the axes in words, followed by `load`.
fn name_settings(types: &mut [InstanceType]) {
    let alike = |a: &InstanceType, b: &InstanceType| a.gateway == b.gateway && a.axes == b.axes;
    let names: Vec<String> = types.iter().map(loads_name).collect();
    let loads: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(place, of)| {
            let others = types.iter().zip(&names).enumerate();
            let others = others.filter(|(other, (known, _))| *other != place && alike(of, known));
            let others: Vec<&String> = others.map(|(_, (_, name))| name).collect();
            match others.as_slice() {
                [] => String::new(),
                others if others.contains(&&names[place]) => first_to_last(of),
                _ => names[place].clone(),
            }
        })
        .collect();
    for (of, load) in types.iter_mut().zip(loads) {
        let words = [axes_words(&of.axes), load.clone()];
        let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
        of.setting = words.join("; ");
        of.load = load;
    }
}

/// A name for all loads of a type: the common prefix of their names. If there is none, the first and the last name.
fn loads_name(of: &InstanceType) -> String {
    let names: Vec<&str> = of.points.iter().map(|point| point.load.as_str()).collect();
    match common_name(&names) {
        common if common.is_empty() => first_to_last(of),
        common => common,
    }
}

/// Names of the loads with the lowest and the highest rate: `low .. high`.
fn first_to_last(of: &InstanceType) -> String {
    match of.points.as_slice() {
        [] => of.load.clone(),
        [first, .., last] if first.load != last.load => format!("{} .. {}", first.load, last.load),
        [first, ..] => first.load.clone(),
    }
}

/// Returns `axes` without those that set a load field listed in [`LEVELS`].
fn without_levels(axes: &Axes) -> Axes {
    let is_level = |path: &str| {
        path.starts_with("loads.") && path.rsplit('.').next().is_some_and(|field| LEVELS.contains(&field))
    };
    let kept = axes.iter().filter(|(path, _)| !is_level(path));
    kept.map(|(path, value)| (path.clone(), value.clone())).collect()
}

/// The kind of an open load: its fields without [`LEVELS`]. `None` for a closed load, or if the rate changes within the
/// load.
fn kind(run: &Run, point: &Point) -> Option<Value> {
    point.rate_per_s.filter(|_| point.model == ArrivalModel::Open)?;
    let Some(written) = written(run, &point.load) else { return Some(Value::Null) };
    let rate = point.axes.get(&format!("loads.{}.rate", point.load)).or_else(|| written.get("rate"));
    let is_steady =
        rate.is_none_or(|rate| rate.as_str().is_none_or(|text| !text.contains("..")) && !rate.is_array());
    if !is_steady || written.contains_key("burst") || written.contains_key("steps") {
        return None;
    }
    Some(without_level_fields(written))
}

/// The fields of the load `name` in the scenario. A load with several rates is measured once per rate, under its name
/// with `-` and the rate appended.
fn written(run: &Run, name: &str) -> Option<Map<String, Value>> {
    let loads = run.scenario.get("loads").and_then(Value::as_object)?;
    let begins =
        |known: &&String| name.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('-'));
    let longest = || loads.keys().filter(begins).max_by_key(|known| known.len());
    loads.get(name).or_else(|| loads.get(longest()?))?.as_object().cloned()
}

fn without_level_fields(mut written: Map<String, Value>) -> Value {
    LEVELS.iter().for_each(|field| drop(written.remove(*field)));
    Value::Object(written)
}

fn rate_point(run: &Run, point: &Point, row: &Row) -> RatePoint {
    let asked_per_s = point.rate_per_s.unwrap_or_default();
    let latency = row.latency_ns.iter().filter(|(name, _)| name != "min");
    let of_latency = row.latency("p50").map_or(0, |figure| figure.valid);
    RatePoint {
        load: point.load.clone(),
        asked_per_s,
        valid_repeats: row.throughput_per_s.valid.min(of_latency),
        carried_per_s: carried(&row.throughput_per_s, asked_per_s, run.thresholds.completed_share),
        latency_ns: latency.map(|(name, figure)| (name.clone(), shown(figure))).collect(),
        errors: shown(&row.error_share),
        cpu_share: shown(&row.cpu_share_of_limit),
        whole_limit_per_s: shown(&whole_limit(row)),
    }
}

/// The rate that the gateway carried. Arrivals of an open load are random, so each repeat carries slightly more or less
/// than the offered rate. If the mean throughput is at least `completed_share` of the offered rate, the offered rate
/// replaces the mean, and the interval is extended to include it.
fn carried(figure: &Figure, asked_per_s: f64, completed_share: f64) -> Shown {
    match shown(figure) {
        Shown::Interval { mean, low, high } if mean >= completed_share * asked_per_s => {
            Shown::Interval { mean: asked_per_s, low: low.min(asked_per_s), high: high.max(asked_per_s) }
        }
        other => other,
    }
}

fn shown(figure: &Figure) -> Shown {
    let own = |reason: &Reason| matches!(reason, Reason::Overloaded | Reason::Throttled | Reason::Errors);
    let failed = |repeated: &&Repeated| {
        let fails = |reason: &Reason| matches!(reason, Reason::Overloaded | Reason::Errors);
        repeated.reasons.iter().any(fails) && repeated.reasons.iter().all(own)
    };
    if let Some(repeated) = figure.repeats.iter().find(failed) {
        let why = match repeated.reasons.contains(&Reason::Overloaded) {
            true => "the gateway was overloaded",
            false => "more errors than the run allows",
        };
        return Shown::Failed { why: why.into() };
    }
    // A bounded value is used if its upper bound is known, because limits are compared with the upper bound.
    if let (true, Some(mean), Some(high)) = (figure.is_bounded(), figure.mean, figure.bounds.high) {
        return Shown::Interval { mean: mean.min(high), low: figure.bounds.low.unwrap_or(0.0), high };
    }
    match (figure.mean, figure.interval) {
        (Some(mean), Some([low, high])) if figure.is_valid() => Shown::Interval { mean, low, high },
        _ if figure.valid > 0 && figure.beyond_timeout => {
            Shown::Failed { why: "the value is beyond the timeout".into() }
        }
        _ if figure.repeats.iter().all(|repeated| repeated.sample == Sample::Missing) => {
            Shown::Invalid { why: "not measured".into() }
        }
        _ if figure.valid == 1 => {
            let why = why_no_headline(figure);
            Shown::Invalid { why: format!("an interval needs two valid repeats ({why})") }
        }
        _ => Shown::Invalid { why: why_no_headline(figure) },
    }
}

/// Throughput divided by the used share of the CPU limit, for each repeat.
fn whole_limit(row: &Row) -> Figure {
    let of_repeat = |cpu: &Repeated| {
        let same = |carried: &&Repeated| carried.repeat == cpu.repeat;
        let carried = row.throughput_per_s.repeats.iter().find(same);
        let value = carried.and_then(Repeated::value).zip(cpu.value().filter(|share| *share > 0.0));
        let mut reasons = cpu.reasons.clone();
        reasons.extend(carried.into_iter().flat_map(|carried| &carried.reasons));
        reasons.sort();
        reasons.dedup();
        Repeated {
            repeat: cpu.repeat,
            sample: value.map(|(per_s, share)| per_s / share).into(),
            reasons,
            ..Repeated::default()
        }
    };
    Figure::of(row.cpu_share_of_limit.repeats.iter().map(of_repeat).collect())
}
