//! What can go wrong with the store, and what to do about it.

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The store could not do what was asked. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's folder could not be made.
    #[error("{}: cannot create the folder of the database: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no database.
    #[error("{}: no such database", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer weir.
    #[error("{}: the database has version {found}, but this weir supports versions up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Greatest version this program reads.
        known: i64,
    },
    /// A SQLite database of another program.
    #[error("{}: the database belongs to another program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Not a database, or one whose pages contradict each other.
    #[error("{}: the file is damaged or not a database ({detail}); it was not changed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says, or which value cannot be read.
        detail: String,
    },
    /// No space left.
    #[error("{}: the disk is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file, or its folder, cannot be written.
    #[error("{}: cannot write the database: {detail}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// Another process held the database for longer than the time-out.
    #[error("{}: the database is locked by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The cell is in the store already: another weir carries on the same run.
    #[error("{}: cell {index} of run {run} is already in the database", path.display())]
    CellExists {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The cell's place in the plan.
        index: u32,
    },
    /// The run's plan in the store is not the beginning of the one that it is to have: another weir extended it.
    #[error("{}: another process changed the plan of run {run}", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
    },
    /// The run is in the database already, and not the same.
    #[error("{}: run {run} is already in the database with different content: {difference}", path.display())]
    RunDiffers {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// Where it differs.
        difference: String,
    },
    /// A value that no column can hold.
    #[error("{}: cannot store a value: {detail}", path.display())]
    Unstorable {
        /// The file.
        path: PathBuf,
        /// Which value, and why.
        detail: String,
    },
    /// No run of that name.
    #[error("{}: no run `{wanted}`", path.display())]
    NoRun {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        wanted: String,
        /// The latest runs, newest first.
        latest: Vec<String>,
    },
    /// The prefix fits several runs.
    #[error("{}: `{prefix}` matches several runs: {}", path.display(), matches.join(", "))]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        prefix: String,
        /// Every run that it fits, newest first.
        matches: Vec<String>,
    },
    /// Anything else SQLite says.
    #[error("{}: {detail}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
}

impl StoreError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Folder { .. } | Self::Unwritable { .. } => {
                "use a writable file with --db FILE".into()
            }
            Self::Missing { .. } => "`weir run quickstart` creates it; or use another file with --db FILE".into(),
            Self::Newer { .. } => "use the version of weir that wrote it, or another file with --db FILE".into(),
            Self::Foreign { .. } => "use another file with --db FILE".into(),
            Self::Damaged { .. } => {
                "move it away (`sqlite3 FILE .recover` may rescue its content), or use another file with --db FILE"
                    .into()
            }
            Self::Full { .. } => "free disk space, or use a file on another disk with --db FILE".into(),
            Self::Busy { .. } => "wait until the other process ends, or use another file with --db FILE".into(),
            Self::CellExists { .. } => "wait until the other weir process has finished this run".into(),
            Self::RunDiffers { .. } => {
                "nothing was changed; to keep both, import into another database with --db FILE".into()
            }
            Self::Unstorable { .. } => "nothing was changed; the value is outside the range of measurements".into(),
            Self::OtherPlan { .. } => "wait until the other weir process has finished this run".into(),
            Self::NoRun { latest, .. } if latest.is_empty() => {
                "there are no runs yet; `weir run quickstart` creates one".into()
            }
            Self::NoRun { latest, .. } => format!("latest runs: {}; `weir runs` lists all", latest.join(", ")),
            Self::Ambiguous { .. } => "use more characters of the id".into(),
            Self::Other { .. } => "if the error persists, use another file with --db FILE".into(),
        }
    }

    /// Whether the caller asked for something that is not there, rather than the machine failing.
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::NoRun { .. }
                | Self::Ambiguous { .. }
                | Self::Missing { .. }
                | Self::RunDiffers { .. }
                | Self::Unstorable { .. }
        )
    }

    pub(super) fn from_sqlite(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged { path, detail },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            // SQLite reports a full disk as a failed write here, and as a file that cannot be opened there.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if disk_is_full(&path) => {
                Self::Full { path }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::Unwritable { path, detail }
            }
            Some(ErrorCode::SystemIoFailure) => Self::Unwritable { path, detail },
            Some(_) => Self::Other { path, detail },
            None if matches!(error, rusqlite::Error::ToSqlConversionFailure(_)) => {
                Self::Unstorable { path, detail }
            }
            // Conversions of what the file holds: the file contradicts the schema that it claims.
            None => Self::Damaged { path, detail },
        }
    }
}

/// Whether not even one block finds room beside `path`.
fn disk_is_full(path: &Path) -> bool {
    let probe = path.with_extension(format!("probe-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| {
        // Gone by its name at once, so that whatever happens now nothing stays.
        std::fs::remove_file(&probe)?;
        file.write_all(&[0; 8192])
    });
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::StorageFull)
}
