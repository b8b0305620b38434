//! Errors of cells and loads that have no measurement.

use std::path::Path;

use weir_results::CellOutcome;
use weir_rig::RigError;

/// Why a cell has no measurements.
#[derive(Debug)]
pub(crate) enum CellError {
    /// The run was stopped.
    Stopped,
    /// The cell failed; other cells can succeed.
    Failed(CellOutcome),
    /// A running service or gateway rejected a request of weir. The code that turns this error into the outcome of the
    /// cell adds the end of the part's log.
    Refused {
        /// Name of the service or gateway.
        part: String,
        /// The rejected operation, and the reason.
        why: String,
    },
}

impl From<RigError> for CellError {
    fn from(error: RigError) -> Self {
        Self::Failed(outcome_of(&error))
    }
}

/// The outcome of a cell that failed with this error.
pub(crate) fn outcome_of(error: &RigError) -> CellOutcome {
    outcome(error.cause(), &error.to_string(), &error.remedy(), error.log_tail())
}

/// The error of a cell that failed because a process of the service `service` failed.
pub(crate) fn service_failed(service: &str, error: &RigError) -> CellError {
    failed(error.cause(), &format!("service `{service}`: {error}"), &error.remedy(), error.log_tail())
}

/// The error of a failed cell. `cause` must be a cause that [`CellOutcome::Failed`] lists.
pub(crate) fn failed(cause: &str, message: &str, remedy: &str, log_tail: &str) -> CellError {
    CellError::Failed(outcome(cause, message, remedy, log_tail))
}

pub(crate) fn outcome(cause: &str, message: &str, remedy: &str, log_tail: &str) -> CellOutcome {
    CellOutcome::Failed {
        cause: cause.to_owned(),
        message: message.to_owned(),
        remedy: remedy.to_owned(),
        log_tail: log_tail.to_owned(),
    }
}

/// The error of a cell that failed because of a file operation on `path`; `verb` names the operation, like `read`.
pub(crate) fn file_failed(verb: &str, path: &Path, error: &std::io::Error) -> CellError {
    let full = error.kind() == std::io::ErrorKind::StorageFull;
    let message = format!("cannot {verb} {}: {error}", path.display());
    match full {
        true => failed(
            "disk-full",
            &message,
            "free up disk space, or set TMPDIR to a directory on another disk",
            "",
        ),
        false => failed("generator", &message, "check that the folder for temporary files is writable", ""),
    }
}
