//! Agents that do not generate load: they sample a gateway on its host or in its pod, or run and sample the upstream.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_agent::{SampleReport, SampleSpan, Sampling, Served, Serving};
use weir_results::words::counted;
use weir_results::{Part, Role};
use weir_rig::Limits;
use weir_rig::prometheus::Span;

use super::Lab;
use super::error::{CellError, failed};
use super::from_agents::AgentsOptions;
use super::remote::Observed;
use crate::agents::{Crew, CrewError, InPods, Joining, Place, PodsWanted};
use crate::pods::{AgentSize, PartSpec, PodError, part_of};
use crate::scenario::Scenario;

/// Timeout from the agent's join until all containers of its pod run.
const POD_MAX: Duration = Duration::from_secs(120);
const POD_EVERY: Duration = Duration::from_millis(20);

/// The sampling agents of a run, by the name of the part that each samples.
pub(crate) struct Samplers<'a> {
    options: &'a AgentsOptions,
    crews: RefCell<BTreeMap<String, (Place, Crew)>>,
}

impl<'a> Samplers<'a> {
    pub(crate) fn new(options: &'a AgentsOptions) -> Self {
        Self { options, crews: RefCell::default() }
    }

    /// Releases the agents that were lost. Returns whether one was lost.
    pub(crate) fn give_up_lost(&self) -> bool {
        let mut crews = self.crews.borrow_mut();
        let before = crews.len();
        crews.retain(|_, (_, crew)| !crew.is_lost());
        crews.len() < before
    }

    /// Deletes the pods of the current cell.
    pub(crate) fn end_pods(&self) {
        self.crews.borrow_mut().retain(|_, (place, _)| !matches!(place, Place::Pods(_)));
    }

    /// Why the pod of `part` has ended; `None` if it still runs.
    pub(crate) fn pod_failure(&self, part: &str) -> Option<CrewError> {
        let crews = self.crews.borrow();
        crews.get(part).and_then(|(_, crew)| crew.pod_failure()).map(CrewError::from)
    }

    /// The address where the sampling agent `number` joins. Its port is the port of the load-generating agents, plus 1,
    /// plus `number`. Port 0 means any free port and is not changed.
    fn listen(&self, number: u16) -> SocketAddr {
        let mut listen = self.options.listen;
        if listen.port() > 0 {
            listen.set_port(listen.port().saturating_add(1).saturating_add(number));
        }
        listen
    }

    /// The ticket file for the agent that samples `part`, if the user starts this agent.
    fn ticket(&self, part: &str) -> PathBuf {
        let mut ticket = self.options.ticket.clone().into_os_string();
        ticket.push(format!(".{part}"));
        ticket.into()
    }
}

/// The agent that samples one part.
pub(crate) struct Beside<'a> {
    /// The boot ID of the agent's machine. The CPU time of the sampled part does not count as host noise on that
    /// machine.
    pub(crate) boot_id: String,
    crews: &'a RefCell<BTreeMap<String, (Place, Crew)>>,
    sampling: Sampling,
    /// A description of the sampled processes, for the report.
    words: String,
}

