//! Starts the agents of a run at a [`Place`], and runs one load after the other on them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_agent::{
    AgentError, AgentFailure, AgentInfo, Authority, Coordinator, Hello, Look, Measured, Order, RoundFailure,
    SampleReport, SampleSpan, Sampling, Served, Serving, read_files,
};
use weir_engine::{LoadSpec, ShardSpec};
use weir_results::{AgentMachine, HostShare, LoadRecord, MergeError, Role, ShardRecord, Usage, merge};
use weir_rig::{Binary, Namespace, ProcessSpec, Rig, RigError, Running, boot_id};

use super::ssh::{Hosts, Join};
use super::{Place, SshError};
use crate::pods::{AgentSize, Carrier, PartSpec, PodError, PodHost};

/// Join timeout of agents that weir starts on this host.
const JOIN_MAX: Duration = Duration::from_secs(30);

/// Join timeout of agents on other machines: the user starts them, or weir is copied there first.
const OWN_JOIN_MAX: Duration = Duration::from_secs(300);

/// Timeout to find out why the pod of a lost agent ended.
const REASON_MAX: Duration = Duration::from_secs(5);

/// Assumed maximum length of a phase that ends after a number of requests. Its real length is unknown.
const COUNT_MAX: Duration = Duration::from_secs(3_600);

/// How often weir checks whether an upstream listens.
const SERVE_EVERY: Duration = Duration::from_millis(10);

/// An error of the agents: one cannot start, is lost, or fails during a load.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// An error of the protocol between the run and an agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// An agent could not be started, or its process has exited.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// An agent failed or was lost during a load, while it sampled, or while it started an upstream.
    #[error(transparent)]
    Round(#[from] RoundFailure),
    /// weir cannot start an agent on an SSH host.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// A pod cannot start, or has ended.
    #[error(transparent)]
    Pod(#[from] Box<PodError>),
    /// The results of the agents cannot be merged into the result of one load.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}

impl From<PodError> for CrewError {
    fn from(error: PodError) -> Self {
        Self::Pod(Box::new(error))
    }
}

impl CrewError {
    /// The failure cause as one word, like `ssh`.
    pub fn cause(&self) -> &str {
        match self {
            Self::Agent(_) | Self::Merge(_) | Self::Stopped => "agents",
            Self::Rig(error) => error.cause(),
            Self::Ssh(_) => "ssh",
            Self::Pod(error) => &error.cause,
            Self::Round(failure) => &failure.failure.cause,
        }
    }

    /// What the user can do about the failure; empty if unknown.
    pub fn remedy(&self) -> String {
        match self {
            Self::Agent(error) => error.remedy().to_owned(),
            Self::Rig(error) => error.remedy(),
            Self::Ssh(error) => error.remedy(),
            Self::Pod(error) => error.remedy.clone(),
            Self::Round(failure) => failure.failure.remedy.clone(),
            Self::Merge(error) => error.remedy().to_owned(),
            Self::Stopped => String::new(),
        }
    }

    /// The last lines that the failed process logged; empty without a log.
    pub fn log_tail(&self) -> &str {
        match self {
            Self::Rig(error) => error.log_tail(),
            Self::Round(failure) => &failure.failure.log_tail,
            Self::Pod(error) => &error.log_tail,
            Self::Agent(_) | Self::Ssh(_) | Self::Merge(_) | Self::Stopped => "",
        }
    }
}

/// How a [`Crew`] starts its agents, and how they join the run.
#[derive(Clone, Debug)]
pub struct Joining<'a> {
    /// Where the agents run.
    pub place: &'a Place,
    /// Name prefix of the agent processes and of their files on this host; unique among the crews of a run.
    pub called: &'a str,
    /// Whether the agents generate load; other agents sample processes or run an upstream.
    pub is_load: bool,
    /// The weir program. weir starts it as an agent on this host, or copies it to SSH hosts that lack it.
    pub weir: &'a Binary,
    /// ID of the run.
    pub run: &'a str,
    /// The address where agents on other machines join. Used only for [`Place::Own`] and [`Place::Ssh`].
    pub listen: SocketAddr,
    /// The ticket file that weir writes for agents that the user starts. Used only for [`Place::Own`].
    pub ticket: PathBuf,
    /// When set, weir stops waiting for the agents to join.
    pub stop: &'a AtomicBool,
    /// The pods to start, for [`Place::Pods`]; otherwise `None`.
    pub pods: Option<InPods<'a>>,
}

/// Pods to start in a cluster, each with an agent.
#[derive(Clone, Debug)]
pub struct InPods<'a> {
    /// The cluster where the pods start.
    pub host: &'a dyn PodHost,
    /// Resources of each agent that generates load; agents that only sample have fixed resources.
    pub size: AgentSize,
    /// What the pods run.
    pub what: PodsWanted<'a>,
}

