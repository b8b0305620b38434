//! Loads that the rig spoiled are measured again: what the host or the generator itself did is looked at and no figure of
//! a gateway, so that leaving out what was spoiled favours nobody.

use weir_results::{ArrivalModel, Measurement, Reason, Stopped, Trial};

/// What spoils a load, the worse the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spoiled {
    /// An open loop's generator sent late, which is in the latencies.
    Late,
    /// Others took a processor, which is in everything.
    Disturbed,
}

impl Spoiled {
    /// What became of a load: one measurement, or the trials of a search. A search makes spoiled trials again itself, and
    /// is spoiled only where it gave up over them.
    pub(crate) fn of(measurements: &[Measurement]) -> Option<Self> {
        let gave_up =
            |trial: &Trial| trial.found.as_ref().is_some_and(|found| found.stopped == Stopped::VoidTrials);
        let counts = |measurement: &&Measurement| measurement.trial.as_ref().is_none_or(gave_up);
        measurements.iter().filter(counts).filter_map(Self::by).max()
    }

    fn by(measurement: &Measurement) -> Option<Self> {
        let verdicts = &measurement.judgement.verdicts;
        if verdicts.throughput.contains(&Reason::HostDisturbed) {
            return Some(Self::Disturbed);
        }
        let is_open = measurement.record.result.model == ArrivalModel::Open;
        (is_open && verdicts.latency.contains(&Reason::GeneratorLimited)).then_some(Self::Late)
    }

    /// Who did it, for a line that says that it is measured again.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Late => "the load generator sent late",
            Self::Disturbed => "host noise",
        }
    }
}

/// The first of the least spoiled attempts at something, at most `retries` more than one, and how many there were; `again`
/// is told of each further one and why it is made.
///
/// # Errors
/// Those of `measure`, in whichever attempt.
pub(crate) fn until_unspoiled<T, E>(
    retries: u32,
    mut measure: impl FnMut() -> Result<T, E>,
    spoiled: impl Fn(&T) -> Option<Spoiled>,
    again: impl Fn(Spoiled),
) -> Result<(T, u32), E> {
    let mut best = measure()?;
    let mut attempts = 1;
    let mut last = spoiled(&best);
    while let Some(by) = last.filter(|_| attempts <= retries) {
        again(by);
        let next = measure()?;
        attempts += 1;
        last = spoiled(&next);
        if last < spoiled(&best) {
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

    use super::Spoiled::{Disturbed, Late};
    use super::*;

    #[test]
    fn the_least_spoiled_attempt_counts_and_the_first_that_is_in_peace_is_the_last() {
        let check = |retries, attempts: &[Option<Spoiled>], kept: usize| {
            let (mut next, told) = (attempts.iter().enumerate(), RefCell::new(Vec::new()));
            let measure = || Ok::<_, ()>(next.next().expect("no attempt more than these"));
            let got = until_unspoiled(retries, measure, |of| *of.1, |by| told.borrow_mut().push(Some(by)));
            let count = attempts.len();
            assert_eq!(got.map(|((at, _), attempts)| (at, attempts as usize)), Ok((kept, count)));
            assert_eq!((next.len(), &told.borrow()[..]), (0, &attempts[..count - 1]));
        };
        check(1, &[None], 0);
        check(0, &[Some(Disturbed)], 0);
        check(1, &[Some(Disturbed), None], 1);
        check(1, &[Some(Late), Some(Disturbed)], 0);
        check(1, &[Some(Late), Some(Late)], 0);
        check(5, &[Some(Disturbed), Some(Disturbed), Some(Late), None], 3);
        check(2, &[Some(Disturbed), Some(Late), Some(Late)], 1);
    }

    #[test]
    fn what_cannot_be_measured_is_not_tried_again() {
        let failed = || Err::<(), _>("full");
        assert_eq!(until_unspoiled(3, failed, |()| Some(Late), |_| panic!("again")), Err("full"));
    }

    /// Any load that was measured, judged so.
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
    fn the_host_and_a_late_generator_spoil_a_load_and_nothing_of_a_gateways_does() {
        use ArrivalModel::{Closed, Open};
        let check = |model, throughput: &[Reason], latency: &[Reason], expected| {
            assert_eq!(Spoiled::of(&[load(model, throughput, latency)]), expected);
        };
        check(Open, &[], &[], None);
        check(Open, &[Reason::Errors], &[Reason::Overloaded, Reason::Throttled, Reason::NotStationary], None);
        check(Open, &[], &[Reason::GeneratorLimited], Some(Late));
        // A closed loop's generator is the limit of whatever answers fast, each time.
        check(Closed, &[Reason::GeneratorLimited], &[Reason::GeneratorLimited], None);
        check(Closed, &[Reason::HostDisturbed], &[Reason::HostDisturbed], Some(Disturbed));
        check(Open, &[Reason::HostDisturbed], &[Reason::GeneratorLimited], Some(Disturbed));
    }

    #[test]
    fn a_search_makes_its_spoiled_trials_again_itself() {
        let spoiled = |trial: Trial| {
            let measured = load(ArrivalModel::Open, &[Reason::HostDisturbed], &[Reason::HostDisturbed]);
            Spoiled::of(&[Measurement { trial: Some(trial), ..measured }])
        };
        let trial =
            |found: Option<Found>| Trial { number: 1, says: TrialSays::Void, why: String::new(), found };
        let found = |stopped: Stopped| Found {
            objective: Objective { latency_ns: BTreeMap::new(), errors: Some(0.01), own: Vec::new() },
            capacity_per_s: None,
            interval_per_s: None,
            at_least_per_s: None,
            below_per_s: None,
            limited_by: None,
            trials: 1,
            void: 1,
            stopped,
        };
        assert_eq!(spoiled(trial(None)), None);
        assert_eq!(spoiled(trial(Some(found(Stopped::Precise)))), None);
        assert_eq!(spoiled(trial(Some(found(Stopped::VoidTrials)))), Some(Disturbed));
    }
}
