//! Errors of runs.

use weir_document::{Position, Problem};
use weir_results::StoreError;
use weir_rig::RigError;

/// Why a run cannot start or continue. A failed cell is a result of a run, not an error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The text of a scenario cannot be read.
    #[error("{0}")]
    Document(#[from] Problem<Position>),
    /// A scenario has an error. The problem contains the place of the error: file, line and column; or the command-line
    /// argument; or the field.
    #[error("{0}")]
    Scenario(Problem),
    /// Several errors of one scenario.
    #[error("{}", lines(.0))]
    Several(Vec<LabError>),
    /// The scenario does not exist, or its file cannot be read.
    #[error("{}", .0.message)]
    NoScenario(Problem<()>),
    /// A scenario is valid, but this host cannot run it. The problem's place has the form that [`LabError::Scenario`]
    /// describes, or is the URL of a remote gateway.
    #[error("{0}")]
    Host(Problem),
    /// The run cannot be resumed.
    #[error("run {run} cannot be resumed: {why}")]
    Resume {
        /// ID of the run.
        run: String,
        /// Why the run cannot be resumed.
        why: String,
    },
    /// The store with the results cannot be read or written.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Preparing or cleaning up this host failed, outside a cell.
    #[error("{0}")]
    Rig(#[from] RigError),
}

impl LabError {
    /// Combines errors into one, without duplicates. `errors` must not be empty.
    pub(crate) fn of_all(errors: impl IntoIterator<Item = LabError>) -> LabError {
        let mut all: Vec<LabError> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if all.iter().all(|other| other.to_string() != text) {
                all.push(error);
            }
        }
        if all.len() == 1 { all.swap_remove(0) } else { Self::Several(all) }
    }

    /// The errors in [`LabError::Several`]; for any other variant, the error itself.
    pub fn each(&self) -> &[LabError] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    /// What the user can do about the error; for several errors, the remedy of the first one.
    pub fn remedy(&self) -> String {
        match self {
            Self::Several(errors) => errors.first().map(Self::remedy).unwrap_or_default(),
            Self::Document(problem) => problem.remedy.clone(),
            Self::NoScenario(problem) => problem.remedy.clone(),
            Self::Scenario(problem) | Self::Host(problem) => problem.remedy.clone(),
            Self::Resume { .. } => "start a new run of the scenario".into(),
            Self::Store(error) => error.remedy(),
            Self::Rig(error) => error.remedy(),
        }
    }

    /// Whether the user caused the error, not the environment.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Document(_) | Self::Scenario(_) | Self::NoScenario(_) | Self::Resume { .. } => true,
            Self::Host(_) => false,
            Self::Several(errors) => errors.iter().any(Self::is_wrong_use),
            Self::Rig(error) => error.is_wrong_use(),
            Self::Store(error) => error.is_wrong_use(),
        }
    }
}

fn lines(errors: &[LabError]) -> String {
    errors.iter().map(LabError::to_string).collect::<Vec<_>>().join("\n")
}