/// What the pods run.
#[derive(Clone, Debug)]
pub enum PodsWanted<'a> {
    /// Agents that generate load.
    Load,
    /// A gateway or upstream, with an agent in the same pod.
    Part(PartSpec<'a>),
    /// An agent that samples the processes of a gateway on their node.
    Sampler {
        /// Name of the sampled gateway workload in the report.
        part: &'a str,
        /// Name of the node where the gateway's pods and the agent run.
        node: &'a str,
    },
}

impl InPods<'_> {
    fn launch(&self, agents: u32, join: SocketAddr, ticket: &str) -> Result<Box<dyn Carrier>, PodError> {
        match &self.what {
            PodsWanted::Load => self.host.agents(agents, self.size, join, ticket),
            PodsWanted::Part(part) => self.host.part(part, join, ticket),
            PodsWanted::Sampler { part, node } => self.host.sampler(part, node, join, ticket),
        }
    }
}

/// Agents that have joined a run.
#[derive(Debug)]
pub struct Crew {
    coordinator: Coordinator,
    agents: Vec<AgentInfo>,
    /// The agent processes that weir started on this host.
    processes: Vec<Running>,
    /// The SSH connections that keep agents on other hosts alive.
    carriers: Vec<Running>,
    /// The agents' pods, which exist until this value is dropped; `None` if the agents do not run in pods.
    pods: Option<Box<dyn Carrier>>,
    /// The agents' network namespaces; empty for places other than [`Place::Namespaces`].
    namespaces: Vec<Namespace>,
}

