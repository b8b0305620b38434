//! The pilot: measures the capacity of each gateway before the first cell, for rates that are shares of a capacity.
//!
//! A trial is a cell with fresh processes and the limits and topology of its point. Its loads are closed, and weir
//! stores only their rates.

use std::time::Duration;

use weir_analysis::{Axes, axes_words, bound_name, quantity};
use weir_document::{Levels, Named, Time};
use weir_results::{ArrivalModel, BoundBy, Carried, CellKey, CellOutcome, DIRECT, Measurement, Reason};

use crate::LabError;
use crate::cell::Lab;
use crate::plan::cell_time;
use crate::plan::estimate::TimeEstimate;
use crate::read::Checked;
use crate::scenario::{Load, Scenario, ShareOf};

/// Maximum warm-up of a trial.
const WARMUP: Duration = Duration::from_millis(500);
/// Maximum length of a trial's sustained phase.
const PHASE: Duration = Duration::from_secs(2);

/// A short cell that measures capacity. It runs once per gateway if rates are shares of a gateway's capacity, and once
/// without a gateway if rates are shares of the upstream's capacity. Points that differ only in rates share a trial.
struct Trial {
    axes: Axes,
    /// The scenario of the trial, with closed loads only.
    scenario: Scenario,
    /// One entry per closed load of `scenario`, in the same order: the names of the open loads whose rates use its
    /// result.
    stands_for: Vec<Vec<String>>,
    /// Whether the trial runs for every gateway. It does if a rate is a share of a gateway's capacity.
    of_gateways: bool,
    /// Whether the trial runs without a gateway. It does if a rate is a share of the upstream's capacity.
    of_direct: bool,
}

/// The duration of the pilot of `checked`; zero if no rate is a share of a capacity.
pub fn pilot_time(checked: &Checked) -> TimeEstimate {
    let of = |trial: &Trial| cell_time(&trial.scenario) * trial.tried().len() as u32;
    trials(checked).iter().map(of).sum()
}

/// The names of all loads whose rates are shares, in the order of `checked`.
pub(crate) fn relative_loads(checked: &Checked) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, load) in checked.points.iter().flat_map(|point| point.scenario.loads.iter()) {
        let name = load.one_of.as_deref().unwrap_or(name);
        if load.is_relative() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

impl Lab<'_> {
    /// Runs the trials of every gateway of `checked`; `None` if the run was stopped meanwhile.
    ///
    /// # Errors
    /// As [`Lab::measure`]. A failed trial is not an error: the observer gets a note, and the pilot continues.
    pub(crate) fn pilot(&self, checked: &Checked) -> Result<Option<Vec<Carried>>, LabError> {
        let mut carried = Vec::new();
        let mut index = 0;
        for trial in trials(checked) {
            for gateway in trial.tried() {
                let key = CellKey { index, gateway, axes: trial.axes.clone(), repeat: 0 };
                index += 1;
                let Some(cell) = self.measure(&trial.scenario, &key)? else { return Ok(None) };
                match &cell.outcome {
                    CellOutcome::Failed { cause, message, .. } => {
                        self.observer.note(&format!("pilot: {} failed: {cause}: {message}", key.gateway));
                    }
                    CellOutcome::Measured { measurements } => {
                        for (measurement, loads) in measurements.iter().zip(&trial.stands_for) {
                            carried.extend(self.carried(&key, loads, measurement));
                        }
                    }
                }
            }
        }
        Ok(Some(carried))
    }

    /// The capacity of a gateway from a trial; `None` if the gateway returned errors, because an error costs less than
    /// a good response.
    fn carried(&self, key: &CellKey, loads: &[String], measurement: &Measurement) -> Option<Carried> {
        let (rate_per_s, bound_by) = (measurement.record.result.rate_per_s, measurement.judgement.bound_by);
        let reported = |what: String| {
            let axes = axes_words(&key.axes);
            let at = if axes.is_empty() { axes } else { format!(" ({axes})") };
            self.observer.note(&format!("pilot: {}{at}, {}: {what}", key.gateway, loads.join(", ")));
        };
        if rate_per_s <= 0.0 || measurement.judgement.verdicts.throughput.contains(&Reason::Errors) {
            reported("too many errors, so the capacity is unknown".into());
            return None;
        }
        let rate = quantity::rate(rate_per_s);
        reported(match bound_by {
            BoundBy::Generator => format!("at least {rate}, limited by the load generator"),
            _ => format!("{rate}, limited by {}", bound_name(bound_by)),
        });
        Some(Carried {
            gateway: key.gateway.clone(),
            axes: key.axes.clone(),
            loads: loads.to_vec(),
            connections: measurement.connections,
            rate_per_s,
            bound_by,
        })
    }
}

