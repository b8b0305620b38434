//! Runs a weir process during a load, in addition to the load generator.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_results::Part;
use weir_rig::Running;

use super::LoadContext;
use crate::cell::error::CellError;
use crate::cell::own_process::{OwnFiles, OwnProcess, read_record};

/// Time in which the process must write its record after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A weir process that runs during loads.
pub(super) struct ProcessBeside {
    process: OwnProcess,
    /// The process, and the path of the record that it writes; `None` if no load runs.
    running: Option<(Running, PathBuf)>,
}

impl ProcessBeside {
    pub(super) fn new(process: OwnProcess) -> Self {
        Self { process, running: None }
    }

    /// Starts the process with the input `spec`, before the load generator.
    pub(super) fn start(
        &mut self,
        load: &mut LoadContext<'_>,
        spec: &impl Serialize,
    ) -> Result<(), CellError> {
        let file = |end: &str| load.dir.join(format!("{}.{}.{end}", load.load, self.process.command));
        let files =
            OwnFiles { spec: file("json"), record: file("record.json"), log: file("log"), progress: None };
        let running = load.rig.launch(&self.process.prepare(load.dir, &files, spec)?)?;
        load.sampler.join(&running);
        self.running = Some((running, files.record));
        Ok(())
    }

    /// Stops the process and reads its record; `None` if it does not run.
    pub(super) fn end<T: DeserializeOwned>(&mut self) -> Result<Option<(Part, T)>, CellError> {
        let Some((mut running, record)) = self.running.take() else { return Ok(None) };
        if let Some(failure) = running.failure() {
            return Err(failure.into());
        }
        let part = running.part();
        running.stop(STOP_GRACE);
        Ok(Some((part, read_record(&record, self.process.name)?)))
    }

    /// Ends the process without reading its record.
    pub(super) fn abandon(&mut self) {
        self.running = None;
    }
}
