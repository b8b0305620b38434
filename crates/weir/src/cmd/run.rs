//! `weir run`: measures a scenario, and reports the results.

mod baseline;
mod plan;
mod progress;
mod resume;
mod until;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use weir_analysis::compare::Comparison;
use weir_lab::pods::GatewayRights;
use weir_lab::{
    AgentsOptions, Bench, Ended, Known, LabError, Observer, Overrides, Prepared, Source, Watcher,
};
use weir_results::{Run, Store};
use weir_rig::{Binary, Drivers, EngineKind, Engines, Programs};

use super::database::Database;
use super::gate::{Gate, RUN_EXIT_CODES};
use super::hint::with_database;
use super::k8s::{self, ClusterArgs, Launched, On};
use super::known::known;
use super::output::note;
use super::report::{self, Format, Wanted, tell};
use super::scope::enter_scope;
use super::watch::{self, RunWatcher, WatchArgs};
use crate::failure::{Exit, Failure};
use baseline::Baseline;
use until::{Look, Until};

#[cfg(feature = "kubernetes")]
pub(super) use progress::watcher as watcher_of;

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXIT_CODES)]
pub(crate) struct Args {
    #[arg(
        required_unless_present = "resume",
        conflicts_with = "resume",
        help = format!("Scenario file, or a built-in one: {}", weir_lab::built_in_names().join(", "))
    )]
    scenario: Option<String>,
    /// Run only this gateway: a name from the scenario, or the name of a driver; may be repeated
    #[arg(long = "gateway", value_name = "NAME", conflicts_with = "resume")]
    gateways: Vec<String>,
    /// Override a field of the scenario, like limits.data.cpus=0.5; may be repeated
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "resume")]
    set: Vec<String>,
    /// Shorten all phases to a twentieth, to try a scenario; fields given with --set keep their value
    #[arg(long, conflicts_with = "resume")]
    quick: bool,
    /// Number of repeats; with --resume, the new total
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Seed of the random order of measurements and of the arrival times
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,
    /// URL of the Prometheus server that has the CPU and memory metrics of the remote gateway (`driver: remote`)
    #[arg(long, value_name = "URL", conflicts_with = "resume")]
    prometheus: Option<String>,
    /// Label matchers for the series of the gateway, like namespace="shop",pod=~"gw-.*"
    #[arg(long, value_name = "MATCHERS", conflicts_with = "resume")]
    selector: Option<String>,
    /// Add a positive control: measure one gateway a second time, made slower on purpose. Each request takes SHARE more
    /// CPU time; in open loads, its latency also grows by SHARE of the p50. The report states whether this run detects
    /// the difference. Needs 6 repeats. SHARE, such as 10%, applies to the first gateway; GATEWAY=SHARE, such as
    /// nginx=10%, selects another
    #[arg(long, value_name = "SHARE", conflicts_with = "resume")]
    control: Option<String>,
    /// Where agents generate the load. local:N and netns:N start N agents on this host. ssh:HOST,HOST starts an agent
    /// on each host, and two on a host named twice. agents:N waits for N agents that you start. k8s and k8s:CONTEXT run
    /// everything in a Kubernetes cluster
    #[arg(long, value_name = "PLACE")]
    on: Option<On>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// With --on agents:N or ssh:HOST: address where weir listens for agents; samplers and the upstream's agent connect
    /// to the next ports. With ssh:HOST, 0.0.0.0 means the address of this host that the SSH connection uses
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7400")]
    listen: SocketAddr,
    /// File that agents need to join this run (--on agents:N). The run waits up to five minutes for the agents
    #[arg(long, value_name = "FILE", default_value = "weir.ticket")]
    ticket: PathBuf,
    /// Print the cells in order with their duration; run nothing
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    database: Database,
    /// Directory for the report [default: weir-results/RUN]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the objectives as JUnit tests, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Resume an interrupted run, or add --repeats to a finished one: its ID, a prefix of the ID, or `last`
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// Add repeats until the confidence interval of each main value is narrow enough: for CPU per request within 5 % of
    /// its mean, for throughput and p50 within 10 %. METRIC=SHARE changes or adds a tolerance, like p99=25%
    #[arg(long, value_name = "METRIC=SHARE,..", num_args = 0..=1, default_missing_value = "default")]
    until: Option<Until>,
    /// Maximum number of repeats with --until. weir also stops after 6 repeats if none is valid
    #[arg(long, value_name = "N", default_value_t = 30, requires = "until")]
    at_most: u32,
    /// Additional driver directory: one driver, or one directory per driver; may be repeated
    #[arg(long, value_name = "DIR")]
    drivers: Vec<PathBuf>,
    /// If the program of a gateway, service or upstream is missing, run it in a container of its driver's image; needs
    /// Docker or Podman
    #[arg(long)]
    images: bool,
    /// Container engine: docker or podman [default: the first that responds]
    #[arg(long, value_name = "NAME")]
    engine: Option<EngineKind>,
    /// At the end, compare with this earlier run of the same scenario. A change of the host between the runs looks like
    /// a difference between the gateways; `weir compare --help` shows a better way
    #[arg(long, value_name = "RUN")]
    baseline: Option<String>,
    /// Outcomes that fail the run, separated by commas [default: undecided]
    #[arg(long, value_name = "OUTCOME", value_enum, value_delimiter = ',')]
    fail_on: Vec<FailOn>,
    /// Print one JSON document (run, cells, summary, comparison); progress is on standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    watch: WatchArgs,
}