impl Crew {
    /// Starts the agents, or asks the user to start them, and waits until all have joined and weir has measured their
    /// clocks. `say` receives the instructions for the user.
    ///
    /// # Errors
    /// [`CrewError`] if an agent cannot start or does not join in time, or if the wait is cancelled.
    pub fn start(rig: &Rig, joining: &Joining<'_>, say: &dyn Fn(&str)) -> Result<Self, CrewError> {
        let authority = Authority::new(joining.run)?;
        let start = |listener| Coordinator::start(listener, &authority, env!("CARGO_PKG_VERSION"));
        let ticket = rig.work_dir().join(format!("{}.ticket", joining.called));
        let mut carriers = Vec::new();
        let mut pods = None;
        let (coordinator, seats) = match joining.place {
            Place::Own(_) => {
                let coordinator = start(outer_listener(joining.listen)?)?;
                authority.ticket().write(&joining.ticket)?;
                say(&own_words(joining, &coordinator));
                (coordinator, Vec::new())
            }
            Place::Ssh(names) => {
                let coordinator = start(outer_listener(joining.listen)?)?;
                authority.ticket().write(&ticket)?;
                let address = coordinator.address();
                let host = Some(address.ip()).filter(|host| !host.is_unspecified());
                let join = Join { host, port: address.port() };
                let called = joining.called;
                carriers = Hosts { names, called, weir: joining.weir, join, ticket: &ticket }.launch(rig)?;
                (coordinator, Vec::new())
            }
            Place::Pods(count) => {
                let wanted = joining.pods.as_ref().ok_or_else(|| {
                    PodError::new(
                        "agents",
                        "agents in pods need a cluster",
                        "use `weir run SCENARIO --on k8s`",
                    )
                })?;
                let coordinator = start(outer_listener((Ipv4Addr::UNSPECIFIED, 0).into())?)?;
                let join = SocketAddr::new(wanted.host.address(), coordinator.address().port());
                authority.ticket().write(&ticket)?;
                let text = std::fs::read_to_string(&ticket)
                    .map_err(|source| AgentError::File { path: ticket.clone(), source })?;
                pods = Some(wanted.launch(*count, join, &text)?);
                (coordinator, Vec::new())
            }
            Place::Local(count) => {
                let coordinator = start(listener((Ipv4Addr::LOCALHOST, 0).into())?)?;
                let seat = Seat { join: coordinator.address(), namespace: None };
                (coordinator, vec![seat; *count as usize])
            }
            Place::Namespaces(count) => {
                let hub = rig.namespace()?;
                let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                let listener = hub.within(|| listener(any)).map_err(AgentError::Start)??;
                let coordinator = start(listener)?;
                let port = coordinator.address().port();
                let seat = |_| {
                    let namespace = rig.namespace()?;
                    let [address, _] = rig.link(&hub, &namespace)?;
                    Ok(Seat { join: (address, port).into(), namespace: Some(namespace) })
                };
                (coordinator, (0..*count).map(seat).collect::<Result<_, RigError>>()?)
            }
        };
        if !seats.is_empty() {
            authority.ticket().write(&ticket)?;
        }
        let mut processes = Vec::new();
        for (seat, number) in seats.iter().zip(1..) {
            let home = home(joining, rig.work_dir(), number);
            std::fs::create_dir_all(&home).map_err(|source| AgentError::File { path: home, source })?;
            processes.push(rig.launch(&process(joining, rig.work_dir(), seat, number, &ticket))?);
        }
        let within = if joining.place.is_elsewhere() { OWN_JOIN_MAX } else { JOIN_MAX };
        let count = joining.place.agents() as usize;
        let died = || -> Result<(), CrewError> {
            died(&mut processes)?;
            died(&mut carriers)?;
            pods.as_deref().and_then(Carrier::failure).map_or(Ok(()), |error| Err(error.into()))
        };
        let mut agents = coordinator.await_agents(count, within, joining.stop, died)?;
        // Agents join in any order. Agents that weir started are sorted in the order of their processes.
        let carries = |process: &Running, agent: &str| {
            let without = process.name().strip_prefix(joining.called);
            process.name() == agent || without.and_then(|rest| rest.strip_prefix('-')) == Some(agent)
        };
        let started = || processes.iter().chain(&carriers);
        agents.sort_by_key(|agent| started().position(|process| carries(process, &agent.name)));
        let namespaces = seats.into_iter().filter_map(|seat| seat.namespace).collect();
        Ok(Self { coordinator, agents, processes, carriers, pods, namespaces })
    }

    /// If the user started the agents and some are lost, asks for replacements and waits until they have joined.
    ///
    /// # Errors
    /// [`CrewError::Agent`] if the replacements do not join within 5 minutes.
    pub fn refill(&mut self, stop: &AtomicBool, say: &dyn Fn(&str)) -> Result<(), CrewError> {
        let present = self.coordinator.agents();
        let is_there = |agent: &AgentInfo| present.iter().any(|there| there.name == agent.name);
        if !self.is_of_user() || self.agents.iter().all(is_there) {
            return Ok(());
        }
        let count = self.agents.len();
        say(&format!(
            "waiting for replacements of lost agents ({} of {count} agents are connected)",
            present.len()
        ));
        self.agents = self.coordinator.await_agents::<CrewError>(count, OWN_JOIN_MAX, stop, || Ok(()))?;
        Ok(())
    }

