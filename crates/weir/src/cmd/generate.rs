//! `weir generate`: the engine as a process of the lab. Input is a specification, output is a record.

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

/// Arguments of the lab's processes during a load.
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

/// Runs the load and writes its record. SIGINT and SIGTERM end it early with a partial record.
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
        let message = format!("load ended: no heartbeat of the agent for {} s", SILENCE_MAX.as_secs());
        return Err(Failure::environment(message, "check that the agent runs, and that its disk has space"));
    }
    write_whole(&args.own.record, &record)?;
    Ok(Exit::Good)
}

/// Timeout of the agent's heartbeat, and interval of the checks.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const LISTEN_EVERY: Duration = Duration::from_millis(250);

/// Ends the load and sets `is_alone` if `mark` has not changed for 3 s, because a stopped agent cannot end the load.
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

/// A gate that another process opens by writing a file.
struct FileGate(PathBuf);

/// Poll interval of the file; the planned start is much later.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Gate for FileGate {
    fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        // If the file cannot be written, the agent does not continue, and the coordinator times out.
        let _ = std::fs::write(prepared_mark(&self.0), "");
        loop {
            // Checked before the file: a load that gets its start and stop together still starts.
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

/// Appends a line to a file for each second.
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
        // Errors are ignored: the record is complete, and only a watcher misses the line.
        if let Ok(mut line) = serde_json::to_vec(second) {
            line.push(b'\n');
            let _ = (&self.0).write_all(&line);
        }
    }
}

/// A flag that SIGINT and SIGTERM set.
pub(super) fn until_signalled() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::environment(format!("cannot handle signals: {error}"), ""))?;
    }
    Ok(stop)
}

/// In a child of the lab, every error is one of the environment, because the lab has checked the user's input.
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

/// Writes a temporary file in the same folder and renames it, so that readers never see a partial record.
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
