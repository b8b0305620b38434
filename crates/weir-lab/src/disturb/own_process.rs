//! A process of weir's own beside a load: a specification in, a record out.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_results::{Part, Role};
use weir_rig::{Binary, Limits, Namespace, ProcessSpec, Ready, Running};

use super::LoadContext;
use crate::cell::error::{CellError, failed, file_failed};

/// How long it may take to write its record.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How it is run, and the process while a load runs.
pub(super) struct OwnProcess {
    /// Its name among the parts of the cell.
    pub(super) name: &'static str,
    pub(super) role: Role,
    /// The subcommand of weir.
    pub(super) command: &'static str,
    pub(super) weir: Binary,
    pub(super) limits: Limits,
    pub(super) namespace: Option<Namespace>,
    /// With the file of its record.
    pub(super) running: Option<(Running, PathBuf)>,
}

impl OwnProcess {
    /// Starts it before the generator.
    pub(super) fn start(
        &mut self,
        load: &mut LoadContext<'_>,
        spec: &impl Serialize,
    ) -> Result<(), CellError> {
        let file = |end: &str| load.dir.join(format!("{}.{}.{end}", load.load, self.command));
        let (spec_path, record) = (file("json"), file("record.json"));
        let text = serde_json::to_vec(spec).expect("a specification is a tree of plain values");
        std::fs::write(&spec_path, text).map_err(|error| file_failed("write", &spec_path, &error))?;
        let argument = |path: &PathBuf| path.display().to_string();
        let words = [self.command, "--spec", &argument(&spec_path), "--record", &argument(&record)];
        let mut command = vec![argument(&self.weir.path)];
        command.extend(words.map(str::to_owned));
        let running = load.rig.launch(&ProcessSpec {
            name: self.name.into(),
            role: self.role,
            binary: self.weir.clone(),
            config_sha256: None,
            command,
            env: vec![],
            dir: load.dir.to_path_buf(),
            log: file("log"),
            limits: self.limits,
            is_urgent: false,
            cpus: None,
            ready: Ready::None,
            ready_timeout: Duration::ZERO,
            listens: vec![],
            namespace: self.namespace.clone(),
        })?;
        load.sampler.join(&running);
        self.running = Some((running, record));
        Ok(())
    }

    /// Ends it, and reads its record; `None` if it does not run.
    pub(super) fn end<T: DeserializeOwned>(&mut self) -> Result<Option<(Part, T)>, CellError> {
        let Some((mut running, record)) = self.running.take() else { return Ok(None) };
        if let Some(failure) = running.failure() {
            return Err(failure.into());
        }
        let part = running.part();
        running.stop(STOP_GRACE);
        let text = std::fs::read(&record).map_err(|error| file_failed("read", &record, &error))?;
        let record = serde_json::from_slice(&text).map_err(|error| {
            let message = format!("{}: cannot read the record of {}: {error}", record.display(), self.name);
            failed("generator", &message, "report this as a bug", "")
        })?;
        Ok(Some((part, record)))
    }
}
