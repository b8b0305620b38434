//! Retries of loads after host noise or late sends of the generator. The decision uses no value of the gateway, so that
//! no gateway is favoured.

use std::cell::Cell;
use std::time::Duration;

use weir_results::{ArrivalModel, Bounds, Measurement, Reason, Stopped, Trial};

use crate::plan::estimate::RETRIES_SHARE_MAX;

/// Number of consecutive retries without improvement after which weir regards the noise as constant, and stops
/// retrying.
const IN_VAIN_MAX: u32 = 3;

/// Metrics whose noise is a reason for a retry. Other metrics, such as tail latencies, are noisy in nearly every load.
const MAIN_VALUES: [&str; 3] = ["throughput", "cpu", "p50"];

/// The interference of a load, in ascending order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interference {
    /// The generator sent requests of an open loop late; this affects latencies.
    LateGenerator,
    /// Other processes took CPU time; this affects all values.
    HostNoise,
}

impl Interference {
    /// The most severe interference in the measurements of a load. A search retries its trials itself, so its
    /// interference counts only if the search stopped because too many trials were invalid.
    pub(crate) fn of(measurements: &[Measurement]) -> Option<Self> {
        let gave_up =
            |trial: &Trial| trial.found.as_ref().is_some_and(|found| found.stopped == Stopped::InvalidTrials);
        let counts = |measurement: &&Measurement| measurement.trial.as_ref().is_none_or(gave_up);
        measurements.iter().filter(counts).filter_map(Self::by).max()
    }

    fn by(measurement: &Measurement) -> Option<Self> {
        let (verdicts, bounds) = (&measurement.judgement.verdicts, &measurement.judgement.bounds);
        let by_noise = |of: &Bounds| !of.is_valid && of.reasons.contains(&Reason::HostNoise);
        let is_noisy = match bounds {
            Some(bounds) => MAIN_VALUES.iter().filter_map(|name| bounds.get(*name)).any(by_noise),
            None => verdicts.throughput.contains(&Reason::HostNoise),
        };
        if is_noisy {
            return Some(Self::HostNoise);
        }
        let is_open = measurement.record.result.model == ArrivalModel::Open;
        (is_open && verdicts.latency.contains(&Reason::GeneratorLimited)).then_some(Self::LateGenerator)
    }

    /// The cause, for the note about a retry.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::LateGenerator => "the load generator sent requests late",
            Self::HostNoise => "host noise",
        }
    }
}

/// The retries of a run: how much time is left for them, and whether they help.
#[derive(Debug)]
pub(crate) struct Retries {
    left: Cell<Duration>,
    in_vain: Cell<u32>,
}

impl Retries {
    /// Limits the total time of retries to the share `RETRIES_SHARE_MAX` of `planned`, the duration of the run without
    /// retries.
    pub(crate) fn of_run(planned: Duration) -> Self {
        Self { left: Cell::new(planned.mul_f64(RETRIES_SHARE_MAX)), in_vain: Cell::new(0) }
    }

    /// Whether another attempt that lasts `takes` is allowed: the run has time for it, and recent retries have helped.
    fn allow(&self, takes: Duration) -> bool {
        self.in_vain.get() < IN_VAIN_MAX && takes <= self.left.get()
    }

    /// Counts a retry that took `takes`. `has_helped` must be true if this retry was less disturbed than the previous
    /// attempt.
    fn made(&self, takes: Duration, has_helped: bool) {
        self.left.set(self.left.get().saturating_sub(takes));
        self.in_vain.set(if has_helped { 0 } else { self.in_vain.get() + 1 });
    }

