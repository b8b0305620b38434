//! The work of an agent: runs its shard of a load in a separate generator process, samples processes of its host, and
//! starts upstreams.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_agent::agent::{Progress, Work};
use weir_agent::{AgentFailure, SampleReport, SampleSpan, Sampling, Served, Serving, ShardReport};
use weir_engine::LoadSpec;
use weir_results::{CellOutcome, LoadRecord, Part, Role, last_words};
use weir_rig::{Binary, Limits, ProcessSet, ProcessSpec, Rig, Running, Sampler, mono_ns};

use crate::cell::STOP_GRACE;
use crate::cell::error::{CellError, file_failed};
use crate::cell::own_process::{OwnFiles, OwnProcess, read_record};
use crate::cell::watching::Seconds;

/// Runs the tasks that the run sends to this agent: shards of loads, sampling, and upstreams.
#[derive(Debug)]
pub struct ShardWork {
    rig: Rig,
    weir: Binary,
    loads: u32,
    running: Option<RunningShard>,
    /// The part whose processes are sampled on this host: its name and its sampler. `None` while nothing is sampled.
    beside: Option<(String, Sampler)>,
    /// The upstreams that this agent has started.
    served: Vec<Running>,
    serves: u32,
}

/// The generator process of the current load.
#[derive(Debug)]
struct RunningShard {
    generator: Running,
    sampler: Sampler,
    files: OwnFiles,
    gate: PathBuf,
    is_prepared: bool,
    seconds: Seconds,
    /// When the last heartbeat for the generator was written.
    shown: Instant,
}

impl ShardWork {
    /// Prepares the tasks of an agent, and starts no process yet. All processes start in `rig`. `weir` is the program
    /// that generates load and serves as upstream.
    pub fn new(rig: Rig, weir: Binary) -> Self {
        Self { rig, weir, loads: 0, running: None, beside: None, served: Vec::new(), serves: 0 }
    }

    fn launch(&mut self, spec: &LoadSpec) -> Result<RunningShard, CellError> {
        self.loads += 1;
        let dir = self.rig.work_dir().join(format!("load-{}", self.loads));
        fs::create_dir_all(&dir).map_err(|error| file_failed("create", &dir, &error))?;
        let file = |name: &str| dir.join(name);
        let files = OwnFiles {
            spec: file("spec.json"),
            record: file("record.json"),
            progress: Some(file("progress.jsonl")),
            log: file("generator.log"),
        };
        let gate = file("gate");
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
        process.command.extend(["--gate".into(), gate.display().to_string()]);
        let generator = self.rig.launch(&process)?;
        let sampler = Sampler::start(&[&generator]);
        let seconds = Seconds::of(file("progress.jsonl"));
        let shown = Instant::now();
        let running = RunningShard { generator, sampler, files, gate, is_prepared: false, seconds, shown };
        running.show();
        Ok(running)
    }
}

impl ShardWork {
    /// Prepares the process of an upstream that listens on `address`. The run waits until the upstream is ready; the
    /// agent does not.
    fn origin(&self, address: SocketAddr, serving: &Serving) -> Result<ProcessSpec, CellError> {
        let name = format!("upstream-{}", self.serves);
        let dir = self.rig.work_dir().join(&name);
        fs::create_dir_all(&dir).map_err(|error| file_failed("create", &dir, &error))?;
        let mut command = vec![self.weir.path.display().to_string(), "origin".into()];
        command.extend(["--listen".into(), address.to_string()]);
        command.extend(serving.arguments.iter().cloned());
        for (flag, content) in ["--cert", "--key"].into_iter().zip(serving.certificate.iter().flatten()) {
            let path = dir.join(flag.trim_start_matches('-'));
            fs::write(&path, content).map_err(|error| file_failed("write", &path, &error))?;
            command.extend([flag.into(), path.display().to_string()]);
        }
        Ok(ProcessSpec {
            log: dir.join("log"),
            dir,
            limits: Limits { cpus: serving.limit_cpus, memory_bytes: serving.limit_memory_bytes },
            ..ProcessSpec::plain(name, Role::Origin, self.weir.clone(), command)
        })
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
        if running.shown.elapsed() >= SHOW_EVERY {
            running.shown = Instant::now();
            running.show();
        }
        let ended = running.generator.wait(Duration::ZERO).map_err(|error| failure(&error.into()))?;
        match ended {
            Some(status) if status.success() => {
                let seconds = running.seconds.read();
                let running = self.running.take().expect("the load is running, as checked above");
                running.report().map(|report| Progress::Done(seconds, Box::new(report)))
            }
            Some(status) => Err(running.ended(&status.to_string())),
            None if !running.is_prepared => {
                running.is_prepared = prepared_mark(&running.gate).exists();
                Ok(if running.is_prepared { Progress::Prepared } else { Progress::Preparing })
            }
            None => Ok(Progress::Running(running.seconds.read())),
        }
    }

    fn end_early(&mut self) {
        if let Some(running) = &self.running {
            running.generator.ask_to_exit();
        }
    }

    fn abort(&mut self) {
        if let Some(running) = self.running.take() {
            running.sampler.finish();
            running.generator.stop(STOP_GRACE);
        }
    }

