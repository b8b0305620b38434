//! The agents that generate load: started with the first cell that needs them, kept for the next cells, and replaced if
//! one is lost.

use std::cell::{Cell, RefCell, RefMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::{AgentInfo, Look, Measured};
use weir_engine::LoadSpec;
use weir_results::{Part, Role, Usage};
use weir_rig::{Sampler, mono_ns};

use super::Lab;
use super::error::{CellError, failed};
use super::load::{Generated, LOOK_EVERY, LoadRunner, NEIGHBOURS_BEFORE, Task};
use super::network::LoadFrom;
use crate::agents::{Crew, CrewError, Joining, Place, PodsWanted, Stop};
use crate::disturb::Active;
use crate::pods::PodHost;
use crate::scenario::Scenario;

/// Where agents join a run, and the cluster for agents in pods.
#[derive(Clone, Debug)]
pub struct AgentsOptions {
    /// The address where agents on other machines join.
    pub listen: SocketAddr,
    /// The ticket file that weir writes for agents that the user starts.
    pub ticket: PathBuf,
    /// The cluster where weir runs as coordinator and creates pods; `None` outside a cluster.
    pub pods: Option<Arc<dyn PodHost>>,
}

impl Default for AgentsOptions {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::UNSPECIFIED, 7400).into(), ticket: "weir.ticket".into(), pods: None }
    }
}

/// The agents that generate the load of a run.
pub(crate) struct Agents<'a> {
    options: &'a AgentsOptions,
    crew: RefCell<Option<(Place, Crew)>>,
    /// Whether an agent was lost during the last load.
    is_lost: Cell<bool>,
}

impl<'a> Agents<'a> {
    /// How the agents join the run.
    pub(crate) fn options(&self) -> &'a AgentsOptions {
        self.options
    }

    pub(crate) fn new(options: &'a AgentsOptions) -> Self {
        Self { options, crew: RefCell::new(None), is_lost: Cell::new(false) }
    }

    /// Releases the agents if one of them was lost. Returns whether one was lost.
    pub(crate) fn give_up_lost(&self) -> bool {
        let is_lost = self.is_lost.replace(false);
        // Agents that the user starts are not released. Their coordinator keeps running, so that replacements can join
        // it with the same ticket.
        let mut crew = self.crew.borrow_mut();
        if is_lost && crew.as_ref().is_some_and(|(place, _)| !matches!(place, Place::Own(_))) {
            *crew = None;
        }
        is_lost
    }
}

impl Lab<'_> {
    /// Returns where the load of `scenario` comes from. Starts the agents if the scenario uses agents that are not
    /// running yet.
    pub(crate) fn load_from(&self, scenario: &Scenario) -> Result<LoadFrom, CellError> {
        let Some(place) = &scenario.generator.on else { return Ok(LoadFrom::default()) };
        let mut crew = self.agents.crew.borrow_mut();
        if crew.as_ref().is_none_or(|(present, _)| present != place) {
            // The current agents end before the new agents start.
            *crew = None;
            let joining = Joining {
                place,
                called: "agent",
                is_load: true,
                weir: self.weir,
                run: &self.run.id,
                listen: self.agents.options.listen,
                ticket: self.agents.options.ticket.clone(),
                stop: self.stop,
                pods: self.in_pods(scenario, PodsWanted::Load),
            };
            let started = Crew::start(self.rig, &joining, &|words| self.observer.note(words))?;
            *crew = Some((place.clone(), started));
        }
        let Some((_, crew)) = crew.as_mut() else { return Ok(LoadFrom::default()) };
        crew.refill(self.stop, &|words| self.observer.note(words))?;
        let reached_at = crew.agents().first().map(|agent| agent.reached_at).filter(|_| place.is_elsewhere());
        Ok(LoadFrom { namespaces: crew.namespaces().to_vec(), reached_at })
    }
}