fn trials(checked: &Checked) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for point in checked.points.iter().filter(|point| point.scenario.has_relative_rates()) {
        let trial = Trial::of(point.axes.clone(), &point.scenario);
        match trials.iter_mut().find(|known| known.scenario == trial.scenario) {
            Some(known) => known.join(trial),
            None => trials.push(trial),
        }
    }
    trials
}

impl Trial {
    fn of(axes: Axes, scenario: &Scenario) -> Self {
        let mut loads: Vec<(Load, Vec<String>)> = Vec::new();
        for (name, load) in scenario.loads.iter().filter(|(_, load)| load.is_relative()) {
            let (name, closed) = (load.one_of.as_deref().unwrap_or(name), closed(load));
            match loads.iter_mut().find(|(known, _)| *known == closed) {
                Some((_, names)) if names.last().is_some_and(|known| known == name) => {}
                Some((_, names)) => names.push(name.to_owned()),
                None => loads.push((closed, vec![name.to_owned()])),
            }
        }
        let shorter = |time: Time, max: Duration| Time(time.0.min(max));
        let mut tried = Scenario {
            warmup: shorter(scenario.warmup, WARMUP),
            duration: shorter(scenario.duration, PHASE),
            vary: Named::default(),
            cases: Vec::new(),
            cold_start: false,
            ..scenario.without_objectives().without_disturbances()
        };
        // The pilot does not use latencies, so its warm-up need not wait until they settle.
        tried.thresholds.warmup_growth = 1.0;
        let (closed, stands_for): (Vec<Load>, Vec<Vec<String>>) = loads.into_iter().unzip();
        let named = |(load, names): (Load, &Vec<String>)| (names[0].clone(), load);
        tried.loads = Named(closed.into_iter().zip(&stands_for).map(named).collect());
        let relative = || scenario.loads.iter().map(|(_, load)| load).filter(|load| load.is_relative());
        let of_direct = relative().any(|load| load.of == Some(ShareOf::Direct));
        let of_gateways = relative().any(|load| load.of != Some(ShareOf::Direct));
        Self { axes, scenario: tried, stands_for, of_gateways, of_direct }
    }

    /// The gateways for which the trial runs; `direct` is the upstream without a gateway.
    fn tried(&self) -> Vec<String> {
        let gateways = self.scenario.gateways.iter().filter(|_| self.of_gateways);
        let direct = self.of_direct.then(|| DIRECT.to_owned());
        gateways.map(|gateway| gateway.name.clone()).chain(direct).collect()
    }

    /// Adds the loads of `other`, whose scenario is the same.
    fn join(&mut self, other: Self) {
        self.of_gateways |= other.of_gateways;
        self.of_direct |= other.of_direct;
        for (names, others) in self.stands_for.iter_mut().zip(other.stands_for) {
            for other in others {
                if !names.contains(&other) {
                    names.push(other);
                }
            }
        }
    }
}

