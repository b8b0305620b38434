//! `--db FILE`: the store that a command reads or writes.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use weir_lab::LabError;
use weir_results::{Store, StoreError};
use weir_rig::RigError;

use super::hint::remember_database;
use crate::failure::Failure;

/// The argument of every command that uses the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Database {
    /// Database file with the runs [default: weir/weir.db in the user's data directory]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Database {
    /// Opens it, and creates it if it does not exist.
    pub(crate) fn open_or_make(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.path()?)?)
    }

    /// Opens it to read runs.
    pub(crate) fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open_existing(&self.path()?)?)
    }

    /// Opens it to add cells to a stored run.
    pub(crate) fn open_to_resume(&self) -> Result<Store, Failure> {
        Ok(Store::open_to_resume(&self.path()?)?)
    }

    /// Opens it. A missing file is an error only if `--db` names it.
    pub(crate) fn open_if_any(&self) -> Result<Option<Store>, Failure> {
        match self.db {
            Some(_) => self.open().map(Some),
            None => self.open_if_there(),
        }
    }

    /// Opens it. A missing file is no error.
    pub(crate) fn open_if_there(&self) -> Result<Option<Store>, Failure> {
        match Store::open_existing(&self.path()?) {
            Err(StoreError::Missing { .. }) => Ok(None),
            opened => Ok(Some(opened?)),
        }
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.db {
            remember_database(path);
            return Ok(path.clone());
        }
        let folders = etcetera::choose_base_strategy().map_err(|error| {
            let message = format!("cannot find the user's data folder: {error}");
            Failure::environment(message, "set HOME, or use --db FILE")
        })?;
        Ok(folders.data_dir().join("weir").join("weir.db"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        reported(error.is_wrong_use(), &error, error.remedy())
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let each = error.each().iter().map(|error| reported(error.is_wrong_use(), error, error.remedy()));
        Self::of_all(each.collect())
    }
}

impl From<RigError> for Failure {
    fn from(error: RigError) -> Self {
        reported(error.is_wrong_use(), &error, error.remedy())
    }
}

pub(super) fn reported(wrong_use: bool, error: &dyn std::error::Error, remedy: String) -> Failure {
    match wrong_use {
        true => Failure::wrong_use(error.to_string(), remedy),
        false => Failure::environment(error.to_string(), remedy),
    }
}
