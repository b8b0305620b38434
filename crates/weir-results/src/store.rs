//! The SQLite store: runs, cells, histograms, manifests and verdicts, each cell committed on its own.
//!
//! What queries ask for (who, where, which rate, which quantile, which verdict, which event) is in columns; the rest
//! of a cell and of a measurement is one versioned JSON document, so that a new field needs no migration. Older databases
//! are migrated, newer ones are refused.

mod document;
mod error;
mod find;
mod hosts;
mod import;
mod read;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
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
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, Use::Write)
    }

    /// Opens the database at `path` for more cells of a run that it holds.
    ///
    /// # Errors
    /// As [`Store::open`], and when there is no such file.
    pub fn open_to_resume(path: &Path) -> Result<Self, StoreError> {
        require(path)?;
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Use::Write)
    }

    /// Opens the database at `path` for reading runs; makes none. One that is write-protected can be read.
    ///
    /// # Errors
    /// When there is no such file, it is no database of weir's, is damaged, or newer than this program.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        require(path)?;
        match Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Use::Read) {
            Err(StoreError::Unwritable { .. }) => Self::connect_unchanging(path),
            Err(full @ StoreError::Full { .. }) => Self::connect_unchanging(path).map_err(|_| full),
            opened => opened,
        }
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connect(path: &Path, flags: OpenFlags, wanted: Use) -> Result<Self, StoreError> {
        let failed = |error| StoreError::from_sqlite(path, error);
        if path.is_dir() {
            return Err(StoreError::Damaged { path: path.to_path_buf(), detail: "it is a folder".into() });
        }
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        // Looked at before anything is written: what is refused stays as it was, byte for byte. Closing would move
        // what a killed run left in the log beside the database into it.
        let keeps_log = has_log(path);
        if keeps_log {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        }
        let is_current = schema::check(path, &connection)?;
        if wanted == Use::Write || !is_current {
            schema::check_whole(path, &connection)?;
        }
        if wanted == Use::Write && connection.is_readonly("main").map_err(failed)? {
            let detail = "it is write-protected".into();
            return Err(StoreError::Unwritable { path: path.to_path_buf(), detail });
        }
        if keeps_log {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(failed)?;
        }
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        // Commits are one per cell, so the price of a sync is nothing beside what a lost cell costs.
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", "on").map_err(failed)?;
        if !is_current {
            // Only then: to see that there is nothing to do, nobody has to wait for another who writes.
            schema::migrate(path, &mut connection)?;
        }
        Ok(Self { path: path.to_path_buf(), connection })
    }

    /// Opens a database on a medium that is write-protected or full, where the files beside it cannot be made that
    /// its users share. Whoever could change it there would have such files.
    fn connect_unchanging(path: &Path) -> Result<Self, StoreError> {
        let unwritable = |detail: &str| {
            Err(StoreError::Unwritable { path: path.to_path_buf(), detail: detail.to_owned() })
        };
        if has_log(path) {
            return unwritable("its last changes still stand in the file beside it (-wal)");
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(unchanging_uri(path), flags)
            .map_err(|error| StoreError::from_sqlite(path, error))?;
        if !schema::check(path, &connection)? {
            return unwritable("it has an older format and must be upgraded first");
        }
        Ok(Self { path: path.to_path_buf(), connection })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        |error| StoreError::from_sqlite(&self.path, error)
    }
}

/// What a database is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// Whoever reads makes no database, of an empty file neither. What a run that was killed at its very beginning left in the
/// log is not empty.
fn require(path: &Path) -> Result<(), StoreError> {
    let Ok(found) = std::fs::metadata(path) else {
        return Err(StoreError::Missing { path: path.to_path_buf() });
    };
    if !found.is_dir() && found.len() == 0 && !has_log(path) {
        return Err(StoreError::Damaged { path: path.to_path_buf(), detail: "it is empty".into() });
    }
    Ok(())
}

/// Whether changes stand in the log beside the database that are not in the database yet.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// `path` as SQLite takes it for a file that nobody changes.
fn unchanging_uri(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let escaped = path.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
        b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file:{}?immutable=1", escaped.collect::<String>())
}

#[cfg(test)]
mod tests;