/// If no repeat is valid after this number of repeats, `--until` gives up.
const HOPELESS_FROM: u32 = 6;

/// An outcome that fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Exit with 1 if an objective is missed or a cell failed
    Missed,
    /// Same as missed, and exit with 4 if an objective or a main result is undecided
    Undecided,
    /// Exit with 1 if a metric is worse than in the baseline, with 4 if nothing could be compared
    Worse,
}

impl Args {
    /// Which results of the run itself fail the command. `--fail-on worse` applies only to the comparison with the
    /// baseline.
    fn gate(&self) -> Gate {
        let has = |outcome| self.fail_on.contains(&outcome);
        if has(FailOn::Missed) && !has(FailOn::Undecided) { Gate::Missed } else { Gate::Undecided }
    }

    fn agents(&self) -> AgentsOptions {
        AgentsOptions { listen: self.listen, ticket: self.ticket.clone(), pods: None }
    }

    /// Where the programs of the run come from: this host, container images, or images in a cluster.
    fn programs(&self) -> Result<Programs<'static>, Failure> {
        let before_pull: &dyn Fn(&str) = &|text| note(text);
        let pods = self.context().map(|_| self.cluster.image_name()).transpose()?;
        Ok(Programs { images: self.images, engines: Engines::new(self.engine), before_pull, pods })
    }

    /// The kubeconfig context of the run's cluster. `Some(None)` is the current context, and `None` means that the
    /// run is on this host.
    fn context(&self) -> Option<Option<&str>> {
        match &self.on {
            Some(On::Cluster(context)) => Some(context.as_deref()),
            Some(On::Agents(_)) | None => None,
        }
    }

    /// What the scenario is checked against: the drivers, and this host or the cluster.
    fn known(&self, drivers: &Drivers) -> Result<Known, Failure> {
        match self.context() {
            Some(context) => Ok(k8s::known_of_cluster(drivers, k8s::node_cpus(context)?)),
            None => Ok(known(drivers)),
        }
    }

    /// Rejects flags that contradict each other.
    fn check(&self) -> Result<(), Failure> {
        let is_in_cluster = self.context().is_some();
        if let (false, Some(flag)) = (is_in_cluster, self.cluster.given()) {
            let message = format!("{flag} is only valid for a run in a cluster");
            return Err(Failure::wrong_use(message, "add --on k8s"));
        }
        if let (Some(On::Agents(_)), Some(_)) = (&self.on, &self.resume) {
            let message = "--on: a resumed run keeps its agents";
            return Err(Failure::wrong_use(message, "remove --on, or start a new run"));
        }
        let elsewhere = [
            ("--until", self.until.is_some()),
            ("--drivers", !self.drivers.is_empty()),
            ("--images", self.images),
            ("--engine", self.engine.is_some()),
        ];
        match elsewhere.into_iter().find(|(_, is_given)| is_in_cluster && *is_given) {
            Some((flag, _)) => {
                let message = format!("{flag} is not supported in a cluster yet");
                Err(Failure::wrong_use(message, format!("remove {flag}, or run on this host")))
            }
            None => Ok(()),
        }
    }

    fn fails_on_worse(&self) -> bool {
        self.fail_on.contains(&FailOn::Worse)
    }
}

