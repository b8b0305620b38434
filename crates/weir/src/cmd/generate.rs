//! `weir generate`: the engine as a process of its own, for the lab. A specification in, a record out.

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

/// Arguments of weir's own processes beside a load: a specification in, a record out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The specification, JSON
    #[arg(long, value_name = "FILE")]
    pub(super) spec: PathBuf,
    /// Where the record is written, JSON; it is there whole or not at all
    #[arg(long, value_name = "FILE")]
    pub(super) record: PathBuf,
    /// Where each finished second of a load is appended, one JSON document per line
    #[arg(long, value_name = "FILE")]
    pub(super) progress: Option<PathBuf>,
}

/// Arguments of `weir generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    own: Args,
    /// Says with FILE.prepared that all connections are open, and starts at the time that is in FILE then: nanoseconds of
    /// CLOCK_MONOTONIC. Ends early if FILE.alive does not change for 3 s
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
}

/// Drives the load and writes its record. SIGINT and SIGTERM end it early, with the record of what there is.
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
        let message = format!("the agent was silent for {} s, and the load was ended", SILENCE_MAX.as_secs());
        return Err(Failure::environment(message, "check that the agent runs and that its disk has space"));
    }
    write_whole(&args.own.record, &record)?;
    Ok(Exit::Good)
}

/// How long the agent may be silent, and how often it is listened to.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const LISTEN_EVERY: Duration = Duration::from_millis(250);

/// Ends the load and sets `is_alone` when `mark` has not changed for 3 s. A stopped agent cannot end it.
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

/// How often the file is looked for: a start is planned much further ahead.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Gate for FileGate {
    fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        // Without the mark the agent does not get its start, and the coordinator gives up after a time.
        let _ = std::fs::write(prepared_mark(&self.0), "");
        loop {
            // Looked at before the file: a load that got its start and its end at once still has its start.
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
        // The record has all of it; a line that cannot be written is missing where somebody watches.
        if let Ok(mut line) = serde_json::to_vec(second) {
            line.push(b'\n');
            let _ = (&self.0).write_all(&line);
        }
    }
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
