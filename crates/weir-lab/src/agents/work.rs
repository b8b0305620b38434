//! What an agent does with its shard: the load generator as a process of its own, sampled like one of a cell.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_agent::agent::{Progress, Work};
use weir_agent::{AgentFailure, ShardReport};
use weir_engine::LoadSpec;
use weir_results::{CellOutcome, LoadRecord, LoadSecond, Role, last_words};
use weir_rig::{Binary, Limits, Rig, Running, Sampler};

use crate::cell::STOP_GRACE;
use crate::cell::error::{CellError, file_failed};
use crate::cell::own_process::{OwnFiles, OwnProcess, read_record};

/// Runs the shards of an agent.
#[derive(Debug)]
pub struct ShardWork {
    rig: Rig,
    weir: Binary,
    loads: u32,
    running: Option<RunningShard>,
}

/// The generator of the present load.
#[derive(Debug)]
struct RunningShard {
    generator: Running,
    sampler: Sampler,
    files: OwnFiles,
    gate: PathBuf,
    is_prepared: bool,
    seconds: Seconds,
}

/// The file of finished seconds, as far as it has been read.
#[derive(Debug)]
struct Seconds {
    path: PathBuf,
    read: u64,
}

impl ShardWork {
    /// Holds `rig` for the agent; `weir` is the program that generates load.
    pub fn new(rig: Rig, weir: Binary) -> Self {
        Self { rig, weir, loads: 0, running: None }
    }

    fn launch(&mut self, spec: &LoadSpec) -> Result<RunningShard, CellError> {
        self.loads += 1;
        let dir = self.rig.work_dir().join(format!("load-{}", self.loads));
        fs::create_dir_all(&dir).map_err(|error| file_failed("make", &dir, &error))?;
        let file = |name: &str| dir.join(name);
        let files =
            OwnFiles { spec: file("spec.json"), record: file("record.json"), log: file("generator.log") };
        let (gate, seconds) = (file("gate"), file("seconds"));
        let own = OwnProcess {
            name: "generator",
            role: Role::Generator,
            command: "generate",
            weir: self.weir.clone(),
            limits: Limits::default(),
            is_urgent: true,
            namespace: None,
        };
        let mut process = own.prepare(&dir, &files, spec)?;
        let argument = |path: &Path| path.display().to_string();
        process.command.extend(["--gate".into(), argument(&gate), "--seconds".into(), argument(&seconds)]);
        let generator = self.rig.launch(&process)?;
        let sampler = Sampler::start(&[&generator]);
        let seconds = Seconds { path: seconds, read: 0 };
        Ok(RunningShard { generator, sampler, files, gate, is_prepared: false, seconds })
    }
}

impl Work for ShardWork {
    fn prepare(&mut self, spec: &LoadSpec) -> Result<(), AgentFailure> {
        self.abort();
        self.running = Some(self.launch(spec).map_err(|error| failure(&error))?);
        Ok(())
    }

    fn start(&mut self, at_ns: u64) -> Result<(), AgentFailure> {
        let Some(running) = &self.running else { return Ok(()) };
        let beside = running.gate.with_extension("part");
        let written = fs::write(&beside, at_ns.to_string()).and_then(|()| fs::rename(&beside, &running.gate));
        written.map_err(|error| failure(&file_failed("write", &running.gate, &error)))
    }

    fn look(&mut self) -> Result<Progress, AgentFailure> {
        let Some(running) = &mut self.running else { return Ok(Progress::Preparing) };
        let ended = running.generator.wait(Duration::ZERO).map_err(|error| failure(&error.into()))?;
        match ended {
            Some(status) if status.success() => {
                let seconds = running.seconds.take();
                let running = self.running.take().expect("it has just been looked at");
                running.report().map(|report| Progress::Done(seconds, Box::new(report)))
            }
            Some(status) => Err(running.ended(&status.to_string())),
            None if !running.is_prepared => {
                running.is_prepared = prepared_mark(&running.gate).exists();
                Ok(if running.is_prepared { Progress::Prepared } else { Progress::Preparing })
            }
            None => Ok(Progress::Running(running.seconds.take())),
        }
    }

    fn abort(&mut self) {
        if let Some(running) = self.running.take() {
            running.sampler.finish();
            running.generator.stop(STOP_GRACE);
        }
    }
}

impl RunningShard {
    /// What came of the load.
    fn report(self) -> Result<ShardReport, AgentFailure> {
        let samples = self.sampler.finish();
        let record: LoadRecord =
            read_record(&self.files.record, "the load generator").map_err(|error| failure(&error))?;
        let part = self.generator.part();
        let (from, to) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let usage = samples.usage(&part.name, from, to);
        Ok(ShardReport { usage, host: samples.host_usage(from, to), part, record })
    }

    /// Why the generator ended without a record.
    fn ended(&mut self, status: &str) -> AgentFailure {
        // Out of memory and a full disk have their own causes.
        if let Some(error) = self.generator.failure()
            && error.cause() != "died"
        {
            return failure(&error.into());
        }
        let log_tail = self.generator.log_tail();
        let last = last_words(&log_tail).unwrap_or_default();
        let cause = if log_tail.contains(LATE) { "late" } else { "generator" };
        AgentFailure {
            cause: cause.into(),
            message: format!("its load generator ended with {status}: {last}"),
            remedy: "see its log".into(),
            log_tail,
        }
    }
}

/// How the error of a generator begins that got its start too late.
const LATE: &str = "cannot start at the planned time";

/// The file whose existence says that the generator behind the gate `gate` is prepared.
pub fn prepared_mark(gate: &Path) -> PathBuf {
    gate.with_extension("prepared")
}

impl Seconds {
    /// The seconds that were finished since the last call. What cannot be read stays for the next one.
    fn take(&mut self) -> Vec<LoadSecond> {
        let mut text = String::new();
        let read = fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_string(&mut text)
        });
        if read.is_err() {
            return Vec::new();
        }
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        text[..whole].lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn failure(error: &CellError) -> AgentFailure {
    match error {
        CellError::Failed(CellOutcome::Failed { cause, message, remedy, log_tail }) => {
            AgentFailure { log_tail: log_tail.clone(), ..AgentFailure::new(cause, message, remedy) }
        }
        CellError::Failed(CellOutcome::Measured { .. }) => {
            AgentFailure::new("generator", "it has no result", "")
        }
        CellError::Refused { part, why } => AgentFailure::new("service", format!("{part}: {why}"), ""),
        CellError::Stopped => AgentFailure::new("stopped", "it was stopped", ""),
    }
}