impl LoadRunner<'_> {
    /// Runs a load on all agents, samples everything else meanwhile, and merges the records.
    pub(super) fn generate_by_agents(
        &mut self,
        agents: &Agents<'_>,
        task: &Task<'_>,
        spec: &LoadSpec,
        disturbances: &mut Active<'_>,
    ) -> Result<Generated, CellError> {
        let crew = agents.crew.borrow_mut();
        let mut crew = RefMut::filter_map(crew, |crew| crew.as_mut().map(|(_, crew)| crew))
            .map_err(|_| failed("agents", "no agent has joined", "report this as a bug", ""))?;
        let sampler = Sampler::start(&self.running.iter().collect::<Vec<_>>());
        crew.processes().iter().for_each(|process| sampler.join_with_all_below(process));
        disturbances.start(&mut self.context(task.name, &sampler))?;
        // Agents send the values of each second over the network. So the file that a local generator would write never
        // exists.
        let mut watching = self.watch.map(|watch| watch.begin(task.name, spec, self.dir.join("none.jsonl")));
        let (stop, warmup) = (self.stop, Duration::from_nanos(spec.warmup_ns));
        let names: Vec<String> = crew.agents().iter().map(|agent| agent.name.clone()).collect();
        let mut sustained_at = None;
        let ran = crew.run::<Failed>(spec, &Stop::Aborts(stop), &mut |look| {
            if let Some(watching) = &mut watching {
                if let Look::Second(place, second) = look {
                    watching.second_of(&names[place], second);
                }
                watching.look(&sampler);
            }
            if let Look::Starts(at_ns) = look {
                let at = Instant::now() + Duration::from_nanos(at_ns.saturating_sub(mono_ns())) + warmup;
                sampler.look_at_neighbours(at.checked_sub(NEIGHBOURS_BEFORE).unwrap_or(at));
                sustained_at = Some(at);
            }
            let polled = sustained_at.map_or(Ok(LOOK_EVERY), |at| {
                disturbances.poll(&mut self.context(task.name, &sampler), at, LOOK_EVERY)
            });
            polled.and_then(|_| self.look_at_processes()).map_err(Failed::Cell)
        });
        let undone = match ran {
            Ok(measured) => disturbances.undo(&mut self.context(task.name, &sampler)).map(|()| measured),
            Err(Failed::Cell(error)) => Err(error),
            Err(Failed::Crew(error)) => {
                agents
                    .is_lost
                    .set(matches!(error, CrewError::Round(_) | CrewError::Rig(_) | CrewError::Pod(_)));
                Err(error.into())
            }
        };
        let samples = sampler.finish();
        let (record, measured) = undone?;
        let others = disturbances.end()?;
        let (generators, usage) = parts(&crew, &measured);
        let boot = |agent: &AgentInfo| (agent.hello.boot_id.clone(), agent.name.clone());
        let agents = if usage.is_empty() { Vec::new() } else { crew.agents().iter().map(boot).collect() };
        Ok(Generated { record, samples, generators, usage, agents, others })
    }
}

/// The agents as parts, and the usage of agents that sample themselves. The usage is empty for agents that weir started
/// on this host, because weir samples them together with the other processes of the cell.
fn parts(crew: &Crew, measured: &[Measured]) -> (Vec<Part>, Vec<(String, Usage)>) {
    let processes = crew.processes();
    if !processes.is_empty() {
        return (processes.iter().map(weir_rig::Running::part).collect(), Vec::new());
    }
    let part =
        |of: &Measured| Part { name: of.agent.clone(), role: Role::Generator, ..of.report.part.clone() };
    let used = |of: &Measured| Some((of.agent.clone(), of.report.usage.clone()?));
    (measured.iter().map(part).collect(), measured.iter().filter_map(used).collect())
}

/// Why a load on all agents has no result.
enum Failed {
    /// An error of the cell.
    Cell(CellError),
    /// An error of the agents.
    Crew(CrewError),
}

impl From<CrewError> for Failed {
    fn from(error: CrewError) -> Self {
        Self::Crew(error)
    }
}

impl From<CrewError> for CellError {
    fn from(error: CrewError) -> Self {
        match error {
            CrewError::Stopped => Self::Stopped,
            error => failed(error.cause(), &error.to_string(), &error.remedy(), error.log_tail()),
        }
    }
}
