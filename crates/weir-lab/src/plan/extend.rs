//! Adds repeats to a run. The plan uses the run's seed, so that the result equals a run that had as many repeats from its
//! start.

use weir_document::Problem;
use weir_results::Run;

use crate::read::Checked;
use crate::{LabError, plan};

/// `run` with the repeats of `checked`, its scenario; existing cells keep their places.
///
/// # Errors
/// If the run has more repeats already, or its scenario and seed result in other cells.
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
        let problem = problem.help(format!("use at least {had}, or start a new run"));
        return Err(LabError::Scenario(problem));
    }
    let plan = plan::plan(checked, run.seed).cells;
    if !plan.starts_with(&run.plan) {
        return Err(LabError::Resume {
            run: run.id.clone(),
            why: "this version of weir plans its cells in another order".into(),
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
