//! `weir run --baseline RUN`: compares the run with an earlier one.

use weir_analysis::compare::{Comparison, Dataset, Question, check, compare, label_apart};
use weir_results::{Cell, DIRECT, Run, Store};

use super::super::compare::of_run;
use crate::failure::Failure;

/// The run to compare with, found before the measurement.
pub(super) struct Baseline {
    dataset: Dataset,
}

impl Baseline {
    /// Finds it, and checks that `run`, which is not measured yet, can be compared with it.
    pub(super) fn find(store: &Store, name: &str, run: &Run) -> Result<Self, Failure> {
        let id = store.find(name)?;
        let cells = store.cells(&id)?;
        let dataset = of_run(&store.run(&id)?, &cells, None)?;
        let has = |gateway: &str| cells.iter().any(|cell| cell.key.gateway == gateway);
        if !run.plan.iter().any(|key| key.gateway != DIRECT && has(&key.gateway)) {
            let message = format!("--baseline {name}: run {id} has none of the gateways of this run");
            let remedy = "use a run that has one of them: weir compares gateways by name";
            return Err(Failure::wrong_use(message, remedy));
        }
        check(&dataset, &of_run(run, &[], None)?).map_err(|error| {
            let remedy = format!(
                "run it under the same conditions, or without --baseline and then `weir compare {id} last --force`"
            );
            Failure::wrong_use(format!("--baseline {name}: {error}"), remedy)
        })?;
        Ok(Self { dataset })
    }

    /// Compares the measured run with it.
    pub(super) fn compare(mut self, run: &Run, cells: &[Cell]) -> Result<Comparison, Failure> {
        let mut measured = of_run(run, cells, None)?;
        label_apart(&mut self.dataset, &mut measured);
        Ok(compare(&self.dataset, &measured, &Question::default())?)
    }
}
