//! Errors of runs.

use weir_document::{Position, Problem};
use weir_results::StoreError;
use weir_rig::RigError;

/// A run that cannot start or continue. A failed cell is a result, not an error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A scenario that cannot be read.
    #[error("{0}")]
    Document(#[from] Problem<Position>),
    /// A scenario with an error. The place is file, line and column; or the argument or axis.
    #[error("{0}")]
    Scenario(Problem),
    /// Several errors of one scenario.
    #[error("{}", lines(.0))]
    Several(Vec<LabError>),
    /// No scenario with that name.
    #[error("{}", .0.message)]
    NoScenario(Problem<()>),
    /// A scenario that this host cannot run. The place is as in `Scenario`.
    #[error("{0}")]
    Host(Problem),
    /// The run cannot be resumed.
    #[error("run {run} cannot be resumed: {why}")]
    Resume {
        /// The run's id.
        run: String,
        /// The reason.
        why: String,
    },
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The rig failed outside a cell.
    #[error("{0}")]
    Rig(#[from] RigError),
}

impl LabError {
    /// Combines at least one error; removes duplicates.
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

    /// The single errors.
    pub fn each(&self) -> &[LabError] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    /// The remedy; for several errors, that of the first.
    pub fn remedy(&self) -> String {
        match self {
            Self::Several(errors) => errors.first().map(Self::remedy).unwrap_or_default(),
            Self::Document(problem) => problem.remedy.clone(),
            Self::NoScenario(problem) => problem.remedy.clone(),
            Self::Scenario(problem) | Self::Host(problem) => problem.remedy.clone(),
            Self::Resume { .. } => "start a new run of its scenario".into(),
            Self::Store(error) => error.remedy(),
            Self::Rig(error) => error.remedy(),
        }
    }

    /// Whether the user made the error, rather than the environment.
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