/// The closed load with the same requests and connections as `load`.
fn closed(load: &Load) -> Load {
    Load {
        model: ArrivalModel::Closed,
        connections: Levels::Constant(load.connections.greatest()),
        search: None,
        rate: None,
        one_of: None,
        of: None,
        objective: None,
        spacing: None,
        burst: None,
        steps: Vec::new(),
        duration: None,
        requests: None,
        spin: false,
        ..load.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::check::Known;
    use crate::read::{Overrides, read};
    use crate::source::Source;

    use super::*;

    fn checked(text: &str) -> Checked {
        let known = Known {
            drivers: ["weir", "nginx"].map(str::to_owned).to_vec(),
            origins: vec![],
            services: vec![],
            needs: [].into(),
            in_cluster: [].into(),
            cpus: 2,
            namespaces: || Ok(()),
        };
        let source = Source { name: "x.yaml".into(), text: text.into() };
        read(&source, &Overrides::default(), &known).unwrap()
    }

    fn tried(text: &str) -> Vec<(String, Vec<Vec<String>>)> {
        let words = |trial: Trial| (axes_words(&trial.axes), trial.stands_for);
        trials(&checked(text)).into_iter().map(words).collect()
    }

    const LOADS: &str = "\
name: x
gateways: [weir, nginx]
topology: { paths: [/, /create] }
loads:
  full: { model: closed }
  low: { model: open, rate: 10% }
  high: { model: open, rate: 50%, of: greatest }
  create: { model: open, rate: 10%, mix: [{ path: /create, method: POST, body: '{seq}' }] }
  fixed: { model: open, rate: 100/s }
  curve: { model: open, rates: [10%, 50%] }
";

    #[test]
    fn loads_with_the_same_requests_share_a_trial() {
        let loads = ["low high curve", "create"].map(|names| names.split(' ').map(str::to_owned).collect());
        assert_eq!(tried(LOADS), [(String::new(), loads.to_vec())]);
        assert!(tried("name: x\ngateways: [weir]\nloads: { a: { model: open, rate: 5/s } }\n").is_empty());
    }

    #[test]
    fn points_that_differ_only_in_rates_share_a_trial() {
        let axes = "vary: { loads.low.rate: [10%, 30%, 700/s], limits.data.cpus: [0.25, 0.5] }\n";
        let words: Vec<String> = tried(&format!("{LOADS}{axes}")).into_iter().map(|(axes, _)| axes).collect();
        // Only loads with relative rates need a trial. With the absolute rate 700/s, `low` needs none, so the last two
        // trials are only for the other loads.
        assert_eq!(
            words,
            [
                "limits.data.cpus = 0.25, loads.low.rate = 10%",
                "limits.data.cpus = 0.5, loads.low.rate = 10%",
                "limits.data.cpus = 0.25, loads.low.rate = 700/s",
                "limits.data.cpus = 0.5, loads.low.rate = 700/s"
            ]
        );
    }

    #[test]
    fn shares_of_the_upstream_need_a_trial_without_a_gateway() {
        let check = |of: &str, expected: &[&str]| {
            let trials = trials(&checked(&LOADS.replace("rate: 10% }", &format!("rate: 10%{of} }}"))));
            assert_eq!(trials[0].tried(), expected, "{of}");
        };
        check("", &["weir", "nginx"]);
        check(", of: direct", &["weir", "nginx", "direct"]);
        let only = "name: x\ngateways: [weir]\nloads: { a: { model: open, rate: 10%, of: direct } }\n";
        assert_eq!(trials(&checked(only))[0].tried(), ["direct"]);
    }

    #[test]
    fn a_trial_is_short_and_closed() {
        let checked = checked(LOADS);
        let trial = &trials(&checked)[0];
        let loads: Vec<(&str, &Load)> = trial.scenario.loads.iter().collect();
        assert_eq!(loads.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["low", "create"]);
        assert!(loads.iter().all(|(_, load)| load.model == ArrivalModel::Closed && load.rate.is_none()));
        assert_eq!(loads[1].1.mix.len(), 1);
        assert_eq!((trial.scenario.warmup.0, trial.scenario.duration.0), (WARMUP, PHASE));
        assert!(pilot_time(&checked).min > 4 * (WARMUP + PHASE), "two loads through two gateways");
    }
}
