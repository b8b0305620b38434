//! Taking over a run that another database holds.

use std::collections::BTreeSet;

use super::write::{insert_cell, insert_run};
use super::{Store, StoreError};
use crate::{Cell, Run};

/// What became of a run that was to be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It was not there, and now is.
    New,
    /// It was there already, with the same content.
    Present,
}

impl Store {
    /// Writes a whole run under its own id, with those of its cells that are finished: all of it, or nothing.
    ///
    /// # Errors
    /// When the database holds other content under this id, which stays as it is, or cannot be written.
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

    /// Where what is kept under the run's id differs from `run` and `cells`, in words.
    fn difference(&self, run: &Run, cells: &[Cell]) -> Result<Option<String>, StoreError> {
        let kept = self.cells(&run.id)?;
        let indexes = |cells: &[Cell]| -> BTreeSet<u32> { cells.iter().map(|cell| cell.key.index).collect() };
        if indexes(&kept) != indexes(cells) {
            return Ok(Some(format!("{} finished cells there, {} in the file", kept.len(), cells.len())));
        }
        if self.run(&run.id)? != *run {
            return Ok(Some("its plan, scenario or manifest".into()));
        }
        let same = |cell: &&Cell| kept.iter().any(|kept| kept == *cell);
        let other = cells.iter().find(|cell| !same(cell));
        Ok(other.map(|cell| format!("cell {}", cell.key.index)))
    }
}
