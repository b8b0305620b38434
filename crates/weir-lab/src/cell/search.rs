//! Capacity searches: consecutive trials against the same processes; each trial is a measurement.

use std::sync::atomic::Ordering;

use weir_analysis::capacity::{Asked, Search, Step, TrialSeen};
use weir_analysis::quantity::rate;
use weir_document::Time;
use weir_results::{CellKey, Measurement, Part, Trial, is_baseline};

use super::Lab;
use super::error::CellError;
use super::load::{LoadRunner, Task};
use crate::plan;
use crate::scenario::Load;
use crate::scenario::setting::Setting;

/// A capacity search to run in a cell.
pub(crate) struct SearchTask<'a> {
    pub(crate) key: &'a CellKey,
    /// The load's name.
    pub(crate) name: &'a str,
    pub(crate) load: &'a Load,
    /// Share of errors above which the values of a trial are invalid; `None` if no objective limits errors.
    pub(crate) errors_max: Option<f64>,
    /// Seed from which each trial derives the seed of its arrivals.
    pub(crate) seed: u64,
    /// Adapts a load to the target of the cell. The number is the seed for the load's arrivals. Returns the adapted
    /// load and its [`Setting`].
    pub(crate) put: &'a dyn Fn(&Load, u64) -> (Load, Setting),
}

impl Lab<'_> {
    /// Runs trials until the search stops. Returns the measurement of each trial, and the parts that generated the
    /// load. The last measurement contains the result of the search.
    pub(crate) fn search(
        &self,
        runner: &mut LoadRunner<'_>,
        asked: Asked,
        of: &SearchTask<'_>,
    ) -> Result<(Vec<Measurement>, Vec<Part>), CellError> {
        let mut search = Search::new(asked);
        let (mut trials, mut generators): (Vec<Measurement>, Vec<Part>) = (Vec::new(), Vec::new());
        loop {
            let rate_per_s = match search.step() {
                Step::Try { rate_per_s } => rate_per_s,
                Step::Stop(found) => {
                    if let Some(trial) = trials.last_mut().and_then(|last| last.trial.as_mut()) {
                        trial.found = Some(*found);
                    }
                    return Ok((trials, generators));
                }
            };
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            let number = trials.len() as u32 + 1;
            let (measurement, parts, seen) = self.trial(runner, of, &search, number, rate_per_s)?;
            self.observer.load_measured(of.key, &measurement);
            trials.push(measurement);
            if generators.is_empty() {
                generators = parts;
            }
            search.add(seen);
        }
    }

    fn trial(
        &self,
        runner: &mut LoadRunner<'_>,
        of: &SearchTask<'_>,
        search: &Search,
        number: u32,
        rate_per_s: f64,
    ) -> Result<(Measurement, Vec<Part>, TrialSeen), CellError> {
        let (load, mut setting) = (of.put)(&of.load.trial(rate_per_s), plan::numbered_seed(of.seed, number));
        // The first trial uses the scenario's warm-up, because the processes are fresh. Later trials only wait until
        // queues settle.
        if number > 1 {
            setting.spec.warmup_ns = Time(of.load.trial_warmup()).as_ns();
            setting.spec.warmup_most_ns = setting.spec.warmup_ns;
        }
        let reported = format!("{}, trial {number} at {}", of.name, rate(rate_per_s));
        self.observer.load_started(of.key, &reported, plan::trial_time(of.load));
        let timeout_ns = setting.spec.timeout_ns;
        let (mut measurement, parts) =
            runner.measure(&Task { name: of.name, load: &load, setting, errors_max: of.errors_max })?;
        let seen = TrialSeen::of(
            search.bounds(),
            rate_per_s,
            &measurement.record,
            &measurement.judgement,
            timeout_ns,
            is_baseline(&of.key.gateway),
        );
        let why = match &seen.seen {
            Ok(gave) => {
                let bounds = search.bounds().iter().zip(gave);
                bounds.map(|(bound, seen)| bound.seen_words(seen)).collect::<Vec<_>>().join("; ")
            }
            Err(_) => measurement.judgement.evidence.first().cloned().unwrap_or_default(),
        };
        measurement.trial = Some(Trial { number, says: seen.says(), why, found: None });
        Ok((measurement, parts, seen))
    }
}
