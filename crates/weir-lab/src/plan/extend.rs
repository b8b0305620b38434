//! More repeats for a run that is there: planned by its own seed, so that its cells are those of a run that had
//! as many from its start.

use weir_results::Run;

use crate::read::Checked;
use crate::{LabError, plan};

/// `run` with as many repeats as `checked`, its scenario, now has; the cells that it had keep their places.
///
/// # Errors
/// When it has more repeats already, or its cells are not those that its scenario and seed give.
pub fn extended(run: &Run, checked: &Checked) -> Result<Run, LabError> {
    let repeats = checked.scenario.repeats;
    let had = run.plan.iter().map(|key| key.repeat + 1).max().unwrap_or(0);
    if repeats < had {
        return Err(LabError::Scenario {
            place: format!("--repeats {repeats}"),
            message: format!(
                "run {} already has {}, and weir does not remove repeats",
                run.id,
                weir_results::words::counted(had.into(), "repeat")
            ),
            remedy: format!("use at least {had}, or start a new run"),
        });
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
    }
    Ok(extended)
}
