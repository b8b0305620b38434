//! Results of a run's capacity searches, combined from its repeats.

use serde::Serialize;
use weir_results::{
    Cell, CellOutcome, DIRECT, DIRECT_TWIN, Found, Measurement, Objective, Reason, Run, Stopped, Trial,
    TrialSays,
};

use super::bounds::objective_words;
use super::conclusions::conclude;
use crate::figures::cpu_range::data_limit_cpus;
use crate::figures::figure::{Figure, HEADLINE_REPEATS, Range, Repeated};
use crate::figures::quantity::{counted, rate};
use crate::points::axes::{Axes, axes_words};
use crate::points::conclusions::join;
use crate::points::grouping::{compare_axes, gateway_names};

/// The capacity searches of all gateways with one load and one combination of axis values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name.
    pub load: String,
    /// Number of connections of the load generator.
    pub connections: u32,
    /// The objective of the search.
    pub objective: Objective,
    /// One row per gateway, in the scenario's order, the direct baseline last.
    pub rows: Vec<CapacityRow>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// The capacity of one gateway, or of the direct baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityRow {
    /// The gateway's name, or [`DIRECT`].
    pub gateway: String,
    /// Number of planned repeats.
    pub planned: usize,
    /// CPU limit of the data plane, cores; `None` without a limit.
    pub cores: Option<f64>,
    /// The capacity, requests per second: the value of each repeat, and their mean with a t interval on logarithms. If
    /// the search of a repeat is invalid and found no capacity, for example because the load generator was saturated,
    /// the repeat's value is the highest rate that met the objective.
    pub per_s: Figure,
    /// The search of each repeat, in order.
    pub searches: Vec<Searched>,
}

/// The search of one repeat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Searched {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// The result of the search.
    pub found: Found,
    /// Why the result is invalid; empty means *valid*.
    pub reasons: Vec<Reason>,
    /// Whether the capacity is only a lower bound, because host noise delayed requests in trials near the capacity.
    pub is_bounded: bool,
}

/// Collects the capacity searches of a run.
pub fn capacities(run: &Run, cells: &[Cell]) -> Vec<Capacity> {
    let mut capacities: Vec<Capacity> = Vec::new();
    // `DIRECT_TWIN` is not a gateway: it measures the rig's bias.
    for cell in cells.iter().filter(|cell| cell.key.gateway != DIRECT_TWIN) {
        for (load, connections, searched) in searches(cell) {
            let known = capacities
                .iter()
                .position(|capacity| capacity.axes == cell.key.axes && capacity.load == load);
            let at = known.unwrap_or_else(|| {
                capacities.push(Capacity {
                    axes: cell.key.axes.clone(),
                    load: load.to_owned(),
                    connections,
                    objective: searched.found.objective.clone(),
                    rows: Vec::new(),
                    conclusions: Vec::new(),
                });
                capacities.len() - 1
            });
            let row = row_of(&mut capacities[at].rows, &cell.key.gateway);
            row.cores = data_limit_cpus(&cell.parts);
            row.searches.push(searched);
        }
    }
    let names = gateway_names(run, cells);
    for capacity in &mut capacities {
        capacity.rows.sort_by_key(|row| names.iter().position(|name| *name == row.gateway));
        for row in &mut capacity.rows {
            let same = |key: &&weir_results::CellKey| key.gateway == row.gateway && key.axes == capacity.axes;
            row.searches.sort_by_key(|searched| searched.repeat);
            row.planned = run.plan.iter().filter(same).count().max(row.searches.len());
            row.per_s = figure(&row.searches).headline_if(row.gateway != DIRECT);
            if let (Some(mean), Some(allowed)) = (row.per_s.mean, run.thresholds.interval_share) {
                row.per_s.judge_noise(mean, allowed);
            }
        }
        capacity.conclusions = conclude(capacity);
    }
    capacities.sort_by(|a, b| compare_axes(&a.axes, &b.axes));
    capacities
}

impl Capacity {
    /// The load, the objective and the axes in words: `capacity (p99 at most 20.0 ms; limits.data.cpus = 0.5)`.
    pub fn words(&self) -> String {
        let axes = axes_words(&self.axes);
        let axes = if axes.is_empty() { axes } else { format!("; {axes}") };
        format!("{} ({}{axes})", self.load, self.objective_words())
    }

    /// The objective in words: `p99 at most 20.0 ms and errors at most 0.100 %`.
    pub fn objective_words(&self) -> String {
        objective_words(&self.objective)
    }

    /// The gateways, without the direct baseline.
    pub fn gateways(&self) -> impl Iterator<Item = &CapacityRow> {
        self.rows.iter().filter(|row| row.gateway != DIRECT)
    }
}

impl CapacityRow {
    /// Number of trials in all repeats together.
    pub fn trials(&self) -> u64 {
        self.searches.iter().map(|searched| u64::from(searched.found.trials)).sum()
    }

    /// Why the searches stopped: each reason with its number of repeats, most frequent first.
    pub fn stopped(&self) -> Vec<(Stopped, usize)> {
        let mut counted: Vec<(Stopped, usize)> = Vec::new();
        for searched in &self.searches {
            match counted.iter_mut().find(|(known, _)| *known == searched.found.stopped) {
                Some((_, n)) => *n += 1,
                None => counted.push((searched.found.stopped, 1)),
            }
        }
        counted.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        counted
    }

    /// The highest rate that is known to meet the objective in every repeat: the minimum of `at_least_per_s`. `None` if
    /// a repeat has no such rate.
    pub fn at_least_per_s(&self) -> Option<f64> {
        let each = self.searches.iter().map(|searched| searched.found.at_least_per_s);
        each.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::min)
    }
}

