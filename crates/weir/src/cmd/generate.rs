//! `weir generate`: the engine as a process of its own, for the lab. A specification in, a record out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_engine::{EngineError, LoadSpec};

use crate::failure::{Exit, Failure};

/// Arguments of weir's own processes beside a load: a specification in, a record out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The specification, JSON
    #[arg(long, value_name = "FILE")]
    pub(super) spec: PathBuf,
    /// Where the record is written, JSON; it is there whole or not at all
    #[arg(long, value_name = "FILE")]
    pub(super) record: PathBuf,
}

/// Drives the load and writes its record. SIGINT and SIGTERM end it early, with the record of what there is.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec: LoadSpec = read_spec(&args.spec)?;
    let stop = until_signalled()?;
    let record = weir_engine::run(&spec, &(), &stop).map_err(|error| engine_failure(&error))?;
    write_whole(&args.record, &record)?;
    Ok(Exit::Good)
}

/// What is set by SIGINT and SIGTERM.
pub(super) fn until_signalled() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::environment(format!("cannot handle signals: {error}"), ""))?;
    }
    Ok(stop)
}

/// In the lab's child everything is the environment's fault: the lab has checked what a user can get wrong.
fn engine_failure(error: &EngineError) -> Failure {
    Failure::environment(error.to_string(), error.remedy())
}

pub(super) fn read_spec<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(
            format!("{}: {error}", path.display()),
            "give the specification of a load as JSON",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Writes beside the target and renames, so that a reader never sees half a record.
pub(super) fn write_whole(path: &Path, record: &impl Serialize) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let remedy = "check that the folder exists, is writable and has free space";
        Failure::environment(format!("{}: {error}", path.display()), remedy)
    };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let text = serde_json::to_string(record).map_err(|error| failed(&error))?;
    std::fs::write(&beside, text).map_err(|error| failed(&error))?;
    std::fs::rename(&beside, path).map_err(|error| failed(&error))
}
