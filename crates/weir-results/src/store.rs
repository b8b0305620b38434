//! The SQLite store for runs, cells, histograms, manifests and verdicts. Each cell is committed separately.
//!
//! Columns contain the values that queries filter or sort by, such as gateway, rate, quantile, verdict and event. All
//! other fields of a cell or measurement are in one versioned JSON document, so that a new field needs no migration.
//! Older databases are migrated, newer ones are rejected.

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

/// How long to wait while another process writes to the same database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An open database of runs.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens the database at `path` for writing. Creates it and its folders if it does not exist, and migrates an older
    /// one.
    ///
    /// # Errors
    /// When the file is not a database of weir, is damaged, is newer than this program, or cannot be written.
    /// Nothing is overwritten in any of these cases.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|source| StoreError::Folder { path: folder.to_path_buf(), source })?;
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, Use::Write)
    }

    /// Opens the existing database at `path` for writing, to add cells to one of its runs.
    ///
    /// # Errors
    /// As [`Store::open`], and when the file does not exist.
    pub fn open_to_resume(path: &Path) -> Result<Self, StoreError> {
        require(path)?;
        Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Use::Write)
    }

    /// Opens the existing database at `path` for reading. The file may be read-only.
    ///
    /// # Errors
    /// When the file does not exist, is not a database of weir, is damaged, or is newer than this program.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        require(path)?;
        match Self::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, Use::Read) {
            Err(StoreError::Unwritable { .. }) => Self::connect_unchanging(path),
            Err(full @ StoreError::Full { .. }) => Self::connect_unchanging(path).map_err(|_| full),
            opened => opened,
        }
    }

    /// The path of the database file.
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
        // All checks come before the first write, so that a rejected file stays byte-identical. For the same reason,
        // the checkpoint on close is off during the checks. It would move the write-ahead log of a killed run into the
        // rejected database.
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
        // A sync to disk after each cell costs little compared with a lost cell.
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", "on").map_err(failed)?;
        if !is_current {
            // Only older databases are migrated, because the migration waits for a write lock that another process may
            // hold.
            schema::migrate(path, &mut connection)?;
        }
        Ok(Self { path: path.to_path_buf(), connection })
    }

    /// Opens a database on a read-only or full file system as an immutable file. This is safe: a process that changes
    /// the database needs SQLite's shared files, and SQLite cannot create them there.
    fn connect_unchanging(path: &Path) -> Result<Self, StoreError> {
        let unwritable = |detail: &str| {
            Err(StoreError::Unwritable { path: path.to_path_buf(), detail: detail.to_owned() })
        };
        if has_log(path) {
            return unwritable(
                "its last changes are still in the write-ahead log (the -wal file next to it)",
            );
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

/// Whether a database is opened for reading or for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// Rejects a missing or empty file, because reading must not create a database. A file with a log next to it is not
/// empty: a killed run may have written only to the log.
fn require(path: &Path) -> Result<(), StoreError> {
    let Ok(found) = std::fs::metadata(path) else {
        return Err(StoreError::Missing { path: path.to_path_buf() });
    };
    if !found.is_dir() && found.len() == 0 && !has_log(path) {
        return Err(StoreError::Damaged { path: path.to_path_buf(), detail: "it is empty".into() });
    }
    Ok(())
}

/// Whether the log next to the database contains changes that are not in the database file yet.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// The SQLite URI that opens `path` as an immutable file.
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
