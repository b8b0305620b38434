//! `weir generate`: runs the load engine in its own process, which a run starts. It reads a specification and
//! writes a record.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_engine::{EngineError, Gate, LiveSecond, LoadSpec, Progress};
use weir_lab::agents::{alive_mark, prepared_mark};

use crate::failure::{Exit, Failure};

/// Arguments of the processes that a run starts for a load.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Specification, a JSON file
    #[arg(long, value_name = "FILE")]
    pub(super) spec: PathBuf,
    /// JSON file for the record, written atomically
    #[arg(long, value_name = "FILE")]
    pub(super) record: PathBuf,
    /// File to which each finished second of a load is appended as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub(super) progress: Option<PathBuf>,
}

/// Arguments of `weir generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    own: Args,
    /// Create FILE.prepared when all connections are open, and start at the time in FILE: nanoseconds of
    /// CLOCK_MONOTONIC. End early if FILE.alive does not change for 3 s
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
}

/// Runs the load and writes its record. If SIGINT or SIGTERM ends the load early, the record contains what was
/// measured until then.
pub(crate) fn run(args: GenerateArgs) -> Result<Exit, Failure> {
    let spec: LoadSpec = read_spec(&args.own.spec)?;
    let stop = until_signalled()?;
    let is_alone = Arc::<AtomicBool>::default();
    if let Some(gate) = &args.gate {
        end_without_agent(alive_mark(gate), Arc::clone(&stop), Arc::clone(&is_alone))?;
    }
    let gate = args.gate.map(FileGate);
    let gate: &dyn Gate = gate.as_ref().map_or(&(), |gate| gate);
    let lines = args.own.progress.map(|path| Lines::create(&path)).transpose()?;
    let progress: &dyn Progress = lines.as_ref().map_or(&(), |lines| lines);
    let record =
        weir_engine::run_behind(gate, &spec, progress, &stop).map_err(|error| engine_failure(&error))?;
    if is_alone.load(Ordering::Acquire) {
        let message = format!("load ended: no heartbeat from the agent for {} s", SILENCE_MAX.as_secs());
        return Err(Failure::environment(message, "check that the agent runs, and that its disk has space"));
    }
    write_whole(&args.own.record, &record)?;
    Ok(Exit::Good)
}

/// The load ends after this time without a heartbeat from the agent.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often the load checks for heartbeats.
const LISTEN_EVERY: Duration = Duration::from_millis(250);

/// Sets `is_alone` and ends the load if the agent has not changed its heartbeat file `mark` for 3 s. A stopped agent
/// cannot end the load itself.
fn end_without_agent(mark: PathBuf, stop: Arc<AtomicBool>, is_alone: Arc<AtomicBool>) -> Result<(), Failure> {
    let listen = move || {
        let (mut last, mut heard) = (None, Instant::now());
        while !stop.load(Ordering::Acquire) {
            let written = std::fs::read(&mark).ok();
            if written != last {
                (last, heard) = (written, Instant::now());
            }
            if heard.elapsed() > SILENCE_MAX {
                is_alone.store(true, Ordering::Release);
                stop.store(true, Ordering::Release);
            }
            std::thread::sleep(LISTEN_EVERY);
        }
    };
    let thread = std::thread::Builder::new().name("agent".into()).spawn(listen);
    thread.map(drop).map_err(|error| Failure::environment(format!("cannot start a thread: {error}"), ""))
}

/// Waits until another process writes the start time to a file.
struct FileGate(PathBuf);

/// How often the file is checked. This is short compared to the time until the planned start.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Gate for FileGate {
    fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        // If this file cannot be written, the agent does not continue, and the coordinator of the run times out.
        let _ = std::fs::write(prepared_mark(&self.0), "");
        loop {
            // The stop flag is read before the file. So the load still starts if its start and its stop arrive
            // together.
            let is_over = stop.load(Ordering::Acquire);
            if let Ok(text) = std::fs::read_to_string(&self.0) {
                return text.parse().ok();
            }
            if is_over {
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Appends each finished second of the load to a file, as a line of JSON.
struct Lines(File);

impl Lines {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| {
            let remedy = "check that the folder exists and is writable";
            Failure::environment(format!("{}: {error}", path.display()), remedy)
        })?;
        Ok(Self(file))
    }
}

impl Progress for Lines {
    fn second(&self, second: &LiveSecond) {
        // Errors are ignored. The record is complete anyway, and only somebody who follows the load misses this
        // line.
        if let Ok(mut line) = serde_json::to_vec(second) {
            line.push(b'\n');
            let _ = (&self.0).write_all(&line);
        }
    }
}

/// Returns a flag that SIGINT and SIGTERM set.
pub(super) fn until_signalled() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::environment(format!("cannot handle signals: {error}"), ""))?;
    }
    Ok(stop)
}

/// Converts an error of the engine. The run that started this process has already validated the user's input, so
/// the cause is the environment.
fn engine_failure(error: &EngineError) -> Failure {
    Failure::environment(error.to_string(), error.remedy())
}

pub(super) fn read_spec<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(
            format!("{}: {error}", path.display()),
            "pass the specification of a load as JSON",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Writes a temporary file in the same folder and then renames it. So a reader never sees a part of the record.
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
