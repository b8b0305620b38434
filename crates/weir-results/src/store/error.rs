//! What can go wrong with the store, and what to do about it.

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// The store could not do what was asked. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database's folder could not be made.
    #[error("{}: the folder of the database cannot be made: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no database.
    #[error("{}: there is no such database", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Written by a newer weir.
    #[error("{}: the database has version {found}, and this weir knows versions up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Greatest version this program reads.
        known: i64,
    },
    /// A SQLite database of another program.
    #[error("{}: this is a database of another program, not of weir", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Not a database, or one whose pages contradict each other.
    #[error("{}: the file is damaged or no database ({detail}); nothing was changed in it", path.display())]
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
    #[error("{}: the database cannot be written: {detail}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// Another process held the database for longer than the time-out.
    #[error("{}: another process holds the database", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The cell is in the store already: another weir carries on the same run.
    #[error("{}: cell {index} of run {run} is in the database already", path.display())]
    CellExists {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// The cell's place in the plan.
        index: u32,
    },
    /// The run's plan in the store is not the beginning of the one that it is to have: another weir extended it.
    #[error("{}: the plan of run {run} was changed meanwhile", path.display())]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
    },
    /// The run is in the database already, and not the same.
    #[error("{}: run {run} is in the database already, with other content: {difference}", path.display())]
    RunDiffers {
        /// The file.
        path: PathBuf,
        /// The run's id.
        run: String,
        /// Where it differs.
        difference: String,
    },
    /// A value that no column can hold.
    #[error("{}: a value cannot be stored: {detail}", path.display())]
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
    #[error("{}: `{prefix}` fits several runs: {}", path.display(), matches.join(", "))]
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
                "name a file that can be written with --db FILE".into()
            }
            Self::Missing { .. } => "`weir run quickstart` makes it; or name another with --db FILE".into(),
            Self::Newer { .. } => "use the weir that wrote it, or another file with --db FILE".into(),
            Self::Foreign { .. } => "name another file with --db FILE".into(),
            Self::Damaged { .. } => {
                "move it aside (`sqlite3 FILE .recover` may save what it held), or name another with --db FILE"
                    .into()
            }
            Self::Full { .. } => "make room, or name a file on another disk with --db FILE".into(),
            Self::Busy { .. } => "wait until the other weir is done, or use another file with --db FILE".into(),
            Self::CellExists { .. } => "another weir carries on this run: let it finish".into(),
            Self::RunDiffers { .. } => {
                "nothing was changed; to have both, import into another database with --db FILE".into()
            }
            Self::Unstorable { .. } => "nothing was changed; the value is beyond what can be measured".into(),
            Self::OtherPlan { .. } => "another weir extended this run: let it finish".into(),
            Self::NoRun { latest, .. } if latest.is_empty() => {
                "there is none yet: `weir run quickstart` makes one".into()
            }
            Self::NoRun { latest, .. } => format!("the latest are {}; `weir runs` lists all", latest.join(", ")),
            Self::Ambiguous { .. } => "give more letters of the id".into(),
            Self::Other { .. } => "name another file with --db FILE if it persists".into(),
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
