//! Retries of loads that the host or the load generator disturbed. The decision uses no value of the gateway, so that no
//! gateway is favoured.

use weir_results::{ArrivalModel, Measurement, Reason, Stopped, Trial};

/// What disturbed a load; the later one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interference {
    /// The generator of an open loop sent late; this affects latencies.
    LateGenerator,
    /// Other processes took CPU time; this affects all values.
    HostNoise,
}

impl Interference {
    /// The interference of a load: one measurement, or the trials of a search. A search retries its trials itself, so it
    /// counts as disturbed only if it gave up on them.
    pub(crate) fn of(measurements: &[Measurement]) -> Option<Self> {
        let gave_up =
            |trial: &Trial| trial.found.as_ref().is_some_and(|found| found.stopped == Stopped::VoidTrials);
        let counts = |measurement: &&Measurement| measurement.trial.as_ref().is_none_or(gave_up);
        measurements.iter().filter(counts).filter_map(Self::by).max()
    }

    fn by(measurement: &Measurement) -> Option<Self> {
        let verdicts = &measurement.judgement.verdicts;
        if verdicts.throughput.contains(&Reason::HostDisturbed) {
            return Some(Self::HostNoise);
        }
        let is_open = measurement.record.result.model == ArrivalModel::Open;
        (is_open && verdicts.latency.contains(&Reason::GeneratorLimited)).then_some(Self::LateGenerator)
    }

    /// The cause, for the note about a retry.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::LateGenerator => "the load generator sent late",
            Self::HostNoise => "host noise",
        }
    }
}

/// Measures once and then up to `retries` times more, until nothing disturbed it. Returns the least disturbed attempt and
/// the number of attempts; `before_retry` gets the cause of each retry.
///
/// # Errors
/// Those of `measure`, of any attempt.
pub(crate) fn measure_with_retries<T, E>(
    retries: u32,
    mut measure: impl FnMut() -> Result<T, E>,
    interference: impl Fn(&T) -> Option<Interference>,
    before_retry: impl Fn(Interference),
) -> Result<(T, u32), E> {
    let mut best = measure()?;
    let mut attempts = 1;
    let mut last = interference(&best);
    while let Some(by) = last.filter(|_| attempts <= retries) {
        before_retry(by);
        let next = measure()?;
        attempts += 1;
        last = interference(&next);
        if last < interference(&best) {
            best = next;
        }
    }
    Ok((best, attempts))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use weir_results::{CellOutcome, Found, Objective, TrialSays};

    use super::Interference::{HostNoise, LateGenerator};
    use super::*;

    #[test]
    fn the_least_disturbed_attempt_counts_and_an_undisturbed_one_is_the_last() {
        let check = |retries, attempts: &[Option<Interference>], kept: usize| {
            let (mut next, causes) = (attempts.iter().enumerate(), RefCell::new(Vec::new()));
            let measure = || Ok::<_, ()>(next.next().expect("no attempt more than these"));
            let got =
                measure_with_retries(retries, measure, |of| *of.1, |by| causes.borrow_mut().push(Some(by)));
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
        assert_eq!(
            measure_with_retries(3, failed, |()| Some(LateGenerator), |_| panic!("again")),
            Err("full")
        );
    }

    /// A measured load with these verdicts.
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
        // The generator of a closed loop is the limit of every fast gateway, in each attempt.
        check(Closed, &[Reason::GeneratorLimited], &[Reason::GeneratorLimited], None);
        check(Closed, &[Reason::HostDisturbed], &[Reason::HostDisturbed], Some(HostNoise));
        check(Open, &[Reason::HostDisturbed], &[Reason::GeneratorLimited], Some(HostNoise));
    }

    #[test]
    fn a_search_retries_its_trials_itself() {
        let interference = |trial: Trial| {
            let measured = load(ArrivalModel::Open, &[Reason::HostDisturbed], &[Reason::HostDisturbed]);
            Interference::of(&[Measurement { trial: Some(trial), ..measured }])
        };
        let trial =
            |found: Option<Found>| Trial { number: 1, says: TrialSays::Void, why: String::new(), found };
        let found = |stopped: Stopped| Found {
            objective: Objective { latency_ns: BTreeMap::new(), errors: Some(0.01), ..Objective::default() },
            capacity_per_s: None,
            interval_per_s: None,
            at_least_per_s: None,
            below_per_s: None,
            limited_by: None,
            trials: 1,
            void: 1,
            stopped,
        };
        assert_eq!(interference(trial(None)), None);
        assert_eq!(interference(trial(Some(found(Stopped::Precise)))), None);
        assert_eq!(interference(trial(Some(found(Stopped::VoidTrials)))), Some(HostNoise));
    }
}
