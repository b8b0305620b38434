//! Stored limits of hosts, as `weir doctor` measures them.

use rusqlite::{OptionalExtension, params};

use super::{Store, StoreError};
use crate::HostBounds;

impl Store {
    /// Stores the limits of a host. They replace earlier limits of the same host.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn keep_bounds(&mut self, bounds: &HostBounds) -> Result<(), StoreError> {
        self.commit(|t| {
            let text = serde_json::to_string(bounds)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            t.execute(
                "INSERT OR REPLACE INTO hosts VALUES (?1, ?2, ?3)",
                params![bounds.fingerprint, bounds.measured_unix_ms, text],
            )?;
            Ok(())
        })
    }

    /// The stored limits of the host with this fingerprint, if any.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn bounds(&self, fingerprint: &str) -> Result<Option<HostBounds>, StoreError> {
        let sql = "SELECT bounds FROM hosts WHERE fingerprint = ?1";
        let row = |row: &rusqlite::Row<'_>| super::read::json(row, 0);
        self.connection.query_row(sql, [fingerprint], row).optional().map_err(self.failed())
    }
}