/// Why a search stopped, in words.
pub fn stopped_words(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Precise => "the interval is narrow enough",
        Stopped::MostTrials => "the maximum number of trials is reached",
        Stopped::GeneratorLimited => "the load generator is saturated",
        Stopped::UpstreamLimited => "the upstream is saturated",
        Stopped::NeverMet => "the objective is missed at the lowest rate that weir can test",
        Stopped::InvalidTrials => "too many trials are invalid",
    }
}

/// Lists the gateways whose capacity is noisy or has too few valid repeats, with the reasons.
pub(crate) fn problems(capacity: &Capacity) -> Vec<String> {
    let missing = |row: &&CapacityRow| {
        let answered = row.per_s.valid;
        row.per_s.noise.is_some() || answered < row.searches.len().min(HEADLINE_REPEATS)
    };
    let words = |row: &CapacityRow| {
        if row.per_s.noise.is_some() {
            return format!(
                "{}: {}: the capacity is noisy: its interval is wider than the scenario allows",
                capacity.words(),
                row.gateway
            );
        }
        let measured = row.searches.len();
        let stopped = row.stopped().into_iter();
        let why: Vec<String> = stopped
            .map(|(stopped, n)| {
                format!("{} in {n} of {}", stopped_words(stopped), counted(measured as u64, "repeat"))
            })
            .collect();
        format!("{}: {}: the capacity has no headline: {}", capacity.words(), row.gateway, join(&why))
    };
    capacity.gateways().filter(missing).map(words).collect()
}

/// Formats the known range if no capacity was found: `at least 20,000/s`, `below 10.0/s`.
pub fn border_words(found: &Found) -> Option<String> {
    match (found.at_least_per_s, found.below_per_s) {
        (Some(least), Some(below)) => Some(format!("{} to {}", rate(least), rate(below))),
        (Some(least), None) => Some(format!("at least {}", rate(least))),
        (None, Some(below)) => Some(format!("below {}", rate(below))),
        (None, None) => None,
    }
}

/// The searches of a cell: load name, connections, and result.
fn searches(cell: &Cell) -> Vec<(&str, u32, Searched)> {
    let CellOutcome::Measured { measurements } = &cell.outcome else { return Vec::new() };
    let ended = measurements.iter().filter_map(|measurement| {
        let Some(Trial { found: Some(found), .. }) = &measurement.trial else { return None };
        let trials: Vec<&Measurement> =
            measurements.iter().filter(|other| other.load == measurement.load).collect();
        let of_trials = trials.iter().flat_map(|other| &other.judgement.verdicts.latency);
        let mut reasons = reasons(found, of_trials.copied().collect());
        let is_bounded = reasons.is_empty() && is_bounded(found, &trials);
        reasons.extend(is_bounded.then_some(Reason::HostNoise));
        let searched = Searched { repeat: cell.key.repeat, found: found.clone(), reasons, is_bounded };
        Some((measurement.load.as_str(), measurement.connections, searched))
    });
    ended.collect()
}

/// A trial is near the capacity if its rate is at least this share of the capacity.
const NEAR: f64 = 0.8;

/// Whether host noise may have lowered the measured capacity: a valid trial near the capacity had host noise.
fn is_bounded(found: &Found, trials: &[&Measurement]) -> bool {
    let Some(capacity_per_s) = found.capacity_per_s else { return false };
    trials.iter().any(|of| {
        let counts = of.trial.as_ref().is_some_and(|trial| trial.says != TrialSays::Invalid);
        let is_near = of.rate_per_s.is_some_and(|rate_per_s| rate_per_s >= NEAR * capacity_per_s);
        counts && is_near && of.judgement.verdicts.latency.contains(&Reason::HostNoise)
    })
}

/// Why the result of a search is invalid, from the reasons of its trials.
fn reasons(found: &Found, mut of_trials: Vec<Reason>) -> Vec<Reason> {
    of_trials.sort();
    of_trials.dedup();
    let is_cause = |reason: &Reason| match (found.stopped, reason) {
        // A limit that was not applied affects all trials equally, so repeating trials does not help.
        (_, Reason::LimitNotApplied) => true,
        (Stopped::GeneratorLimited, Reason::GeneratorLimited)
        | (Stopped::UpstreamLimited, Reason::UpstreamLimited) => true,
        (Stopped::InvalidTrials, Reason::HostNoise | Reason::Implausible) => found.capacity_per_s.is_none(),
        _ => false,
    };
    of_trials.into_iter().filter(is_cause).collect()
}

fn figure(searches: &[Searched]) -> Figure {
    let repeated = |searched: &Searched| Repeated {
        repeat: searched.repeat,
        sample: searched
            .found
            .capacity_per_s
            .or(searched.found.at_least_per_s.filter(|_| !searched.reasons.is_empty()))
            .into(),
        reasons: searched.reasons.clone(),
        range: Range { low: searched.found.capacity_per_s.filter(|_| searched.is_bounded), high: None },
    };
    Figure::of(searches.iter().map(repeated).collect())
}

fn row_of<'a>(rows: &'a mut Vec<CapacityRow>, gateway: &str) -> &'a mut CapacityRow {
    let at = rows.iter().position(|row| row.gateway == gateway).unwrap_or_else(|| {
        rows.push(CapacityRow {
            gateway: gateway.to_owned(),
            planned: 0,
            cores: None,
            per_s: Figure::default(),
            searches: Vec::new(),
        });
        rows.len() - 1
    });
    &mut rows[at]
}
