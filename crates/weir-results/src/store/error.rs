//! Errors of the store, and their remedies.

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// An operation of the store failed. Every message contains the file name.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's folder could not be created.
    #[error("{}: cannot create the folder of the database: {source}", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Why the folder could not be created.
        source: std::io::Error,
    },
    /// The database does not exist.
    #[error("{}: no such database", path.display())]
    Missing {
        /// Path of the database.
        path: PathBuf,
    },
    /// The database was written by a newer weir.
    #[error("{}: the database has version {found}, but this weir supports versions up to {known}", path.display())]
    Newer {
        /// Path of the database.
        path: PathBuf,
        /// Version of the database.
        found: i64,
        /// Newest version that this program supports.
        known: i64,
    },
    /// The file is an SQLite database of another program.
    #[error("{}: the database belongs to another program", path.display())]
    Foreign {
        /// Path of the database.
        path: PathBuf,
    },
    /// The file is not a database, or its pages are inconsistent.
    #[error("{}: the file is damaged or not a database ({detail}); it was not changed", path.display())]
    Damaged {
        /// Path of the database.
        path: PathBuf,
        /// SQLite's message, or the value that cannot be read.
        detail: String,
    },
    /// No space is left on the disk.
    #[error("{}: the disk is full", path.display())]
    Full {
        /// Path of the database.
        path: PathBuf,
    },
    /// The file or its folder cannot be written.
    #[error("{}: cannot write the database: {detail}", path.display())]
    Unwritable {
        /// Path of the database.
        path: PathBuf,
        /// SQLite's message.
        detail: String,
    },
    /// Another process locked the database for longer than the timeout.
    #[error("{}: the database is locked by another process", path.display())]
    Busy {
        /// Path of the database.
        path: PathBuf,
    },
    /// The cell is already in the store, because another weir process executes the same run.
    #[error("{}: cell {index} of run {run} is already in the database", path.display())]
    CellExists {
        /// Path of the database.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The cell's index in the plan.
        index: u32,
    },
    /// The stored plan is not a prefix of the new plan, because another weir process extended the run.
    #[error("{}: another process changed the plan of run {run}", path.display())]
    OtherPlan {
        /// Path of the database.
        path: PathBuf,
        /// The run's id.
        run: String,
    },
    /// The run is already in the database, with other content.
    #[error("{}: run {run} is already in the database with different content: {difference}", path.display())]
    RunDiffers {
        /// Path of the database.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The first difference.
        difference: String,
    },
    /// A value does not fit its column.
    #[error("{}: cannot store a value: {detail}", path.display())]
    Unstorable {
        /// Path of the database.
        path: PathBuf,
        /// The value, and why it does not fit its column.
        detail: String,
    },
    /// No run has this name.
    #[error("{}: no run `{wanted}`", path.display())]
    NoRun {
        /// Path of the database.
        path: PathBuf,
        /// The name that the caller requested.
        wanted: String,
        /// The latest runs, newest first.
        latest: Vec<String>,
    },
    /// Several runs match the prefix.
    #[error("{}: `{prefix}` matches several runs: {}", path.display(), matches.join(", "))]
    Ambiguous {
        /// Path of the database.
        path: PathBuf,
        /// The prefix that the caller requested.
        prefix: String,
        /// Matching runs, newest first.
        matches: Vec<String>,
    },
    /// Another SQLite error.
    #[error("{}: {detail}", path.display())]
    Other {
        /// Path of the database.
        path: PathBuf,
        /// SQLite's message.
        detail: String,
    },
}

impl StoreError {
    /// How the user can fix the problem.
    pub fn remedy(&self) -> String {
        match self {
            Self::Folder { .. } | Self::Unwritable { .. } => {
                "use a writable file with --db FILE".into()
            }
            Self::Missing { .. } => {
                "create a database with `weir run quickstart`, or use another file with --db FILE".into()
            }
            Self::Newer { .. } => {
                "use the version of weir that wrote the file, or another file with --db FILE".into()
            }
            Self::Foreign { .. } => "use another file with --db FILE".into(),
            Self::Damaged { .. } => {
                "move the file away (`sqlite3 FILE .recover` may rescue its content), or use another file with \
                 --db FILE"
                    .into()
            }
            Self::Full { .. } => "free up disk space, or use a file on another disk with --db FILE".into(),
            Self::Busy { .. } => "wait until the other process ends, or use another file with --db FILE".into(),
            Self::CellExists { .. } => "wait until the other weir process has finished this run".into(),
            Self::RunDiffers { .. } => {
                "nothing was changed; to keep both, import into another database with --db FILE".into()
            }
            Self::Unstorable { .. } => {
                "nothing was changed; the value is outside the range that a measurement can have".into()
            }
            Self::OtherPlan { .. } => "wait until the other weir process has finished this run".into(),
            Self::NoRun { latest, .. } if latest.is_empty() => {
                "there are no runs yet; `weir run quickstart` creates one".into()
            }
            Self::NoRun { latest, .. } => format!("latest runs: {}; `weir runs` lists all", latest.join(", ")),
            Self::Ambiguous { .. } => "use more characters of the id".into(),
            Self::Other { .. } => "if the error persists, use another file with --db FILE".into(),
        }
    }

    /// Whether the caller's request is wrong. If false, the problem is in the environment.
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
            // All other errors mean that a stored value cannot be converted: the content contradicts the schema version
            // of the file.
            None => Self::Damaged { path, detail },
        }
    }
}

/// Whether the disk that contains `path` is too full for one more block. Writes a probe file next to `path`.
fn disk_is_full(path: &Path) -> bool {
    let probe = path.with_extension(format!("probe-{}", std::process::id()));
    let written = std::fs::File::create_new(&probe).and_then(|mut file| {
        // Remove the file before writing, so that the probe is never left behind.
        std::fs::remove_file(&probe)?;
        file.write_all(&[0; 8192])
    });
    written.is_err_and(|error| error.kind() == std::io::ErrorKind::StorageFull)
}