/// Runs a scenario, or resumes a stored run.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    if args.fails_on_worse() && args.baseline.is_none() {
        let message = "--fail-on worse: no baseline to compare with";
        return Err(Failure::wrong_use(message, "add --baseline RUN"));
    }
    args.check()?;
    if !args.plan && args.context().is_none() {
        enter_scope();
    }
    let drivers = Drivers::load(&args.drivers)?;
    match &args.resume {
        Some(name) => resume(&args, &drivers, name),
        None => start(&args, &drivers),
    }
}

fn start(args: &Args, drivers: &Drivers) -> Result<Exit, Failure> {
    let place = args.on.as_ref().map(|on| match on {
        On::Agents(place) => format!("generator.on={place}"),
        On::Cluster(_) => format!("generator.on=pods:{}", args.cluster.agents.unwrap_or(1)),
    });
    let overrides = Overrides {
        set: place.into_iter().chain(args.set.clone()).collect(),
        gateways: args.gateways.clone(),
        quick: args.quick,
        repeats: args.repeats,
        control: args.control.clone(),
        seed: args.seed,
        prometheus: args.prometheus.clone(),
        selector: args.selector.clone(),
    };
    let source = Source::find(args.scenario.as_deref().unwrap_or_default())?;
    let checked = weir_lab::read(&source, &overrides, &args.known(drivers)?)?;
    let prepared = weir_lab::prepare_with(checked, drivers, &args.programs()?)?;
    let mut run = weir_lab::new_run(&prepared, std::env::args().collect());
    run.manifest.repeats_were_added = args.until.is_some();
    if args.plan {
        check_outputs(args, &run)?;
        if let Some(name) = &args.baseline {
            Baseline::find(&args.database.open()?, name, &run)?;
        }
        let seed_is_given = prepared.checked.scenario.seed.is_some();
        let plan = weir_lab::plan::Plan { seed: run.seed, cells: run.plan };
        plan::tell(&prepared, &plan, seed_is_given, args.json);
        return Ok(Exit::Good);
    }
    let mut store = args.database.open_or_make()?;
    go(args, drivers, &run, &prepared, &mut store, &[])
}

fn resume(args: &Args, drivers: &Drivers, name: &str) -> Result<Exit, Failure> {
    let mut store = match args.plan {
        true => args.database.open()?,
        false => args.database.open_to_resume()?,
    };
    let mut run = store.run(&store.find(name)?)?;
    let checked = weir_lab::read_again(&run, args.repeats, &args.known(drivers)?)?;
    match (checked.scenario.is_in_pods(), args.context()) {
        (true, None) => {
            let message = format!("run {} belongs to a cluster", run.id);
            return Err(Failure::wrong_use(message, "add --on k8s"));
        }
        (false, Some(_)) => {
            let message = format!("run {} does not belong to a cluster", run.id);
            return Err(Failure::wrong_use(message, "remove --on, or start a new run in the cluster"));
        }
        _ => {}
    }
    if args.repeats.is_some() {
        run = weir_lab::extended(&run, &checked)?;
    }
    let prepared = weir_lab::prepare_with(checked, drivers, &args.programs()?)?;
    let finished = store.finished(&run.id)?;
    if args.plan {
        check_outputs(args, &run)?;
        if let Some(name) = &args.baseline {
            Baseline::find(&store, name, &run)?;
        }
        let cells = run.plan.iter().filter(|key| !finished.contains(&key.index)).cloned().collect();
        plan::tell(&prepared, &weir_lab::plan::Plan { seed: run.seed, cells }, true, args.json);
        return Ok(Exit::Good);
    }
    let mut notes = weir_lab::differences(&run, &store.cells(&run.id)?, &prepared, &Binary::own()?);
    if finished.len() == run.plan.len() {
        notes.push(format!("run {} is already finished; weir writes its reports again", run.id));
    }
    go(args, drivers, &run, &prepared, &mut store, &notes)
}