    fn sample(&mut self, sampling: &Sampling) -> Result<(), AgentFailure> {
        self.beside = None;
        let set = process_set(sampling).ok_or_else(|| {
            let message = "no `program`, `pid` or `cgroup` is given";
            AgentFailure::new("sampler", message, "add one of them to `sampler` of the gateway")
        })?;
        let sampler = Sampler::of(&sampling.part, &set, sampling.limit_cpus).map_err(|why| {
            let remedy = "start the sampled program, or correct `sampler` of the gateway";
            AgentFailure::new("sampler", why, remedy)
        })?;
        self.beside = Some((sampling.part.clone(), sampler));
        Ok(())
    }

    fn sampled(&mut self, span: SampleSpan) -> Result<SampleReport, AgentFailure> {
        let nothing = || AgentFailure::new("sampler", "sampling has not started", "report this as a bug");
        let (part, sampler) = self.beside.take().ok_or_else(nothing)?;
        let (samples, SampleSpan { start_ns, from_ns, to_ns }) = (sampler.finish(), span);
        Ok(SampleReport {
            usage: samples.usage(&part, from_ns, to_ns),
            seconds: samples.seconds(start_ns, to_ns),
            host: samples.host_usage(from_ns, to_ns),
        })
    }

    fn serve(&mut self, at: IpAddr, serving: &Serving) -> Result<Served, AgentFailure> {
        let listener = TcpListener::bind((at, 0)).and_then(|listener| listener.local_addr());
        let address = listener.map_err(|error| {
            AgentFailure::new(
                "launch",
                format!("cannot listen on {at}: {error}"),
                "check that the agent's host has this address",
            )
        })?;
        self.serves += 1;
        let process = self.origin(address, serving).map_err(|error| failure(&error))?;
        let running = self.rig.launch(&process).map_err(|error| failure(&error.into()))?;
        let pid = running.pid() as i32;
        let part = Part { name: serving.part.clone(), ..running.part() };
        self.served.push(running);
        Ok(Served { address, part, pid })
    }

    fn stop_serving(&mut self) {
        self.served.drain(..).for_each(|running| running.stop(STOP_GRACE));
    }
}

/// The processes that `sampling` selects by program, process ID, control group or containers; `None` if it selects
/// none.
fn process_set(sampling: &Sampling) -> Option<ProcessSet> {
    let program = sampling.program.clone().map(ProcessSet::Program);
    let group = || sampling.group.clone().map(ProcessSet::Group);
    let ids = Some(&sampling.containers).filter(|ids| !ids.is_empty());
    let containers = || ids.cloned().map(ProcessSet::Containers);
    program.or_else(|| sampling.pid.map(ProcessSet::Process)).or_else(group).or_else(containers)
}

impl RunningShard {
    /// Writes a heartbeat for the generator. If heartbeats stop, for example because the disk is full, the generator
    /// ends the load.
    fn show(&self) {
        let _ = fs::write(alive_mark(&self.gate), mono_ns().to_string());
    }

    /// Reads the generator's record, and adds the samples of the sustained phase.
    fn report(self) -> Result<ShardReport, AgentFailure> {
        let samples = self.sampler.finish();
        let record: LoadRecord =
            read_record(&self.files.record, "the load generator").map_err(|error| failure(&error))?;
        let mut part = self.generator.part();
        let (from, to) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let mut usage = samples.usage(&part.name, from, to);
        // If the run sets no CPU limit, a CPU quota on the agent itself also limits the generator.
        if let (None, Some(quota)) = (part.limit_cpus, weir_rig::quota_cpus()) {
            part.limit_cpus = Some(quota);
            usage.iter_mut().for_each(|usage| usage.cpu_share_of_limit = Some(usage.cpu_cores / quota));
        }
        let (host, others) = (samples.host_usage(from, to), samples.host(from, to));
        Ok(ShardReport { usage, host, others, part, record })
    }

    /// Why the generator ended without a record.
    fn ended(&mut self, status: &str) -> AgentFailure {
        // If the process ran out of memory or the disk is full, reports that cause instead.
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
            message: format!("its load generator exited ({status}): {last}"),
            remedy: "correct the cause of the failure; the report shows the end of the generator's log"
                .into(),
            log_tail,
        }
    }
}

/// Interval of the heartbeats for the generator.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Text in the generator's error message if the load was not ready by the planned start.
const LATE: &str = "cannot start at the planned time";

/// The path of the file that the generator creates when it is ready to start. The generator then waits for the file
/// `gate`, which contains the start time.
pub fn prepared_mark(gate: &Path) -> PathBuf {
    gate.with_extension("prepared")
}

/// The path of the file with the agent's heartbeats, which the generator checks. `gate` is the same file as in
/// [`prepared_mark`].
pub fn alive_mark(gate: &Path) -> PathBuf {
    gate.with_extension("alive")
}

fn failure(error: &CellError) -> AgentFailure {
    match error {
        CellError::Failed(CellOutcome::Failed { cause, message, remedy, log_tail }) => {
            AgentFailure { log_tail: log_tail.clone(), ..AgentFailure::new(cause, message, remedy) }
        }
        CellError::Failed(CellOutcome::Measured { .. }) => {
            AgentFailure::new("generator", "the load has no result", "")
        }
        CellError::Refused { part, why } => AgentFailure::new("service", format!("{part}: {why}"), ""),
        CellError::Stopped => AgentFailure::new("stopped", "it was stopped", ""),
    }
}
