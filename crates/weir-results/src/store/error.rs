//! Errors of the store, and their remedies.

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// An operation of the store failed. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's folder could not be created.
    #[error("{}: cannot create the folder of the database: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database does not exist.
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
        /// Newest version that this program supports.
        known: i64,
    },
    /// A SQLite database of another program.
    #[error("{}: the database belongs to another program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Not a database, or its pages are inconsistent.
    #[error("{}: the file is damaged or not a database ({detail}); it was not changed", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's message, or the value that cannot be read.
        detail: String,
    },
    /// No space is left.
    #[error("{}: the disk is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file or its folder cannot be written.
    #[error("{}: cannot write the database: {detail}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        detail: String,
    },
    /// Another process locked the database for longer than the timeout.
    #[error("{}: the database is locked by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The cell is already in the store: another weir process runs the same run.
    #[error("{}: cell {index} of run {run} is already in the database", path.display())]
    CellExists {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The cell's index in the plan.
        index: u32,
    },
    /// The stored plan is not a prefix of the new one: another weir process extended the run.
    #[error("{}: another process changed the plan of run {run}", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
    },
    /// The run is already in the database, with other content.
    #[error("{}: run {run} is already in the database with different content: {difference}", path.display())]
    RunDiffers {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The first difference.
        difference: String,
    },
    /// A value that does not fit its column.
    #[error("{}: cannot store a value: {detail}", path.display())]
    Unstorable {
        /// The file.
        path: PathBuf,
        /// The value, and why it does not fit.
        detail: String,
    },
    /// No run has this name.
    #[error("{}: no run `{wanted}`", path.display())]
    NoRun {
        /// The file.
        path: PathBuf,
        /// The requested name.
        wanted: String,
        /// The latest runs, newest first.
        latest: Vec<String>,
    },
    /// Several runs match the prefix.
    #[error("{}: `{prefix}` matches several runs: {}", path.display(), matches.join(", "))]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The requested prefix.
        prefix: String,
        /// Matching runs, newest first.
        matches: Vec<String>,
    },
    /// Any other SQLite error.
    #[error("{}: {detail}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
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

    /// Whether the caller's request is wrong, rather than the machine failing.
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
            // SQLite reports a full disk as a failed write, or as a file that cannot be opened.
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
            // A value cannot be converted, so the content contradicts the schema version of the file.
            None => Self::Damaged { path, detail },
        }
    }
}

/// Whether not even one more block fits next to `path`.
fn disk_is_full(path: &Path) -> bool {
    let probe = path.with_extension(format!("probe-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| {
        // Unlinked at once, so that the probe never stays.
        std::fs::remove_file(&probe)?;
        file.write_all(&[0; 8192])
    });
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::StorageFull)
}