    /// Returns an error if an agent that weir started has exited, or if its SSH connection or pod has failed.
    fn died(&mut self) -> Result<(), CrewError> {
        died(&mut self.processes)?;
        died(&mut self.carriers)?;
        self.pod_failure().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Why a pod of the agents cannot run; `None` if all run, or if the reason is unknown.
    pub fn pod_failure(&self) -> Option<PodError> {
        self.pods.as_deref().and_then(Carrier::failure)
    }

    /// The pods of the agents; `None` if the agents do not run in pods.
    pub(crate) fn carrier(&self) -> Option<&dyn Carrier> {
        self.pods.as_deref()
    }

    /// Whether the user starts the agents.
    fn is_of_user(&self) -> bool {
        self.processes.is_empty() && self.carriers.is_empty() && self.pods.is_none()
    }

    /// The agents. The agent at index `i` runs shard `i` of each load.
    pub fn agents(&self) -> &[AgentInfo] {
        &self.agents
    }

    /// The agent processes that weir started on this host.
    pub fn processes(&self) -> &[Running] {
        &self.processes
    }

    /// The agents' network namespaces, in the order of [`Crew::agents`]; empty for places other than
    /// [`Place::Namespaces`].
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Makes the first agent sample processes of its host, until [`Crew::sampled`] is called.
    pub fn sample(&mut self, sampling: &Sampling) {
        if let Some(agent) = self.agents.first() {
            self.coordinator.sample(&agent.name, sampling);
        }
    }

    /// Ends the sampling by the first agent, and returns the usage sampled in `span`. The times of `span` are on this
    /// host's monotonic clock.
    ///
    /// # Errors
    /// [`CrewError`] if the agent reports an error, or is lost.
    pub fn sampled(&mut self, span: SampleSpan) -> Result<SampleReport, CrewError> {
        self.died()?;
        let agent = self.agents.first().map(|agent| agent.name.clone()).unwrap_or_default();
        let report = self.coordinator.sampled(&agent, span);
        report.map_err(|failure| RoundFailure { agent, failure }.into())
    }

    /// Starts an upstream on the host of the first agent, and returns once the upstream accepts connections.
    ///
    /// # Errors
    /// [`CrewError`] if the agent cannot start it, the agent is lost, or the upstream does not listen in time.
    pub fn serve(&mut self, serving: Serving, within: Duration) -> Result<Served, CrewError> {
        self.died()?;
        let agent = self.agents.first().map(|agent| agent.name.clone()).unwrap_or_default();
        let deadline = Instant::now() + within;
        let failed = |failure| RoundFailure { agent: agent.clone(), failure };
        let served = self.coordinator.serve(&agent, serving).map_err(failed)?;
        while let Err(error) = TcpStream::connect_timeout(&served.address, within) {
            if Instant::now() >= deadline {
                let message = format!("its upstream at {} does not listen: {error}", served.address);
                let remedy = "check that no firewall blocks connections to that address";
                return Err(failed(AgentFailure::new("never-ready", message, remedy)).into());
            }
            std::thread::sleep(SERVE_EVERY);
        }
        Ok(served)
    }

    /// Stops all upstreams that the first agent has started.
    pub fn stop_serving(&self) {
        if let Some(agent) = self.agents.first() {
            self.coordinator.stop_serving(&agent.name);
        }
    }

    /// Whether an agent has exited or lost its connection.
    pub fn is_lost(&mut self) -> bool {
        self.died().is_err() || self.coordinator.agents().len() < self.agents.len()
    }

    /// Runs the load `spec` on all agents, each with one shard. Returns the merged record of the load, and the
    /// measurement of each agent. Calls `look` regularly during the load. An error of `look` ends the load.
    ///
    /// # Errors
    /// [`CrewError`], or the error of `look`. If one agent fails, the load ends on all agents.
    pub fn run<E: From<CrewError>>(
        &mut self,
        spec: &LoadSpec,
        stop: &Stop<'_>,
        look: &mut dyn FnMut(Look<'_>) -> Result<(), E>,
    ) -> Result<(LoadRecord, Vec<Measured>), E> {
        let end_early = match stop {
            Stop::Aborts(_) => Arc::default(),
            Stop::EndsEarly(stop) => Arc::clone(stop),
        };
        let mut has_started = false;
        self.died()?;
        let mut whole = spec.clone();
        let files = read_files(&mut whole).map_err(CrewError::from)?;
        let of = self.agents.len() as u32;
        let shard = |index: u32| {
            let spec = LoadSpec { shard: Some(ShardSpec { index, of }), ..whole.clone() };
            (self.agents[index as usize].name.clone(), spec)
        };
        let specs = (0..of).map(shard).collect();
        let order = Order { specs, files, longest: longest(spec), end_early: Arc::clone(&end_early) };
        let measured = self.coordinator.run(order, &mut |seen| {
            has_started |= matches!(seen, Look::Starts(_));
            match stop.aborts(has_started) {
                true => Err(Ended::Caller(CrewError::Stopped.into())),
                false => look(seen).map_err(Ended::Caller),
            }
        });
        // `end_early` may be set after the last report, when all shards are already complete. This is harmless:
        // `was_ended` only allows shards to differ in length.
        let was_ended = end_early.load(Ordering::Relaxed);
        let measured = match measured {
            Ok(measured) => measured,
            Err(Ended::Caller(error)) => return Err(error),
            Err(Ended::Round(failure)) => {
                // If a process or pod has died, its error explains more than the lost connection.
                self.died()?;
                if let Some(error) = self.pods.as_deref().and_then(|pods| pods.reason(REASON_MAX)) {
                    return Err(CrewError::from(error).into());
                }
                return Err(CrewError::from(failure).into());
            }
        };
        let record = |(of, machine): (&Measured, Option<AgentMachine>)| ShardRecord {
            machine,
            agent: of.agent.clone(),
            clock_offset_ns: -of.clock.offset_ns,
            clock_bound_ns: of.clock.bound_ns,
            planned_start_ns: of.planned_start_ns,
            lengths_differ: was_ended || spec.request_count.is_some(),
            record: of.report.record.clone(),
        };
        let machines = machines(&self.agents, &measured);
        let records: Vec<ShardRecord> = measured.iter().zip(machines).map(record).collect();
        Ok((merge(&records).map_err(CrewError::from)?, measured))
    }
}

/// A flag that stops a load on the agents. Before the load starts, both [`Stop::Aborts`] and [`Stop::EndsEarly`] cancel
/// it.
#[derive(Debug)]
pub enum Stop<'a> {
    /// When set, cancels the load without a result.
    Aborts(&'a AtomicBool),
    /// When set, ends the load early with a partial result.
    EndsEarly(&'a Arc<AtomicBool>),
}

impl Stop<'_> {
    /// Whether the load must end without a result.
    fn aborts(&self, has_started: bool) -> bool {
        match self {
            Self::Aborts(stop) => stop.load(Ordering::Relaxed),
            Self::EndsEarly(stop) => !has_started && stop.load(Ordering::Relaxed),
        }
    }
}

/// Why a load on all agents ended without a result.
enum Ended<E> {
    Round(RoundFailure),
    Caller(E),
}

impl<E> From<RoundFailure> for Ended<E> {
    fn from(failure: RoundFailure) -> Self {
        Self::Round(failure)
    }
}

/// The address that an agent on this host connects to, and the network namespace where it runs.
#[derive(Clone, Debug)]
struct Seat {
    join: SocketAddr,
    namespace: Option<Namespace>,
}

/// Describes the machine of each agent, in the order of `agents`; `None` if an agent does not report a boot ID. If the
/// machine is not this host, the description includes the CPU share of processes that do not belong to the run.
fn machines(agents: &[AgentInfo], measured: &[Measured]) -> Vec<Option<AgentMachine>> {
    let here = boot_id();
    let cores_of = |of: &Measured| of.report.usage.as_ref().map_or(0.0, |usage| usage.cpu_cores);
    let machine = |(agent, own): (&AgentInfo, &Measured)| {
        let Hello { boot_id, cpus, quota_cpus, .. } = agent.hello.clone();
        if boot_id.is_empty() {
            return None;
        }
        let is_here = boot_id == here;
        let cores = quota_cpus.filter(|_| is_here).unwrap_or(f64::INFINITY).min(f64::from(cpus));
        let unsampled = AgentMachine { boot_id, is_here, cores, ..AgentMachine::default() };
        let sampled = own.report.host.as_ref().zip(own.report.others).filter(|_| !is_here);
        let Some((host, share)) = sampled else { return Some(unsampled) };
        // Other agents of this run on the same machine are not host noise, so their CPU time is subtracted. For the
        // same reason, weir is removed from the list of the busiest processes.
        let is_beside =
            |other: &AgentInfo| other.hello.boot_id == unsampled.boot_id && other.name != agent.name;
        let beside = agents.iter().zip(measured).filter(|(other, _)| is_beside(other));
        let of_run: f64 = beside.map(|(_, of)| cores_of(of)).sum();
        let cores = host.core_busy_shares.len().max(1) as f64;
        let others = (share.others - of_run / cores).max(0.0);
        let busiest = host.busiest.iter().filter(|process| process.name != "weir").cloned().collect();
        Some(AgentMachine { cores, share: Some(HostShare { others, ..share }), busiest, ..unsampled })
    };
    agents.iter().zip(measured).map(machine).collect()
}

/// Returns the usage of the agent that was closest to its CPU limit, because that agent limits the load first. Without
/// CPU limits, returns the usage of the agent that used the most CPU time.
pub fn nearest_to_limit<'a>(used: impl Iterator<Item = &'a Usage>) -> Option<&'a Usage> {
    let share = |usage: &Usage| usage.cpu_share_of_limit.unwrap_or(0.0);
    used.max_by(|one, other| {
        share(one).total_cmp(&share(other)).then(one.cpu_cores.total_cmp(&other.cpu_cores))
    })
}

