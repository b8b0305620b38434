//! The coordinator: accepts agents, measures the offsets of their clocks, and assigns them shards of loads.
//!
//! A separate thread handles the connections, so that a slow caller does not delay clock measurements.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use weir_engine::{LiveSecond, LoadSpec};
use weir_io::mono_ns;

use crate::files::FileMap;
use crate::message::{
    AgentFailure, Assignment, Hello, SampleReport, SampleSpan, Sampling, Served, Serving, ShardReport,
    ToAgent,
};
use crate::round::{Action, Round, Said};
use crate::ticket::Authority;
use crate::{AgentError, ClockOffset, Clocks, RoundFailure};

mod connection;

/// How often the coordinator checks whether its caller requests a stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Time limit for an agent's response.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Time limit for sending all agents the message that the run is over.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// An agent of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentInfo {
    /// The name of the agent, unique in the run.
    pub name: String,
    /// The remote address of the agent's connection.
    pub address: SocketAddr,
    /// This host's IP address, to which the agent connected.
    pub reached_at: IpAddr,
    /// What the agent sent about itself when it joined.
    pub hello: Hello,
    /// The agent's clock relative to this host's; `None` before the first measurement.
    pub clock: Option<ClockOffset>,
}

/// A load that several agents execute together.
#[derive(Debug)]
pub struct Order {
    /// The names of the agents, each with the specification of its shard.
    pub specs: Vec<(String, LoadSpec)>,
    /// The files that the specifications name.
    pub files: FileMap,
    /// Maximum duration of the load, from its start.
    pub longest: Duration,
    /// If the caller sets this, a started load ends early on all agents, and they report their results so far.
    pub end_early: Arc<AtomicBool>,
}

/// The result of one agent in a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name of the agent.
    pub agent: String,
    /// The report of the agent.
    pub report: ShardReport,
    /// The agent's clock relative to the coordinator's, at the start of the load.
    pub clock: ClockOffset,
    /// The planned start of the load, nanoseconds of the coordinator's monotonic clock.
    pub planned_start_ns: u64,
}

/// What [`Coordinator::run`] reports to its caller during a load.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// The load starts at this time of the coordinator's monotonic clock, nanoseconds.
    Starts(u64),
    /// An agent completed a second of the load. The number is the agent's index in [`Order::specs`].
    Second(usize, &'a LiveSecond),
    /// Nothing happened. `run` reports this at least every 50 ms, so that the caller can stop the load.
    Nothing,
}

/// State of one agent, shared by the agent's connection and the coordinator.
#[derive(Debug)]
struct Member {
    name: String,
    address: SocketAddr,
    reached_at: IpAddr,
    hello: Hello,
    clocks: Clocks,
    /// The agent's clock relative to this host's, at the start of the last load.
    clock_at_start: Option<ClockOffset>,
    to: mpsc::UnboundedSender<ToAgent>,
    /// Why the agent's connection ended; `None` while it is connected.
    gone: Option<String>,
}

/// An event of a connection.
#[derive(Debug)]
enum Event {
    Joined,
    /// A connection was rejected. Contains the reason: the peer is not an agent, or has another version of weir.
    Refused(String),
    Of {
        agent: usize,
        load: Option<u64>,
        said: Heard,
    },
}

#[derive(Debug)]
enum Heard {
    Said(Said<Report>),
    Second(Box<LiveSecond>),
    Answer(Answer),
}

/// The response of an agent to a request for samples or for an upstream. These requests are numbered in the same
/// sequence as loads.
#[derive(Debug)]
enum Answer {
    Sampled(Result<Box<SampleReport>, AgentFailure>),
    Served(Result<Box<Served>, AgentFailure>),
}

/// A running load.
#[derive(Clone, Copy)]
struct Course<'a> {
    load: u64,
    /// The agents that execute the load, as indexes in the list of members.
    present: &'a [usize],
    end_early: &'a AtomicBool,
}

/// The reports of agents, in the order of their shards.
type Reports = Vec<Report>;
type Report = Box<ShardReport>;

/// State shared by all connections.
#[derive(Debug)]
struct Shared {
    version: String,
    members: Mutex<Vec<Member>>,
    /// The files of the current load, which agents can request.
    files: Mutex<Arc<FileMap>>,
    events: Sender<Event>,
}

