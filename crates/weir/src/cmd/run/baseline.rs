//! `weir run --baseline RUN`: compares the run with an earlier one at the end.

use weir_analysis::compare::{CompareError, Comparison, Dataset, Question, check, compare, label_apart};
use weir_results::{Cell, DIRECT, Run, Store};

use super::super::compare::of_run;
use crate::failure::Failure;

/// The dataset of the earlier run. It is read before the measurement begins.
pub(super) struct Baseline {
    dataset: Dataset,
}

impl Baseline {
    /// Finds the earlier run, and checks that `run` can be compared with it. `run` is not measured yet.
    pub(super) fn find(store: &Store, name: &str, run: &Run) -> Result<Self, Failure> {
        let id = store.find(name)?;
        let cells = store.cells(&id)?;
        let dataset = of_run(&store.run(&id)?, &cells, None)?;
        let has = |gateway: &str| cells.iter().any(|cell| cell.key.gateway == gateway);
        if !run.plan.iter().any(|key| key.gateway != DIRECT && has(&key.gateway)) {
            let message = format!("--baseline {name}: run {id} did not measure any gateway of the new run");
            let remedy = "use a run with at least one of these gateways: weir compares gateways by name";
            return Err(Failure::wrong_use(message, remedy));
        }
        check(&dataset, &of_run(run, &[], None)?).map_err(|error| {
            let remedy = format!(
                "use the baseline's conditions, or run without --baseline and then run `weir compare {id} last --force`"
            );
            Failure::wrong_use(format!("--baseline {name}: {}", apart(&error)), remedy)
        })?;
        Ok(Self { dataset })
    }

    /// Compares the earlier run with the run that was measured now.
    pub(super) fn compare(mut self, run: &Run, cells: &[Cell]) -> Result<Comparison, Failure> {
        let mut measured = of_run(run, cells, None)?;
        label_apart(&mut self.dataset, &mut measured);
        Ok(compare(&self.dataset, &measured, &Question::default())?)
    }
}

/// Converts the error of a comparison with the baseline. The text of [`CompareError`] does not fit: it says that both
/// sides were measured, but this run is not measured yet.
fn apart(error: &CompareError) -> String {
    let CompareError::Conditions(differences) = error else { return error.to_string() };
    let listed: Vec<String> = differences.iter().map(|of| format!("\n  {}", of.words())).collect();
    format!(
        "the baseline was measured under other conditions than this run (A: baseline, B: this run):{}",
        listed.concat()
    )
}
