//! Lists runs. Finds a run by its id, by a unique prefix of its id, or by the name `last`.

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError};

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// All cells of the plan are in the store.
    Finished,
    /// Cells of the plan are missing: the run is in progress, or was interrupted and can be resumed.
    Unfinished,
}

/// A run as `weir runs` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunListing {
    /// The run's id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End of the last cell, milliseconds since the Unix epoch; `None` while unfinished.
    pub ended_unix_ms: Option<u64>,
    /// Number of cells in the plan.
    pub cells_planned: u32,
    /// Number of cells in the store.
    pub cells_done: u32,
    /// Number of cells in the store that failed.
    pub cells_failed: u32,
    /// Whether cells of the plan are missing.
    pub state: RunState,
}

const LISTING: &str = "
SELECT runs.id, runs.name, runs.started_unix_ms, runs.ended_unix_ms,
    (SELECT count(*) FROM plan WHERE plan.run_id = runs.id),
    (SELECT count(*) FROM cells WHERE cells.run_id = runs.id),
    (SELECT count(*) FROM cells WHERE cells.run_id = runs.id AND cells.outcome = 'failed')
FROM runs ORDER BY runs.started_unix_ms DESC, runs.id DESC";

impl Store {
    /// All runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let mut statement = self.connection.prepare(LISTING).map_err(self.failed())?;
        let rows = statement.query_map([], listing).map_err(self.failed())?;
        rows.collect::<Result<_, _>>().map_err(self.failed())
    }

    /// Returns the id of the run that `name` selects. `name` is an id, a unique prefix of an id, or `last` for the
    /// newest run.
    ///
    /// # Errors
    /// When no run or several runs match, or the database cannot be read.
    pub fn find(&self, name: &str) -> Result<String, StoreError> {
        let ids: Vec<String> = self.runs()?.into_iter().map(|run| run.id).collect();
        let path = self.path.clone();
        if name == "last" {
            let latest = ids.into_iter().next();
            return latest.ok_or(StoreError::NoRun { path, wanted: name.into(), latest: vec![] });
        }
        if ids.iter().any(|id| id == name) {
            return Ok(name.to_owned());
        }
        let fits = |id: &&String| !name.is_empty() && id.starts_with(name);
        let matches: Vec<String> = ids.iter().filter(fits).cloned().collect();
        match matches.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                let latest = ids.into_iter().take(3).collect();
                Err(StoreError::NoRun { path, wanted: name.into(), latest })
            }
            _ => Err(StoreError::Ambiguous { path, prefix: name.into(), matches }),
        }
    }
}

fn listing(row: &Row<'_>) -> rusqlite::Result<RunListing> {
    let (planned, done): (u32, u32) = (row.get(4)?, row.get(5)?);
    Ok(RunListing {
        id: row.get(0)?,
        name: row.get(1)?,
        started_unix_ms: row.get(2)?,
        ended_unix_ms: row.get(3)?,
        cells_planned: planned,
        cells_done: done,
        cells_failed: row.get(6)?,
        state: if done >= planned { RunState::Finished } else { RunState::Unfinished },
    })
}
