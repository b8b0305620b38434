//! Runs weir itself as a separate process during a load. The process reads a specification and writes a record.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_results::Role;
use weir_rig::{Binary, Limits, Namespace, ProcessSpec};

use super::error::{CellError, failed, file_failed};

/// How to run a weir process during a load.
pub(crate) struct OwnProcess {
    /// Name of the process among the parts of the cell.
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// The subcommand of weir.
    pub(crate) command: &'static str,
    pub(crate) weir: Binary,
    pub(crate) limits: Limits,
    pub(crate) is_urgent: bool,
    pub(crate) namespace: Option<Namespace>,
}

/// The files of a weir process that runs during a load.
#[derive(Debug)]
pub(crate) struct OwnFiles {
    pub(crate) spec: PathBuf,
    pub(crate) record: PathBuf,
    /// The file where the process reports each second of the load; `None` if nobody watches the load.
    pub(crate) progress: Option<PathBuf>,
    pub(crate) log: PathBuf,
}

impl OwnProcess {
    /// Writes `spec` to its file, and returns the process to launch in the folder `dir`.
    pub(crate) fn prepare(
        &self,
        dir: &Path,
        files: &OwnFiles,
        spec: &impl Serialize,
    ) -> Result<ProcessSpec, CellError> {
        let text = serde_json::to_vec(spec).expect("a specification always serializes to JSON");
        std::fs::write(&files.spec, text).map_err(|error| file_failed("write", &files.spec, &error))?;
        let argument = |path: &Path| path.display().to_string();
        let (weir, spec, record) =
            (argument(&self.weir.path), argument(&files.spec), argument(&files.record));
        let mut command = vec![weir, self.command.into(), "--spec".into(), spec, "--record".into(), record];
        if let Some(progress) = &files.progress {
            command.extend(["--progress".into(), argument(progress)]);
        }
        Ok(ProcessSpec {
            dir: dir.to_path_buf(),
            log: files.log.clone(),
            limits: self.limits,
            is_urgent: self.is_urgent,
            namespace: self.namespace.clone(),
            ..ProcessSpec::plain(self.name.into(), self.role, self.weir.clone(), command)
        })
    }
}

/// Reads the record that the process `name` has written to `path`.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path, name: &str) -> Result<T, CellError> {
    let text = std::fs::read(path).map_err(|error| file_failed("read", path, &error))?;
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{}: cannot parse the results of {name}: {error}", path.display());
        failed("generator", &message, "report this as a bug", "")
    })
}
