//! The SQLite store: runs, cells, histograms, manifests and verdicts, each cell committed on its own.
//!
//! What queries ask for (who, where, which rate, which quantile, which verdict) is in columns; the rest of the
//! schema is in JSON columns beside them. A reader of older versions migrates, a newer database is refused.

mod error;
mod find;
mod hosts;
mod import;
mod read;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub use error::StoreError;
pub use find::{RunListing, RunState};
pub use import::Imported;

/// How long a statement waits for another process that writes to the same database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An open database of runs.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens the database at `path`, makes it and its folders where there is none, and migrates an older one.
    ///
    /// # Errors
    /// When the file is no database of weir's, is damaged, is newer than this program, or cannot be written.
    /// Nothing is overwritten in any of these cases.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { path: folder.to_path_buf(), source })?;
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens the database at `path` for reading runs; makes none.
    ///
    /// # Errors
    /// As [`Store::open`], and when there is no such file.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_path_buf() });
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let failed = |error| StoreError::from_sqlite(path, error);
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        // Looked at before anything is written: a foreign or newer file stays as it was, byte for byte.
        schema::check(path, &connection)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        // Commits are one per cell, so the price of a sync is nothing beside what a lost cell costs.
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", "on").map_err(failed)?;
        schema::migrate(path, &mut connection)?;
        Ok(Self { path: path.to_path_buf(), connection })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        |error| StoreError::from_sqlite(&self.path, error)
    }
}

#[cfg(test)]
mod tests;