    /// Measures once. Then retries up to `most` times, while the last measurement has interference, the run has time
    /// and retries help. Returns the least disturbed attempt and the number of attempts.
    ///
    /// `takes` is the length of an attempt; `before_retry` gets the cause of each retry.
    ///
    /// # Errors
    /// If `measure` fails in any attempt.
    pub(crate) fn measure<T, E>(
        &self,
        (most, takes): (u32, Duration),
        mut measure: impl FnMut() -> Result<T, E>,
        interference: impl Fn(&T) -> Option<Interference>,
        before_retry: impl Fn(Interference),
    ) -> Result<(T, u32), E> {
        let mut best = measure()?;
        let mut attempts = 1;
        let mut last = interference(&best);
        if last.is_none() {
            self.in_vain.set(0);
        }
        while let Some(by) = last.filter(|_| attempts <= most && self.allow(takes)) {
            before_retry(by);
            let next = measure()?;
            attempts += 1;
            let now = interference(&next);
            self.made(takes, now < last);
            last = now;
            if last < interference(&best) {
                best = next;
            }
        }
        Ok((best, attempts))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use weir_results::{CellOutcome, Found, Objective, TrialSays};

    use super::Interference::{HostNoise, LateGenerator};
    use super::*;

    #[test]
    fn the_least_disturbed_attempt_counts_and_a_quiet_one_ends_retries() {
        let check = |retries, attempts: &[Option<Interference>], kept: usize| {
            let (mut next, causes) = (attempts.iter().enumerate(), RefCell::new(Vec::new()));
            let measure = || Ok::<_, ()>(next.next().expect("no further attempt"));
            let takes = Duration::from_secs(1);
            let run = Retries::of_run(takes * 100);
            let got =
                run.measure((retries, takes), measure, |of| *of.1, |by| causes.borrow_mut().push(Some(by)));
            let count = attempts.len();
            assert_eq!(got.map(|((at, _), attempts)| (at, attempts as usize)), Ok((kept, count)));
            assert_eq!((next.len(), &causes.borrow()[..]), (0, &attempts[..count - 1]));
        };
        check(1, &[None], 0);
        check(0, &[Some(HostNoise)], 0);
        check(1, &[Some(HostNoise), None], 1);
        check(1, &[Some(LateGenerator), Some(HostNoise)], 0);
        check(1, &[Some(LateGenerator), Some(LateGenerator)], 0);
        check(5, &[Some(HostNoise), Some(HostNoise), Some(LateGenerator), None], 3);
        check(2, &[Some(HostNoise), Some(LateGenerator), Some(LateGenerator)], 1);
    }

    #[test]
    fn errors_are_not_retried() {
        let failed = || Err::<(), _>("full");
        let run = Retries::of_run(Duration::from_secs(100));
        let got = run.measure((3, Duration::ZERO), failed, |()| Some(LateGenerator), |_| panic!("again"));
        assert_eq!(got, Err("full"));
    }

    /// Returns the number of attempts at each load, in a run that is planned to take `planned_s` seconds. Each attempt
    /// takes one second. Each entry of `loads` lists the interference of one load's attempts, in order. If a load has
    /// more attempts than its list is long, the list starts again.
    fn attempts(planned_s: u64, loads: &[&[Option<Interference>]]) -> Vec<u32> {
        let run = Retries::of_run(Duration::from_secs(planned_s));
        let of_load = |attempts: &&[Option<Interference>]| {
            let mut next = attempts.iter().copied().cycle();
            let measure = || Ok::<_, ()>(next.next().unwrap());
            run.measure((2, Duration::from_secs(1)), measure, |of| *of, |_| {}).unwrap().1
        };
        loads.iter().map(of_load).collect()
    }

    #[test]
    fn retries_take_half_of_the_planned_time_at_most() {
        // The second attempt of each load has no interference.
        let helped: &[Option<Interference>] = &[Some(HostNoise), None];
        assert_eq!(attempts(8, &[helped; 8]), [2, 2, 2, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn retries_stop_during_constant_noise_and_restart_after_it() {
        let (constant, quiet, helped): (&[_], &[_], &[_]) =
            (&[Some(HostNoise)], &[None], &[Some(HostNoise), None]);
        assert_eq!(attempts(100, &[constant; 4]), [3, 2, 1, 1]);
        assert_eq!(attempts(100, &[constant, constant, helped, quiet, helped]), [3, 2, 1, 1, 2]);
    }

    /// A measured load with the verdicts `throughput` and `latency`.
    fn load(model: ArrivalModel, throughput: &[Reason], latency: &[Reason]) -> Measurement {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");
        let archive = weir_results::read_archive("fixture", std::fs::File::open(file).unwrap()).unwrap();
        let measured = archive.cells.into_iter().find_map(|cell| match cell.outcome {
            CellOutcome::Measured { measurements } => measurements.into_iter().next(),
            _ => None,
        });
        let mut measured = measured.unwrap();
        measured.record.result.model = model;
        measured.judgement.bounds = None;
        measured.judgement.verdicts.throughput = throughput.to_vec();
        measured.judgement.verdicts.latency = latency.to_vec();
        measured
    }

    #[test]
    fn only_the_host_and_a_late_generator_disturb_a_load() {
        use ArrivalModel::{Closed, Open};
        let check = |model, throughput: &[Reason], latency: &[Reason], expected| {
            assert_eq!(Interference::of(&[load(model, throughput, latency)]), expected);
        };
        check(Open, &[], &[], None);
        check(Open, &[Reason::Errors], &[Reason::Overloaded, Reason::Throttled, Reason::NotStationary], None);
        check(Open, &[], &[Reason::GeneratorLimited], Some(LateGenerator));
        // In closed loop, the generator limits the throughput of every fast gateway, so a retry would not help.
        check(Closed, &[Reason::GeneratorLimited], &[Reason::GeneratorLimited], None);
        check(Closed, &[Reason::HostNoise], &[Reason::HostNoise], Some(HostNoise));
        check(Open, &[Reason::HostNoise], &[Reason::GeneratorLimited], Some(HostNoise));
    }

    #[test]
    fn a_search_retries_its_trials_itself() {
        let interference = |trial: Trial| {
            let measured = load(ArrivalModel::Open, &[Reason::HostNoise], &[Reason::HostNoise]);
            Interference::of(&[Measurement { trial: Some(trial), ..measured }])
        };
        let trial =
            |found: Option<Found>| Trial { number: 1, says: TrialSays::Invalid, why: String::new(), found };
        let found = |stopped: Stopped| Found {
            objective: Objective { latency_ns: BTreeMap::new(), errors: Some(0.01), ..Objective::default() },
            capacity_per_s: None,
            interval_per_s: None,
            at_least_per_s: None,
            below_per_s: None,
            limited_by: None,
            trials: 1,
            invalid: 1,
            stopped,
        };
        assert_eq!(interference(trial(None)), None);
        assert_eq!(interference(trial(Some(found(Stopped::Precise)))), None);
        assert_eq!(interference(trial(Some(found(Stopped::InvalidTrials)))), Some(HostNoise));
    }
}
