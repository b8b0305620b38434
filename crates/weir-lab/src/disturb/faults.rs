//! Faults of the upstream and of services: each is done to a server or service at its time, and all are undone when the
//! load is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_results::{FaultAction, FaultEvent, FaultTarget, Measurement};
use weir_rig::{RigError, mono_ns};

use super::{Disturbance, Gateway, LoadContext, UnusableCounters};
use crate::cell::error::{CellError, service_failed};
use crate::cell::origin::Replica;
use crate::cell::service::ServiceParts;
use crate::clock::LoadClock;
use crate::scenario::ScheduledFault;

/// How long weir's own origin may take to confirm that it resets connections.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The faults of a scenario.
struct Faults {
    /// In the order of time.
    schedule: Vec<ScheduledFault>,
    replicas: Vec<Replica>,
    services: ServiceParts,
    /// The next one in the schedule.
    next: usize,
    /// What was done to servers and services that have not returned.
    away: BTreeMap<FaultTarget, FaultAction>,
    done: Vec<Done>,
}

/// A fault by the monotonic clock.
#[derive(Clone, Debug)]
struct Done {
    at_ns: u64,
    took_ns: u64,
    target: FaultTarget,
    action: FaultAction,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let services = gateway.services.parts.clone();
    // The other services do not run for this gateway.
    let concerns = |fault: &&ScheduledFault| {
        fault.service.as_deref().is_none_or(|service| services.has_service(service))
    };
    let schedule: Vec<ScheduledFault> = gateway.scenario.faults.iter().filter(concerns).cloned().collect();
    if schedule.is_empty() {
        return Ok(None);
    }
    let replicas = gateway.upstream.replicas.clone();
    let (next, away, done) = (0, BTreeMap::new(), Vec::new());
    Ok(Some(Box::new(Faults { schedule, replicas, services, next, away, done })))
}

impl Disturbance for Faults {
    fn applies_to(&self, _: &str) -> bool {
        true
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // A server that is started again counts from zero, and gateways may send one request to several servers. A gateway
        // without its service may answer by itself.
        UnusableCounters { origin: true, ..UnusableCounters::default() }
    }

    fn is_unsteady(&self) -> bool {
        true
    }

    fn start(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.next = 0;
        self.done.clear();
        Ok(())
    }

    fn poll(
        &mut self,
        load: &mut LoadContext<'_>,
        sustained_at: Instant,
    ) -> Result<Option<Duration>, CellError> {
        while let Some(fault) = self.schedule.get(self.next).cloned() {
            let until = (sustained_at + fault.at.0).saturating_duration_since(Instant::now());
            if !until.is_zero() {
                return Ok(Some(until));
            }
            self.next += 1;
            let at_ns = mono_ns();
            let (target, action) = (fault.target(), fault.action);
            self.apply(&target, action, load)?;
            let took_ns = mono_ns().saturating_sub(at_ns);
            self.done.push(Done { at_ns, took_ns, target, action });
        }
        Ok(None)
    }

    fn undo(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        let away: Vec<FaultTarget> = self.away.keys().cloned().collect();
        away.iter().try_for_each(|target| self.apply(target, FaultAction::Return, load))
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let event = |done: &Done| {
            let (t_s, sustained) = clock.moment(done.at_ns);
            let Done { action, took_ns, .. } = *done;
            FaultEvent { t_s, sustained, target: done.target.clone(), action, took_ns }
        };
        measurement.faults = self.done.iter().map(event).collect();
    }
}

impl Faults {
    fn apply(
        &mut self,
        target: &FaultTarget,
        action: FaultAction,
        load: &mut LoadContext<'_>,
    ) -> Result<(), CellError> {
        let was = match action {
            FaultAction::Return => self.away.remove(target),
            action => self.away.insert(target.clone(), action),
        };
        match target {
            FaultTarget::Replica(replica) => {
                let server = (*replica as usize).checked_sub(1).and_then(|place| self.replicas.get(place));
                let Some(server) = server else { return Ok(()) };
                match (action, was) {
                    (FaultAction::Reset, _) => switch_resets(server, true)?,
                    (FaultAction::Return, Some(FaultAction::Reset)) => switch_resets(server, false)?,
                    _ => {}
                }
                apply_to(|part| server.has_part(part), action, was, load)?;
            }
            FaultTarget::Service(service) => {
                apply_to(|part| self.services.belongs(part, service), action, was, load)
                    .map_err(|error| service_failed(service, &error))?;
            }
        }
        Ok(())
    }
}

/// Does it to every process of the target, in the order in which they were started.
fn apply_to(
    is_meant: impl Fn(&str) -> bool,
    action: FaultAction,
    was: Option<FaultAction>,
    load: &mut LoadContext<'_>,
) -> Result<(), RigError> {
    for part in load.running.iter_mut().filter(|part| is_meant(part.name())) {
        match (action, was) {
            (FaultAction::Kill, _) => part.crash(),
            (FaultAction::Stall, _) => part.stall(),
            (FaultAction::Return, Some(FaultAction::Kill)) => {
                part.start_again(load.rig)?;
                load.sampler.rejoin(part);
            }
            (FaultAction::Return, Some(FaultAction::Stall)) => part.go_on(),
            _ => {}
        }
    }
    Ok(())
}

fn switch_resets(server: &Replica, on: bool) -> Result<(), CellError> {
    let path = if on { "/__weir/resets/on" } else { "/__weir/resets/off" };
    server.switch(path, "switch connection resets on or off", SWITCH_TIMEOUT)
}
