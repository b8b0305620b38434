//! Adds repeats to a run. The plan uses the run's seed, so the extended run equals a run that was started with this
//! number of repeats.

use weir_document::Problem;
use weir_results::Run;

use crate::read::Checked;
use crate::{LabError, plan};

/// Returns a copy of `run`, extended to the number of repeats in `checked`. `checked` is the scenario of the run, with
/// a larger number of repeats. Existing cells keep their indexes.
///
/// # Errors
/// If the run already has more repeats, or if this version of weir plans the existing cells in another order.
pub fn extended(run: &Run, checked: &Checked) -> Result<Run, LabError> {
    let repeats = checked.scenario.repeats;
    let had = run.repeats();
    if repeats < had {
        let message = format!(
            "run {} already has {}, and weir does not remove repeats",
            run.id,
            weir_results::words::counted(had.into(), "repeat")
        );
        let problem = Problem::of(format!("--repeats {repeats}"), message);
        let problem = problem.help(format!("use at least {had} repeats, or start a new run"));
        return Err(LabError::Scenario(problem));
    }
    let plan = plan::plan(checked, run.seed).cells;
    if !plan.starts_with(&run.plan) {
        return Err(LabError::Resume {
            run: run.id.clone(),
            why: "this version of weir plans the cells in a different order than in the stored run".into(),
        });
    }
    let mut extended = run.clone();
    if plan.len() > run.plan.len() {
        extended.plan = plan;
        extended.ended_unix_ms = None;
        extended.scenario["repeats"] = repeats.into();
        extended.manifest.repeats_were_added = true;
    }
    Ok(extended)
}
