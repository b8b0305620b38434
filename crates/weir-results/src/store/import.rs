//! Import of a run from an archive.

use std::collections::BTreeSet;

use super::write::{insert_cell, insert_run};
use super::{Store, StoreError};
use crate::{Cell, Run};

/// Result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The run was added.
    New,
    /// The run was already in the database, with the same content.
    Present,
}

impl Store {
    /// Writes a run and its finished cells in one transaction. The run keeps its id.
    ///
    /// # Errors
    /// When the database has other content under this id, or cannot be written. Nothing changes then.
    pub fn import(&mut self, run: &Run, cells: &[Cell]) -> Result<Imported, StoreError> {
        let mut exists = false;
        self.commit(|t| {
            let sql = "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?1)";
            exists = t.query_row(sql, [&run.id], |row| row.get(0))?;
            if exists {
                return Ok(());
            }
            insert_run(t, run)?;
            cells.iter().try_for_each(|cell| insert_cell(t, &run.id, cell))
        })?;
        if !exists {
            return Ok(Imported::New);
        }
        match self.difference(run, cells)? {
            None => Ok(Imported::Present),
            Some(difference) => {
                let (path, run) = (self.path.clone(), run.id.clone());
                Err(StoreError::RunDiffers { path, run, difference })
            }
        }
    }

    /// Describes the first difference between the stored run and `run` with `cells`; `None` if there is none.
    fn difference(&self, run: &Run, cells: &[Cell]) -> Result<Option<String>, StoreError> {
        let kept = self.cells(&run.id)?;
        let indexes = |cells: &[Cell]| -> BTreeSet<u32> { cells.iter().map(|cell| cell.key.index).collect() };
        if indexes(&kept) != indexes(cells) {
            let (kept, cells) = (kept.len(), cells.len());
            return Ok(Some(format!("{kept} finished cells in the database, {cells} in the file")));
        }
        if self.run(&run.id)? != *run {
            return Ok(Some("the plan, the scenario or the manifest differs".into()));
        }
        let same = |cell: &&Cell| kept.iter().any(|kept| kept == *cell);
        let other = cells.iter().find(|cell| !same(cell));
        Ok(other.map(|cell| format!("cell {}", cell.key.index)))
    }
}