impl Lab<'_> {
    /// Starts the agent of `part` at `place`, unless it already runs there. `number` selects the port where it joins.
    fn await_agent(
        &self,
        part: &str,
        place: &Place,
        number: u16,
        pods: Option<InPods<'_>>,
    ) -> Result<(), CellError> {
        let mut crews = self.samplers.crews.borrow_mut();
        if crews.get_mut(part).is_some_and(|(present, crew)| present != place || crew.is_lost()) {
            crews.remove(part);
        }
        if !crews.contains_key(part) {
            let called = format!("beside-{part}");
            let joining = Joining {
                place,
                called: &called,
                is_load: false,
                weir: self.weir,
                run: &self.run.id,
                listen: self.samplers.listen(number),
                ticket: self.samplers.ticket(part),
                stop: self.stop,
                pods,
            };
            let crew = Crew::start(self.rig, &joining, &|words| self.observer.note(words))?;
            crews.insert(part.to_owned(), (place.clone(), crew));
        }
        Ok(())
    }

    /// The agent that samples the remote gateway `gateway` on its host; `None` if the scenario sets no `sampler` for
    /// it.
    pub(crate) fn beside(&self, scenario: &Scenario, gateway: &str) -> Result<Option<Beside<'_>>, CellError> {
        let mut entries = scenario.gateways.iter().zip(0..);
        let Some((entry, number)) = entries.find(|(entry, _)| entry.name == gateway) else { return Ok(None) };
        let Some(source) = &entry.remote.sampler else { return Ok(None) };
        self.await_agent(gateway, &source.on, number, None)?;
        let sampling = Sampling {
            part: entry.name.clone(),
            program: source.program.clone(),
            pid: source.pid,
            group: source.cgroup.clone(),
            limit_cpus: self.remotes.get(gateway).and_then(|remote| remote.part.limit_cpus),
            ..Sampling::default()
        };
        let (crews, words) = (&self.samplers.crews, source.words());
        Ok(Some(Beside { boot_id: boot_of(crews, gateway), crews, sampling, words }))
    }

    /// Starts an upstream on the agent at `place`, and returns its address and process.
    pub(crate) fn serve(
        &self,
        scenario: &Scenario,
        place: &Place,
        serving: Serving,
        within: Duration,
    ) -> Result<Served, CellError> {
        let number = u16::try_from(scenario.gateways.len()).unwrap_or(u16::MAX);
        let part = serving.part.clone();
        self.await_agent(&part, place, number, None)?;
        let mut crews = self.samplers.crews.borrow_mut();
        let (_, crew) = crews.get_mut(&part).ok_or(CellError::Stopped)?;
        // Upstreams of an earlier, failed cell may still run.
        crew.stop_serving();
        Ok(crew.serve(serving, within)?)
    }

    /// Starts `part` in a pod with an agent that samples it. Returns the address of the pod, and the part as the cell
    /// records it.
    pub(super) fn start_pod(
        &self,
        scenario: &Scenario,
        part: PartSpec<'_>,
        config_sha256: Option<String>,
    ) -> Result<(IpAddr, Part), CellError> {
        let name = part.name.to_owned();
        let pods = self.in_pods(scenario, PodsWanted::Part(part.clone()));
        self.await_agent(&name, &Place::Pods(1), 0, pods)?;
        let crews = self.samplers.crews.borrow();
        let carrier = crews.get(&name).and_then(|(_, crew)| crew.carrier());
        let carrier = carrier.ok_or(CellError::Stopped)?;
        let deadline = Instant::now() + POD_MAX;
        loop {
            if let Some(error) = carrier.failure() {
                return Err(CrewError::from(error).into());
            }
            if let Some(address) = carrier.address() {
                return Ok((address, part_of(&part, config_sha256, carrier)));
            }
            if Instant::now() >= deadline {
                let message = format!("the pod of {name} has no address after {} s", POD_MAX.as_secs());
                let remedy = "see the pods of the namespace: kubectl get pods";
                return Err(failed("never-ready", &message, remedy, ""));
            }
            std::thread::sleep(POD_EVERY);
        }
    }

    /// Starts an agent on the node `node` that samples `containers`, the containers of `part` on this node.
    pub(super) fn beside_containers(
        &self,
        scenario: &Scenario,
        part: &Part,
        node: &str,
        containers: Vec<String>,
    ) -> Result<Beside<'_>, CellError> {
        let pods = self.in_pods(scenario, PodsWanted::Sampler { part: &part.name, node });
        self.await_agent(&part.name, &Place::Pods(1), 0, pods)?;
        let words = format!("{} on node {node}", counted(containers.len() as u64, "container"));
        let limit_cpus = part.limit_cpus;
        let sampling = Sampling { part: part.name.clone(), containers, limit_cpus, ..Sampling::default() };
        let crews = &self.samplers.crews;
        Ok(Beside { boot_id: boot_of(crews, &part.name), crews, sampling, words })
    }

    /// The agent in the pod of `part`, which samples `part`.
    pub(super) fn beside_pod(&self, part: &Part) -> Beside<'_> {
        let program = part.binary.rsplit('/').next().unwrap_or_default().to_owned();
        let words = format!("the program {program} in its pod");
        let sampling = Sampling {
            part: part.name.clone(),
            program: Some(program),
            limit_cpus: part.limit_cpus,
            ..Sampling::default()
        };
        let crews = &self.samplers.crews;
        Beside { boot_id: boot_of(crews, &part.name), crews, sampling, words }
    }

    /// Describes the pods to start for `what`; `None` if weir does not run in a cluster.
    pub(super) fn in_pods<'b>(&'b self, scenario: &Scenario, what: PodsWanted<'b>) -> Option<InPods<'b>> {
        let host = self.agents.options().pods.as_deref()?;
        let Limits { cpus, memory_bytes } = scenario.limits_of(Role::Generator);
        let usual = AgentSize::default();
        let size = AgentSize {
            cpus: cpus.unwrap_or(usual.cpus),
            memory_bytes: memory_bytes.unwrap_or(usual.memory_bytes),
        };
        Some(InPods { host, size, what })
    }

    /// The agent of the upstream `served`. It started the upstream and samples it.
    pub(crate) fn beside_upstream(&self, served: &Served) -> Beside<'_> {
        let sampling = Sampling {
            part: served.part.name.clone(),
            pid: Some(served.pid),
            limit_cpus: served.part.limit_cpus,
            ..Sampling::default()
        };
        let crews = &self.samplers.crews;
        Beside { boot_id: boot_of(crews, &served.part.name), crews, sampling, words: String::new() }
    }
}