/// Coordinates the agents of a run.
#[derive(Debug)]
pub struct Coordinator {
    address: SocketAddr,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    loads: u64,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Coordinator {
    /// Starts to accept agents on `listener`. An agent needs the ticket of `authority` and the weir version `version`.
    /// The listener may be in another network namespace.
    ///
    /// # Errors
    /// [`AgentError::Certificates`] if the certificates cannot be used, [`AgentError::Start`] if the thread cannot
    /// start or the socket cannot be used.
    pub fn start(listener: TcpListener, authority: &Authority, version: &str) -> Result<Self, AgentError> {
        let address = listener.local_addr().map_err(AgentError::Start)?;
        listener.set_nonblocking(true).map_err(AgentError::Start)?;
        let tls = authority.server()?;
        let (events_in, events) = channel();
        let shared = Arc::new(Shared {
            version: version.to_owned(),
            members: Mutex::default(),
            files: Mutex::default(),
            events: events_in,
        });
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AgentError::Start)?;
        let of_connections = Arc::clone(&shared);
        let thread = thread::Builder::new().name("agents".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = connection::accept(listener, tls, &of_connections) => {}
                    _ = ended => connection::leave(&of_connections, LEAVE_MAX).await,
                }
            });
        });
        let thread = thread.map_err(AgentError::Start)?;
        Ok(Self { address, shared, events, loads: 0, end: Some(end), thread: Some(thread) })
    }

    /// The address to which agents connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The connected agents, in the order in which they joined.
    pub fn agents(&self) -> Vec<AgentInfo> {
        let now_ns = mono_ns();
        let members = self.shared.members();
        let present = members.iter().filter(|member| member.gone.is_none());
        present.map(|member| member.info(now_ns)).collect()
    }

    /// Waits until `count` agents have joined and their clocks are known. Calls `look` meanwhile. An error of `look`
    /// ends the wait, for example if the process of an agent exited.
    ///
    /// # Errors
    /// [`AgentError::Missing`] after `within`, [`AgentError::Stopped`] if `stop` is set, and errors of `look`.
    pub fn await_agents<E: From<AgentError>>(
        &self,
        count: usize,
        within: Duration,
        stop: &AtomicBool,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<AgentInfo>, E> {
        let deadline = Instant::now() + within;
        let mut refused = Vec::new();
        loop {
            let mut there: Vec<AgentInfo> =
                self.agents().into_iter().filter(|agent| agent.clock.is_some()).collect();
            if there.len() >= count {
                // More than `count` agents may have joined; the rest do not take part.
                there.truncate(count);
                return Ok(there);
            }
            look()?;
            if stop.load(Ordering::Relaxed) {
                return Err(AgentError::Stopped.into());
            }
            if Instant::now() >= deadline {
                let detail = refused.last().map(|why| format!("; last rejected connection: {why}"));
                let detail = detail.unwrap_or_default();
                let (joined, needed, seconds) = (there.len(), count, within.as_secs());
                return Err(AgentError::Missing { joined, needed, seconds, detail }.into());
            }
            if let Ok(Event::Refused(why)) = self.events.recv_timeout(LOOK_EVERY) {
                refused.push(why);
            }
        }
    }

    /// Runs a load on the agents that `order` names. Calls `look` with each event of the load. An error of `look`
    /// aborts the load.
    ///
    /// # Errors
    /// [`RoundFailure`] of the first agent that fails, and errors of `look`. The load is then aborted on all agents.
    pub fn run<E: From<RoundFailure>>(
        &mut self,
        order: Order,
        look: &mut dyn FnMut(Look<'_>) -> Result<(), E>,
    ) -> Result<Vec<Measured>, E> {
        self.loads += 1;
        let load = self.loads;
        let names: Vec<String> = order.specs.iter().map(|(name, _)| name.clone()).collect();
        let mut round = Round::new(names, mono_ns(), order.longest.as_nanos() as u64);
        let present = self.assign(load, order.specs, order.files, &mut round);
        let course = Course { load, present: &present, end_early: &order.end_early };
        let ended = self.follow(&course, &mut round, look);
        if ended.is_err() {
            self.tell(&present, &ToAgent::Abort { load });
        }
        let (planned_start_ns, reports) = ended?;
        let members = self.shared.members();
        let measured = |(agent, report): (&usize, Report)| {
            let member = &members[*agent];
            let clock = member.clock_at_start.unwrap_or(ClockOffset { offset_ns: 0, bound_ns: u64::MAX });
            Measured { agent: member.name.clone(), report: *report, clock, planned_start_ns }
        };
        Ok(present.iter().zip(reports).map(measured).collect())
    }

    /// Makes the agent `name` sample processes on its host, until [`Coordinator::sampled`] requests the samples.
    pub fn sample(&mut self, name: &str, sampling: &Sampling) {
        self.loads += 1;
        let message = ToAgent::Sample { number: self.loads, sampling: sampling.clone() };
        let number = self.shared.members().iter().position(|member| member.name == name);
        self.tell(number.as_slice(), &message);
    }

    /// Ends the sampling of the agent `name`, and returns the samples in `span`. The times of `span` are by this host's
    /// clock.
    ///
    /// # Errors
    /// The error that the agent reports, or a failure with the cause `lost` if the agent does not respond.
    pub fn sampled(&self, name: &str, span: SampleSpan) -> Result<SampleReport, AgentFailure> {
        let agent = self.present(name)?;
        let clock = self.shared.members()[agent].clocks.offset(span.to_ns);
        let clock = clock.ok_or_else(|| lost("its clock offset is unknown"))?;
        let SampleSpan { start_ns, from_ns, to_ns } = span;
        let [start_ns, from_ns, to_ns] = [start_ns, from_ns, to_ns].map(|at_ns| clock.of_agent(at_ns));
        let span = SampleSpan { start_ns, from_ns, to_ns };
        match self.ask(agent, &ToAgent::Sampled { number: self.loads, span })? {
            Answer::Sampled(report) => report.map(|report| *report),
            Answer::Served(_) => Err(lost("unexpected response")),
        }
    }

    /// Makes the agent `name` start an upstream.
    ///
    /// # Errors
    /// The error that the agent reports, or a failure with the cause `lost` if the agent does not respond.
    pub fn serve(&mut self, name: &str, serving: Serving) -> Result<Served, AgentFailure> {
        self.loads += 1;
        let agent = self.present(name)?;
        match self.ask(agent, &ToAgent::Serve { number: self.loads, serving: Box::new(serving) })? {
            Answer::Served(served) => served.map(|served| *served),
            Answer::Sampled(_) => Err(lost("unexpected response")),
        }
    }

    /// Stops all upstreams of the agent `name`.
    pub fn stop_serving(&self, name: &str) {
        if let Ok(agent) = self.present(name) {
            self.tell(&[agent], &ToAgent::StopServing);
        }
    }

    /// The index of the agent `name` in the list of members; an error if the agent is not connected.
    fn present(&self, name: &str) -> Result<usize, AgentFailure> {
        let members = self.shared.members();
        let agent = members.iter().position(|member| member.name == name);
        let agent = agent.ok_or_else(|| lost("it has never joined"))?;
        members[agent].gone.as_deref().map_or(Ok(agent), |why| Err(lost(why)))
    }

    /// Sends `question` to an agent, and waits for the response. `question` must contain the number `self.loads`: other
    /// responses are ignored.
    fn ask(&self, agent: usize, question: &ToAgent) -> Result<Answer, AgentFailure> {
        self.tell(&[agent], question);
        let deadline = Instant::now() + ANSWER_MAX;
        while let Some(patience) = deadline.checked_duration_since(Instant::now()) {
            match self.events.recv_timeout(patience) {
                Ok(Event::Of { agent: of, load, said }) if of == agent => match said {
                    Heard::Answer(answer) if load == Some(self.loads) => return Ok(answer),
                    Heard::Said(Said::Lost(why)) => return Err(lost(&why)),
                    _ => {}
                },
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Err(lost("no response within 5 s"))
    }

    /// Starts an assigned load once all agents are prepared, and follows it to its end. Returns its planned start, and
    /// the reports of the agents.
    fn follow<E: From<RoundFailure>>(
        &self,
        course: &Course<'_>,
        round: &mut Round<Report>,
        look: &mut dyn FnMut(Look<'_>) -> Result<(), E>,
    ) -> Result<(u64, Reports), E> {
        let Course { load, present, end_early } = *course;
        let mut planned_start_ns = 0;
        let mut is_ending = false;
        loop {
            if !is_ending && round.has_started() && end_early.load(Ordering::Relaxed) {
                is_ending = true;
                round.end_early(mono_ns());
                self.tell(present, &ToAgent::End { load });
            }
            let until_ns = match round.next(mono_ns()) {
                Action::Listen { until_ns } => until_ns,
                Action::Start { at_ns } => {
                    planned_start_ns = at_ns;
                    self.start_all(present, load, at_ns, round);
                    look(Look::Starts(at_ns))?;
                    continue;
                }
                Action::Finish(reports) => return Ok((planned_start_ns, reports)),
                Action::Fail(failure) => return Err(failure.into()),
            };
            look(Look::Nothing)?;
            let patience = Duration::from_nanos(until_ns.saturating_sub(mono_ns())).min(LOOK_EVERY);
            let event = self.events.recv_timeout(patience);
            let Ok(Event::Of { agent, load: of, said }) = event else {
                if event.is_err_and(|error| error == RecvTimeoutError::Disconnected) {
                    (0..present.len())
                        .for_each(|place| round.hear(place, Said::Lost("the coordinator ended".into())));
                }
                continue;
            };
            // Ignore events of an earlier load, and of agents that do not take part.
            let place = present.iter().position(|known| *known == agent);
            let Some(place) = place.filter(|_| of.is_none_or(|of| of == load)) else { continue };
            match said {
                Heard::Said(said) => round.hear(place, said),
                Heard::Second(second) => look(Look::Second(place, &second))?,
                Heard::Answer(_) => {}
            }
        }
    }

    /// Sends each agent in `specs` its shard. Returns the indexes of these agents in the list of members.
    fn assign(
        &self,
        load: u64,
        specs: Vec<(String, LoadSpec)>,
        files: FileMap,
        round: &mut Round<Report>,
    ) -> Vec<usize> {
        let lengths: BTreeMap<String, u64> =
            files.0.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect();
        *self.shared.files.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
        let members = self.shared.members();
        let mut assigned = Vec::new();
        for (place, (name, spec)) in specs.into_iter().enumerate() {
            let number = members.iter().position(|member| member.name == name);
            let gone =
                number.map_or_else(|| Some("it has never joined"), |number| members[number].gone.as_deref());
            if let Some(why) = gone {
                round.hear(place, Said::Lost(why.to_owned()));
            }
            let number = number.unwrap_or(usize::MAX);
            if let Some(member) = members.get(number) {
                let assignment = Assignment { load, spec, files: lengths.clone() };
                let _ = member.to.send(ToAgent::Assign(Box::new(assignment)));
            }
            assigned.push(number);
        }
        assigned
    }

    fn start_all(&self, present: &[usize], load: u64, at_ns: u64, round: &mut Round<Report>) {
        let mut members = self.shared.members();
        for (place, agent) in present.iter().enumerate() {
            let known = members.get_mut(*agent).and_then(|member| {
                member.clock_at_start = member.clocks.offset(at_ns);
                Some((member.clock_at_start?, &member.to))
            });
            match known {
                Some((clock, to)) => {
                    let _ = to.send(ToAgent::Start { load, at_ns: clock.of_agent(at_ns) });
                }
                None => round.hear(place, Said::Lost("its clock offset is unknown".into())),
            }
        }
    }

    fn tell(&self, agents: &[usize], message: &ToAgent) {
        let members = self.shared.members();
        for member in agents.iter().filter_map(|agent| members.get(*agent)) {
            let _ = member.to.send(message.clone());
        }
    }
}

fn lost(why: &str) -> AgentFailure {
    AgentFailure::new("lost", format!("lost: {why}"), "see the log of the agent")
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an agent to the members, under a unique name. Returns the agent's number and this name.
    fn join(
        &self,
        [address, own]: [SocketAddr; 2],
        hello: Hello,
        to: mpsc::UnboundedSender<ToAgent>,
    ) -> (usize, String) {
        let mut members = self.members();
        let is_taken = |name: &str| members.iter().any(|member| member.name == name);
        let wanted = if hello.name.is_empty() { "agent".to_owned() } else { hello.name.clone() };
        let numbered = (2..).map(|number| format!("{wanted}-{number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find(|name| !is_taken(name));
        let name = name.unwrap_or(wanted);
        let number = members.len();
        members.push(Member {
            name: name.clone(),
            address,
            reached_at: own.ip().to_canonical(),
            hello,
            clocks: Clocks::default(),
            clock_at_start: None,
            to,
            gone: None,
        });
        (number, name)
    }
}

impl Member {
    fn info(&self, now_ns: u64) -> AgentInfo {
        AgentInfo {
            name: self.name.clone(),
            address: self.address,
            reached_at: self.reached_at,
            hello: self.hello.clone(),
            clock: self.clocks.offset(now_ns),
        }
    }
}
