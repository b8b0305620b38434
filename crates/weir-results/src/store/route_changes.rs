//! The changes of a gateway's routes during a load, in a table of their own: few loads have any.

use rusqlite::{Transaction, params};

use super::Store;
use super::read::json;
use super::write::{At, json as text};
use crate::RouteChange;

impl Store {
    pub(super) fn route_changes(
        &self,
        run_id: &str,
        cell: u32,
        place: u32,
    ) -> rusqlite::Result<Vec<RouteChange>> {
        let sql = "SELECT change FROM route_changes WHERE run_id = ?1 AND cell = ?2 AND place = ?3 \
             ORDER BY position";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![run_id, cell, place], |row| json(row, 0))?;
        rows.collect()
    }
}

pub(super) fn insert_route_changes(
    t: &Transaction<'_>,
    at: At<'_>,
    changes: &[RouteChange],
) -> rusqlite::Result<()> {
    let mut statement = t.prepare_cached("INSERT INTO route_changes VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, change) in changes.iter().enumerate() {
        statement.execute(params![at.run_id, at.cell, at.place, position, text(change)?])?;
    }
    Ok(())
}