/// Maximum length of the load `spec` from its start: the warm-up, then all steps. After each step, the drain lasts at
/// most one request timeout.
fn longest(spec: &LoadSpec) -> Duration {
    let steps = spec.steps.len().max(1) as u32;
    let phase = spec.duration_ns.map_or(COUNT_MAX, Duration::from_nanos);
    let warm_up = Duration::from_nanos(spec.warmup_ns.max(spec.warmup_most_ns));
    warm_up + (phase + Duration::from_nanos(spec.timeout_ns)) * steps
}

fn listener(address: SocketAddr) -> Result<TcpListener, AgentError> {
    TcpListener::bind(address).map_err(|source| AgentError::Listen { address, source })
}

/// Listens for agents on other machines. If the IP address is 0.0.0.0, listens on all IPv6 and IPv4 addresses.
fn outer_listener(address: SocketAddr) -> Result<TcpListener, AgentError> {
    if address.ip() == Ipv4Addr::UNSPECIFIED {
        let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
        // Not every host has IPv6.
        return TcpListener::bind(every).or_else(|_| listener(address));
    }
    listener(address)
}

fn own_words(joining: &Joining<'_>, coordinator: &Coordinator) -> String {
    let address = coordinator.address();
    let host = match address.ip().is_unspecified() {
        true => format!("THIS-HOST:{}", address.port()),
        false => address.to_string(),
    };
    format!(
        "waiting for {} agents. Copy {ticket} to each machine, and run there: weir agent --join {host} --ticket {name}",
        joining.place.agents(),
        ticket = joining.ticket.display(),
        name = joining.ticket.file_name().unwrap_or_default().display(),
    )
}

