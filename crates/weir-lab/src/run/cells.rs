//! Measures the cells of a run one after the other. Each cell is stored before the next one begins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_results::{Cell, CellKey, CellOutcome, Run, Store};

use crate::plan::estimate::TimeEstimate;
use crate::progress::{Observer, Pace, Progress};
use crate::{LabError, clock};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every cell of the plan is in the store.
    Finished,
    /// The run was stopped; its finished cells are in the store, and it can be resumed.
    Interrupted,
}

/// The cells of `run` that are not in the store yet, in the order of its plan.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn pending(run: &Run, store: &Store) -> Result<Vec<CellKey>, LabError> {
    let finished = store.finished(&run.id)?;
    Ok(run.plan.iter().filter(|key| !finished.contains(&key.index)).cloned().collect())
}

/// Measures every pending cell of `run` with `measure`, which returns `None` if the run was stopped during the cell.
/// `takes` returns the planned time of a cell.
///
/// # Errors
/// If `measure` fails or a finished cell cannot be written; earlier cells are in the store.
pub(crate) fn measure_all(
    run: &Run,
    store: &mut Store,
    stop: &AtomicBool,
    observer: &dyn Observer,
    takes: impl Fn(&CellKey) -> TimeEstimate,
    mut measure: impl FnMut(&CellKey) -> Result<Option<Cell>, LabError>,
) -> Result<Ended, LabError> {
    let pending = pending(run, store)?;
    let planned = run.plan.len();
    let mut pace = Pace::default();
    for (place, key) in pending.iter().enumerate() {
        let progress = |done: usize, pace: &Pace| {
            let left = pending[done + pending.len() - planned..].iter().map(&takes).sum();
            Progress { done, planned, left: pace.left(left) }
        };
        let done = planned - pending.len() + place;
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        observer.cell_started(key, progress(done, &pace));
        let started = Instant::now();
        let Some(cell) = measure(key)? else { return Ok(Ended::Interrupted) };
        store.add_cell(&run.id, &cell)?;
        // A failed cell ends early, so its time must not influence the estimate.
        if matches!(cell.outcome, CellOutcome::Measured { .. }) {
            pace.finished(takes(key), started.elapsed());
        }
        observer.cell_finished(&cell, progress(done + 1, &pace));
    }
    if run.ended_unix_ms.is_none() {
        store.end_run(&run.id, clock::unix_ms())?;
    }
    Ok(Ended::Finished)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::time::Duration;

    use weir_results::{Manifest, Measurement, SCHEMA_VERSION, StoreError, Thresholds};

    use super::*;

    #[derive(Default)]
    struct Watcher(RefCell<Vec<String>>);

    impl Observer for Watcher {
        fn note(&self, _: &str) {}
        fn cell_started(&self, key: &CellKey, progress: Progress) {
            let left = progress.left.min.as_secs();
            self.0.borrow_mut().push(format!("{} {}/{} {left}s", key.index, progress.done, progress.planned));
        }
        fn load_started(&self, _: &CellKey, _: &str, _: Duration) {}
        fn load_retried(&self, _: &CellKey, _: &str, _: &str) {}
        fn load_measured(&self, _: &CellKey, _: &Measurement) {}
        fn cell_finished(&self, _: &Cell, _: Progress) {}
    }

    struct Bench {
        folder: tempfile::TempDir,
        run: Run,
        store: Store,
    }

    fn bench(cells: u32) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("weir.db")).unwrap();
        let key = |index| CellKey { index, gateway: "weir".into(), axes: BTreeMap::new(), repeat: index };
        let run = Run {
            schema_version: SCHEMA_VERSION,
            id: "20261121-0210-aaaa".into(),
            name: "x".into(),
            question: String::new(),
            scenario: serde_json::json!({}),
            seed: 1,
            started_unix_ms: 0,
            ended_unix_ms: None,
            plan: (0..cells).map(key).collect(),
            objective: None,
            thresholds: Thresholds::default(),
            manifest: Manifest::default(),
        };
        store.begin_run(&run).unwrap();
        Bench { folder, run, store }
    }

    fn cell(key: &CellKey) -> Cell {
        let outcome = CellOutcome::Measured { measurements: vec![] };
        let key = key.clone();
        Cell {
            key,
            started_unix_ms: 1,
            ended_unix_ms: 2,
            outcome,
            parts: vec![],
            unequal: vec![],
            files: vec![],
            attempts: 1,
            cold_start: None,
        }
    }

    impl Bench {
        /// Runs the pending cells, and stops during cell `stop_at`. Returns the result, the indexes of the started
        /// cells, and the progress reports.
        fn go(&mut self, stop_at: Option<u32>) -> (Result<Ended, LabError>, Vec<u32>, Vec<String>) {
            let (watcher, mut asked) = (Watcher::default(), Vec::new());
            let stop = AtomicBool::new(false);
            let takes = |_: &CellKey| TimeEstimate::exactly(Duration::from_secs(10));
            let ended = measure_all(&self.run, &mut self.store, &stop, &watcher, takes, |key| {
                asked.push(key.index);
                Ok((stop_at != Some(key.index)).then(|| cell(key)))
            });
            (ended, asked, watcher.0.into_inner())
        }
    }

    #[test]
    fn a_resumed_run_measures_only_missing_cells() {
        let mut bench = bench(4);
        let (ended, asked, _) = bench.go(Some(2));
        assert_eq!((ended.unwrap(), asked), (Ended::Interrupted, vec![0, 1, 2]));
        assert_eq!(bench.store.finished(&bench.run.id).unwrap(), [0, 1].into());
        let (ended, asked, seen) = bench.go(None);
        assert_eq!((ended.unwrap(), asked), (Ended::Finished, vec![2, 3]));
        assert!(seen[0].starts_with("2 2/4 20s"), "{seen:?}");
        assert!(bench.store.run(&bench.run.id).unwrap().ended_unix_ms.is_some());
        let (ended, asked, _) = bench.go(None);
        assert_eq!((ended.unwrap(), asked), (Ended::Finished, vec![]));
    }

    #[test]
    fn a_stop_between_cells_starts_no_cell() {
        let mut bench = bench(2);
        let stop = AtomicBool::new(true);
        let ended = measure_all(
            &bench.run,
            &mut bench.store,
            &stop,
            &Watcher::default(),
            |_| TimeEstimate::default(),
            |key| panic!("cell {} was started", key.index),
        );
        assert_eq!(ended.unwrap(), Ended::Interrupted);
    }

    #[test]
    fn a_cell_that_another_process_stored_is_not_stored_twice() {
        let mut bench = bench(2);
        let mut other = Store::open(&bench.folder.path().join("weir.db")).unwrap();
        let id = bench.run.id.clone();
        let stop = AtomicBool::new(false);
        let ended = measure_all(
            &bench.run,
            &mut bench.store,
            &stop,
            &Watcher::default(),
            |_| TimeEstimate::default(),
            |key| {
                other.add_cell(&id, &cell(key)).unwrap();
                Ok(Some(cell(key)))
            },
        );
        assert!(matches!(ended, Err(LabError::Store(StoreError::CellExists { index: 0, .. }))), "{ended:?}");
    }
}