/// The boot ID of the machine where the agent that samples `part` runs; empty if unknown.
fn boot_of(crews: &RefCell<BTreeMap<String, (Place, Crew)>>, part: &str) -> String {
    let crews = crews.borrow();
    let agent = crews.get(part).and_then(|(_, crew)| crew.agents().first());
    agent.map(|agent| agent.hello.boot_id.clone()).unwrap_or_default()
}

impl Beside<'_> {
    /// Name of the sampled part.
    pub(crate) fn part(&self) -> &str {
        &self.sampling.part
    }

    /// Why the pod of the agent has ended; `None` if it runs, or if the agent is not in a pod.
    pub(crate) fn pod_failure(&self) -> Option<PodError> {
        self.crews.borrow().get(&self.sampling.part).and_then(|(_, crew)| crew.pod_failure())
    }

    /// Makes the agent start sampling.
    pub(crate) fn begin(&self) {
        if let Some((_, crew)) = self.crews.borrow_mut().get_mut(&self.sampling.part) {
            crew.sample(&self.sampling);
        }
    }

    /// Ends the sampling. Returns the samples of the load that started at `start_ns` and whose sustained phase is
    /// `span`.
    pub(crate) fn observe(&self, start_ns: u64, span: &Span) -> Observed {
        let span = SampleSpan { start_ns, from_ns: span.from_ns, to_ns: span.to_ns };
        let mut crews = self.crews.borrow_mut();
        let Some((_, crew)) = crews.get_mut(&self.sampling.part) else {
            return Observed::nothing(self.part(), "no agent samples it");
        };
        let host = crew.agents().first().map(|agent| agent.name.clone()).unwrap_or_default();
        match crew.sampled(span) {
            Ok(report) if report.usage.is_none() => {
                Observed::nothing(self.part(), "the samples do not cover the measured phase")
            }
            Ok(report) => Observed::sampled(report, self.part(), &self.words, &host),
            Err(CrewError::Round(failure)) => Observed::nothing(self.part(), &failure.to_string()),
            Err(error) => Observed::nothing(self.part(), &error.to_string()),
        }
    }
}

/// Names the busiest other program on the host of the agent, for the evidence; empty if unknown.
fn others(report: &SampleReport) -> String {
    let busiest = report.host.iter().flat_map(|host| &host.busiest).next();
    busiest.map_or_else(String::new, |process| {
        format!("; busiest other program on that host: {} ({:.2} cores)", process.name, process.cores)
    })
}

impl Observed {
    fn nothing(part: &str, why: &str) -> Self {
        Self { readings: None, report: None, said: format!("the CPU of {part} is unknown: {why}") }
    }

    fn sampled(report: SampleReport, part: &str, words: &str, host: &str) -> Self {
        let said = match words {
            "" => format!("agent {host} runs the upstream and samples it"),
            words => format!("the CPU of {part} was sampled by the agent {host}: {words}"),
        };
        let said = said + &others(&report);
        Self { readings: None, report: Some(Box::new(report)), said }
    }
}