/// The folder of agent `number`. It is inside `work_dir`, which the run removes at its end.
fn home(joining: &Joining<'_>, work_dir: &Path, number: u32) -> PathBuf {
    work_dir.join(format!("{}-{number}", joining.called))
}

fn process(joining: &Joining<'_>, dir: &Path, seat: &Seat, number: u32, ticket: &Path) -> ProcessSpec {
    let (name, home) = (format!("{}-{number}", joining.called), home(joining, dir, number));
    let argument = |path: &Path| path.display().to_string();
    let command = ["agent", "--join", &seat.join.to_string(), "--ticket", &argument(ticket), "--name", &name];
    // If an agent generates load, this run limits and samples the agent and its children. Other agents limit and sample
    // their children themselves.
    let sampled = joining.is_load.then_some("--sampled");
    let command = command.into_iter().chain(sampled).map(str::to_owned);
    let command = std::iter::once(argument(&joining.weir.path)).chain(command).collect();
    ProcessSpec {
        env: vec![("TMPDIR".into(), argument(&home)), ("WEIR_STATE_DIR".into(), argument(&home))],
        dir: dir.to_path_buf(),
        log: home.join("log"),
        is_urgent: true,
        namespace: seat.namespace.clone(),
        ..ProcessSpec::plain(name, Role::Generator, joining.weir.clone(), command)
    }
}

/// Returns an error if one of `processes` has exited.
fn died(processes: &mut [Running]) -> Result<(), CrewError> {
    processes.iter_mut().find_map(Running::failure).map_or(Ok(()), |error| Err(error.into()))
}
