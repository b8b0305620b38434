//! Cells that the host disturbed are measured again: who takes a processor away doesn't look at the figures first, so
//! that leaving out what was disturbed favours nobody.

use weir_results::{Cell, CellKey, CellOutcome, DIRECT, Measurement, Reason, Stopped, Trial};

use crate::LabError;
use crate::progress::Observer;

/// Measures the cell `key` with `measure`, and up to `retries` times again while the host disturbs it. The attempt with
/// the fewest disturbed loads counts; how many attempts there were is kept with it. `None` when the run was stopped
/// meanwhile.
///
/// # Errors
/// Those of `measure`.
pub(crate) fn until_undisturbed(
    key: &CellKey,
    retries: u32,
    observer: &dyn Observer,
    measure: impl FnMut() -> Result<Option<Cell>, LabError>,
) -> Result<Option<Cell>, LabError> {
    let name = if key.gateway == DIRECT { "the direct cell" } else { &key.gateway };
    let again =
        || observer.note(&format!("{name}, repeat {}: the host disturbed it; once more", key.repeat + 1));
    let least = least_disturbed(retries, measure, disturbed_loads, again)?;
    Ok(least.map(|(cell, attempts)| Cell { attempts, ..cell }))
}

/// The first of the least disturbed attempts, at most `retries` more than one, and how many there were; `again` is told
/// of each further one.
fn least_disturbed<T, E>(
    retries: u32,
    mut measure: impl FnMut() -> Result<Option<T>, E>,
    disturbed: impl Fn(&T) -> usize,
    again: impl Fn(),
) -> Result<Option<(T, u32)>, E> {
    let Some(mut best) = measure()? else { return Ok(None) };
    let mut attempts = 1;
    while attempts <= retries && disturbed(&best) > 0 {
        again();
        let Some(next) = measure()? else { return Ok(None) };
        attempts += 1;
        if disturbed(&next) < disturbed(&best) {
            best = next;
        }
    }
    Ok(Some((best, attempts)))
}

/// Loads of a cell from which others took a processor, which voids all their figures. A cell that failed was not
/// disturbed: it failed. A search has made disturbed trials again itself, unless it gave up over them.
fn disturbed_loads(cell: &Cell) -> usize {
    let CellOutcome::Measured { measurements } = &cell.outcome else { return 0 };
    let gave_up =
        |trial: &Trial| trial.found.as_ref().is_some_and(|found| found.stopped == Stopped::VoidTrials);
    let counts = |measurement: &&Measurement| measurement.trial.as_ref().is_none_or(gave_up);
    let is_disturbed = |of: &&Measurement| of.judgement.verdicts.throughput.contains(&Reason::HostDisturbed);
    measurements.iter().filter(counts).filter(is_disturbed).count()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Shared;
    use std::collections::BTreeMap;

    use weir_results::{Found, Objective, TrialSays};

    use super::*;

    #[test]
    fn the_least_disturbed_attempt_counts_and_the_first_that_is_in_peace_is_the_last() {
        let check = |retries, disturbed: &[Option<usize>], expected: Result<Option<(usize, u32)>, ()>| {
            let (mut next, told) = (disturbed.iter(), Shared::new(0));
            let measure = || Ok(*next.next().expect("no attempt more than these"));
            let got = least_disturbed(retries, measure, |of| *of, || told.set(told.get() + 1));
            assert_eq!(got, expected);
            assert_eq!((next.len(), told.get()), (0, disturbed.len() - 1));
        };
        check(1, &[Some(0)], Ok(Some((0, 1))));
        check(0, &[Some(2)], Ok(Some((2, 1))));
        check(1, &[Some(2), Some(0)], Ok(Some((0, 2))));
        check(1, &[Some(1), Some(2)], Ok(Some((1, 2))));
        check(5, &[Some(3), Some(1), Some(2), Some(0)], Ok(Some((0, 4))));
        check(2, &[Some(1), None], Ok(None));
    }

    #[test]
    fn a_search_makes_its_disturbed_trials_again_itself() {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");
        let archive = weir_results::read_archive("fixture", std::fs::File::open(file).unwrap()).unwrap();
        let is_measured = |cell: &Cell| matches!(cell.outcome, CellOutcome::Measured { .. });
        let mut cell = archive.cells.into_iter().find(is_measured).unwrap();
        let mut disturbed = |trial: Option<Trial>| {
            let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
            measurements.truncate(1);
            measurements[0].judgement.verdicts.throughput = vec![Reason::HostDisturbed];
            measurements[0].trial = trial;
            disturbed_loads(&cell)
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
        assert_eq!(disturbed(None), 1);
        assert_eq!(disturbed(Some(trial(None))), 0);
        assert_eq!(disturbed(Some(trial(Some(found(Stopped::Precise))))), 0);
        assert_eq!(disturbed(Some(trial(Some(found(Stopped::VoidTrials))))), 1);
    }

    #[test]
    fn what_cannot_be_measured_is_not_tried_again() {
        let failed = || Err::<Option<usize>, _>("full");
        assert_eq!(least_disturbed(3, failed, |of| *of, || panic!("again")), Err("full"));
    }
}