/// Measures the remaining cells of `run`, and reports the results.
fn go(
    args: &Args,
    drivers: &Drivers,
    run: &Run,
    prepared: &Prepared,
    store: &mut Store,
    notes: &[String],
) -> Result<Exit, Failure> {
    // Outputs are checked first, because measuring may take hours.
    check_outputs(args, run)?;
    let baseline = args.baseline.as_deref().map(|name| Baseline::find(store, name, run)).transpose()?;
    let finished = store.finished(&run.id)?;
    let missing = run.plan.iter().filter(|key| !finished.contains(&key.index));
    let takes = weir_lab::plan::time(&prepared.checked, missing) + weir_lab::pilot_time(&prepared.checked);
    let progress = progress::watcher(&prepared.checked.scenario, run.plan.len());
    progress.note(&format!(
        "run {}: {}, {}, {}",
        run.id,
        run.name,
        progress::cells(run.plan.len()),
        progress::range(takes)
    ));
    for note in prepared.notes.iter().chain(notes) {
        progress.note(note);
    }
    let ended = match args.context() {
        Some(context) => {
            drop(progress);
            let rights = GatewayRights::of(&prepared.checked.scenario, drivers, &run.id)?;
            match k8s::launch(run, store, context, &args.cluster, &rights)? {
                Launched::Detached => return Ok(Exit::Good),
                Launched::Finished => Ok(Ended::Finished),
                Launched::Interrupted => Ok(Ended::Interrupted),
            }
        }
        None => measured_here(args, drivers, run, prepared, store, progress)?,
    };
    let how_to_resume = || format!("`{}` continues after the stored cells", args.resume_command(&run.id));
    match ended {
        Err(error) => {
            let mut failure = Failure::from(error);
            // A run that could not start is not in the database, so it cannot be resumed.
            if store.run(&run.id).is_ok() {
                failure.problem.remedy = format!("{}; then {}", failure.problem.remedy, how_to_resume());
            }
            Err(failure)
        }
        Ok(Ended::Interrupted) if store.run(&run.id).is_err() => {
            note("interrupted before the first cell: nothing was stored");
            Ok(Exit::Interrupted)
        }
        Ok(Ended::Interrupted) => {
            let kept = store.finished(&run.id)?.len();
            let planned = progress::cells(run.plan.len());
            let how = with_database(&how_to_resume());
            note(format_args!("interrupted: {kept} of {planned} stored; {how}"));
            Ok(Exit::Interrupted)
        }
        Ok(Ended::Finished) => {
            let comparison = compared(baseline, store, &run.id);
            let wanted = Wanted {
                out: args.out.as_deref(),
                formats: Format::ALL,
                json: args.json,
                junit: args.junit.as_deref(),
                comparison: comparison.as_ref().and_then(|compared| compared.as_ref().ok()),
                gate: args.gate(),
            };
            let exit = tell(store, &run.id, &wanted)?;
            match comparison {
                Some(compared) if args.fails_on_worse() => Ok(exit.and(gate_of(&compared?))),
                compared => compared.transpose().map(|_| exit),
            }
        }
    }
}

/// Measures the remaining cells of `run` on this host.
fn measured_here(
    args: &Args,
    drivers: &Drivers,
    run: &Run,
    prepared: &Prepared,
    store: &mut Store,
    progress: Box<dyn Observer>,
) -> Result<Result<Ended, LabError>, Failure> {
    let (stop, weir, agents) = (interruptible()?, Binary::own()?, args.agents());
    let watch = args.watch.start()?;
    let run_watcher = watch.as_ref().map(RunWatcher::new);
    let bench = Bench {
        drivers,
        weir: &weir,
        stop: &stop,
        observer: progress.as_ref(),
        agents: &agents,
        watcher: run_watcher.as_ref().map(|watcher| watcher as &dyn Watcher),
    };
    let ended = measured(args, run, prepared, store, &bench);
    drop(progress);
    if let Some(watch) = watch {
        watch::finish(watch);
    }
    Ok(ended)
}

