//! Faults of the upstream, of services and of gateways in a cluster: each is injected at its time, and all are reverted
//! after the load.

use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_results::{FaultAction, FaultEvent, FaultTarget, Measurement, Plane};
use weir_rig::{RigError, mono_ns};

use super::{Disturbance, Gateway, InCluster, LoadContext, UnusableCounters};
use crate::agents::CrewError;
use crate::cell::error::{CellError, service_failed};
use crate::cell::origin::Replica;
use crate::cell::service::ServiceParts;
use crate::clock::LoadClock;
use crate::scenario::ScheduledFault;

/// Timeout for weir's own origin to confirm that connection resets were switched on or off.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The faults of a scenario.
struct Faults {
    /// The faults of this gateway, in order of time.
    schedule: Vec<ScheduledFault>,
    replicas: Vec<Replica>,
    services: ServiceParts,
    /// Index of the next fault in `schedule`.
    next: usize,
    /// The active faults of servers and services.
    away: BTreeMap<FaultTarget, FaultAction>,
    done: Vec<Done>,
    /// The gateway's workloads, if it already runs in a cluster.
    pods: Option<InCluster>,
    /// Threads that end pods of the gateway. Each fault has its own thread, because an API server can be slow.
    acting: Vec<JoinHandle<Result<Done, CellError>>>,
}

/// A fault that was injected. Times are of the monotonic clock.
#[derive(Clone, Debug)]
struct Done {
    at_ns: u64,
    took_ns: u64,
    target: FaultTarget,
    action: FaultAction,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let services = gateway.services.parts.clone();
    // Skips faults of services and workloads that this gateway does not have.
    let concerns = |fault: &&ScheduledFault| match fault.gateway {
        Some(plane) => gateway.pods.is_some_and(|pods| pods.workloads.contains_key(&plane)),
        None => fault.service.as_deref().is_none_or(|service| services.has_service(service)),
    };
    let schedule: Vec<ScheduledFault> = gateway.scenario.faults.iter().filter(concerns).cloned().collect();
    if schedule.is_empty() {
        return Ok(None);
    }
    let replicas = gateway.upstream.replicas.clone();
    Ok(Some(Box::new(Faults {
        schedule,
        replicas,
        services,
        next: 0,
        away: BTreeMap::new(),
        done: Vec::new(),
        pods: gateway.pods.cloned(),
        acting: Vec::new(),
    })))
}

impl Disturbance for Faults {
    fn applies_to(&self, _: &str) -> bool {
        true
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // With faults, the upstream's counter is always unusable: a restarted server counts from zero, and a gateway
        // can send one request to several servers, or respond by itself while its service is down. The gateway's
        // counter is unusable only if a fault replaces the gateway's pods.
        UnusableCounters { origin: true, gateway: self.concerns_gateway() }
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
            if let (Some(plane), Some(pods)) = (fault.gateway, &self.pods) {
                self.acting.push(act(pods, plane, fault.action));
                continue;
            }
            let at_ns = mono_ns();
            let (target, action) = (fault.target(), fault.action);
            self.apply(&target, action, load)?;
            let took_ns = mono_ns().saturating_sub(at_ns);
            self.done.push(Done { at_ns, took_ns, target, action });
        }
        Ok(None)
    }

    fn undo(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        for acting in self.acting.drain(..) {
            self.done.push(acting.join().expect("the thread that injects the fault does not panic")?);
        }
        self.done.sort_by_key(|done| done.at_ns);
        self.await_pods()?;
        let away: Vec<FaultTarget> = self.away.keys().cloned().collect();
        away.iter().try_for_each(|target| self.apply(target, FaultAction::Return, load))
    }

    fn abandon(&mut self) {
        // Errors of these threads do not matter: the load has already failed for another reason.
        self.acting.drain(..).for_each(|acting| drop(acting.join()));
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

/// Ends pods of a gateway, on a separate thread.
fn act(pods: &InCluster, plane: Plane, action: FaultAction) -> JoinHandle<Result<Done, CellError>> {
    let pods = pods.clone();
    thread::spawn(move || {
        let at_ns = mono_ns();
        if let Some((part, workload)) = pods.workloads.get(&plane) {
            pods.host.disturb(part, workload, action).map_err(CrewError::from)?;
        }
        let took_ns = mono_ns().saturating_sub(at_ns);
        Ok(Done { at_ns, took_ns, target: FaultTarget::Gateway(plane), action })
    })
}

impl Faults {
    fn concerns_gateway(&self) -> bool {
        self.schedule.iter().any(|fault| fault.gateway.is_some())
    }

    /// Waits until replacement pods run, so that the next load finds them.
    fn await_pods(&self) -> Result<(), CellError> {
        let Some(pods) = self.pods.as_ref().filter(|_| self.concerns_gateway()) else { return Ok(()) };
        for (part, workload) in pods.workloads.values() {
            pods.host.await_pods(part, workload).map_err(CrewError::from)?;
        }
        Ok(())
    }

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
            // Threads inject these faults, see `act`.
            FaultTarget::Gateway(_) => {}
        }
        Ok(())
    }
}

/// Injects or reverts a fault in every process for which `is_meant` returns true, in start order. `was` is the fault
/// that a `Return` reverts.
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
