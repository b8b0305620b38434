//! `--db FILE`: the database file in which runs are stored.

use std::path::PathBuf;

use etcetera::BaseStrategy;
use weir_lab::LabError;
use weir_results::{Store, StoreError};
use weir_rig::RigError;

use super::hint::remember_database;
use crate::failure::Failure;

/// The argument shared by all commands that use a database.
#[derive(Debug, clap::Args)]
pub(crate) struct Database {
    /// Database file with the runs [default: weir/weir.db in the user's data directory]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Database {
    /// Opens the database. Creates the file if it is missing.
    pub(crate) fn open_or_make(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.path()?)?)
    }

    /// Opens an existing database to read runs.
    pub(crate) fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open_existing(&self.path()?)?)
    }

    /// Opens an existing database to add cells to a stored run.
    pub(crate) fn open_to_resume(&self) -> Result<Store, Failure> {
        Ok(Store::open_to_resume(&self.path()?)?)
    }

    /// Opens the database. If the file is missing, this is an error only if the user named it with `--db`.
    pub(crate) fn open_if_any(&self) -> Result<Option<Store>, Failure> {
        match self.db {
            Some(_) => self.open().map(Some),
            None => self.open_if_there(),
        }
    }

    /// Opens the database. Returns `None` if the file is missing.
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