/// Measures the remaining cells of `run`. With `--until`, adds repeats until the confidence intervals are narrow
/// enough.
fn measured(
    args: &Args,
    run: &Run,
    prepared: &Prepared,
    store: &mut Store,
    bench: &Bench<'_>,
) -> Result<Ended, LabError> {
    let mut ended = weir_lab::execute(run, prepared, store, bench)?;
    let Some(until) = &args.until else { return Ok(ended) };
    while matches!(ended, Ended::Finished) {
        let run = store.run(&run.id)?;
        let repeats = run.repeats();
        let why = match until.look(&weir_analysis::summarize(&run, &store.cells(&run.id)?).points) {
            Look::Reached => format!("--until: every interval is narrow enough after {repeats} repeats"),
            Look::Open { values, .. } if repeats >= args.at_most => {
                format!(
                    "--until: stopped after {repeats} repeats, the maximum (--at-most). Intervals too wide: {}",
                    values.join("; ")
                )
            }
            Look::Open { values, is_hopeless: true } if repeats >= HOPELESS_FROM => format!(
                "--until: stopped after {repeats} repeats: none is valid, so more repeats would not help. Intervals too \
                 wide: {}",
                values.join("; ")
            ),
            Look::Open { .. } => {
                let checked = weir_lab::read_again(&run, Some(repeats + 1), &known(bench.drivers))?;
                let run = weir_lab::extended(&run, &checked)?;
                let programs = Programs {
                    images: args.images,
                    engines: Engines::new(args.engine),
                    ..Programs::default()
                };
                let prepared = weir_lab::prepare_with(checked, bench.drivers, &programs)?;
                ended = weir_lab::execute(&run, &prepared, store, bench)?;
                continue;
            }
        };
        bench.observer.note(&why);
        return Ok(ended);
    }
    Ok(ended)
}

/// Adds repeats to stored runs. Ctrl-C interrupts it.
pub(crate) struct Extension {
    drivers: Drivers,
    stop: Arc<AtomicBool>,
}

impl Extension {
    pub(crate) fn new() -> Result<Self, Failure> {
        enter_scope();
        Ok(Self { drivers: Drivers::load(&[])?, stop: interruptible()? })
    }

    /// Measures the run until it has this number of repeats. Returns `false` if it was interrupted.
    pub(crate) fn measure(&self, store: &mut Store, run_id: &str, repeats: u32) -> Result<bool, Failure> {
        let run = store.run(run_id)?;
        let checked = weir_lab::read_again(&run, Some(repeats), &known(&self.drivers))?;
        let run = weir_lab::extended(&run, &checked)?;
        let watcher = progress::watcher(&checked.scenario, run.plan.len());
        let (weir, agents) = (Binary::own()?, AgentsOptions::default());
        let bench = Bench {
            drivers: &self.drivers,
            weir: &weir,
            stop: &self.stop,
            observer: watcher.as_ref(),
            agents: &agents,
            watcher: None,
        };
        let ended = weir_lab::execute(&run, &weir_lab::prepare(checked, &self.drivers)?, store, &bench)?;
        Ok(matches!(ended, Ended::Finished))
    }
}

/// Checks that the report and the JUnit file of `run` can be written. With `--plan`, checks only the paths that the
/// user gave.
fn check_outputs(args: &Args, run: &Run) -> Result<(), Failure> {
    if !args.plan || args.out.is_some() {
        report::check_folder(args.out.as_deref(), &run.id)?;
    }
    let Some(path) = &args.junit else { return Ok(()) };
    if run.objective.is_none() {
        return Err(report::no_objective("--junit", &format!("scenario {}", run.name)));
    }
    report::check_junit(path)
}

/// Returns the exit code for `--fail-on worse`. Prints the reason if the code is not 0.
fn gate_of(comparison: &Comparison) -> Exit {
    if comparison.is_worse() {
        note("exit code 1: worse than the baseline");
        return Exit::BadResult;
    }
    match comparison.nothing_decidable() {
        None => Exit::Good,
        Some(why) => {
            note(format_args!("exit code 4: nothing could be compared with the baseline: {why}"));
            Exit::Undecided
        }
    }
}

/// Compares the finished run with its baseline; `None` without a baseline.
fn compared(baseline: Option<Baseline>, store: &Store, id: &str) -> Option<Result<Comparison, Failure>> {
    let baseline = baseline?;
    Some(
        store
            .run(id)
            .and_then(|run| Ok((run, store.cells(id)?)))
            .map_err(Failure::from)
            .and_then(|(run, cells)| baseline.compare(&run, &cells)),
    )
}

/// Returns a flag that Ctrl-C and SIGTERM set. A second Ctrl-C kills this process, and `weir guard` cleans up.
fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let registered = flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&stop)))
        .and_then(|_| flag::register(SIGTERM, Arc::clone(&stop)));
    registered.map_err(|error| {
        Failure::environment(format!("cannot handle signals: {error}"), "report this as a bug")
    })?;
    Ok(stop)
}
