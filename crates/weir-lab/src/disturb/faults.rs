//! Faults of the upstream: each is done to one of its servers at its time, and all are undone when the load is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_results::{FaultAction, FaultEvent, Measurement};
use weir_rig::mono_ns;

use super::{Disturbance, Gateway, LoadContext, UnusableCounters};
use crate::cell::error::CellError;
use crate::cell::origin::Replica;
use crate::clock::LoadClock;
use crate::scenario::ScheduledFault;

/// How long weir's own origin may take to confirm that it resets connections.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The faults of a scenario.
struct Faults {
    /// In the order of time.
    schedule: Vec<ScheduledFault>,
    replicas: Vec<Replica>,
    /// The next one in the schedule.
    next: usize,
    /// What was done to servers that have not returned.
    away: BTreeMap<u32, FaultAction>,
    done: Vec<Done>,
}

/// A fault by the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Done {
    at_ns: u64,
    took_ns: u64,
    replica: u32,
    action: FaultAction,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let (schedule, replicas) = (gateway.scenario.faults.clone(), gateway.upstream.replicas.clone());
    let is_given = !schedule.is_empty();
    let faults = Faults { schedule, replicas, next: 0, away: BTreeMap::new(), done: Vec::new() };
    Ok(is_given.then(|| Box::new(faults) as Box<dyn Disturbance>))
}

impl Disturbance for Faults {
    fn applies_to(&self, _: &str) -> bool {
        true
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // A server that is started again counts from zero, and gateways may send one request to several servers.
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
        while let Some(fault) = self.schedule.get(self.next).copied() {
            let until = (sustained_at + fault.at.0).saturating_duration_since(Instant::now());
            if !until.is_zero() {
                return Ok(Some(until));
            }
            self.next += 1;
            let at_ns = mono_ns();
            self.apply(fault.replica, fault.action, load)?;
            let took_ns = mono_ns().saturating_sub(at_ns);
            self.done.push(Done { at_ns, took_ns, replica: fault.replica, action: fault.action });
        }
        Ok(None)
    }

    fn undo(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        let away: Vec<u32> = self.away.keys().copied().collect();
        away.into_iter().try_for_each(|replica| self.apply(replica, FaultAction::Return, load))
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let event = |done: &Done| {
            let (t_s, sustained) = clock.moment(done.at_ns);
            let Done { replica, action, took_ns, .. } = *done;
            FaultEvent { t_s, sustained, replica, action, took_ns }
        };
        measurement.faults = self.done.iter().map(event).collect();
    }
}

impl Faults {
    fn apply(
        &mut self,
        replica: u32,
        action: FaultAction,
        load: &mut LoadContext<'_>,
    ) -> Result<(), CellError> {
        let server = (replica as usize).checked_sub(1).and_then(|place| self.replicas.get(place));
        let Some(server) = server else { return Ok(()) };
        let was = match action {
            FaultAction::Return => self.away.remove(&replica),
            action => self.away.insert(replica, action),
        };
        match (action, was) {
            (FaultAction::Reset, _) => switch_resets(server, true)?,
            (FaultAction::Return, Some(FaultAction::Reset)) => switch_resets(server, false)?,
            _ => {}
        }
        for part in load.running.iter_mut().filter(|part| server.has_part(part.name())) {
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
}

fn switch_resets(server: &Replica, on: bool) -> Result<(), CellError> {
    let path = if on { "/__weir/resets/on" } else { "/__weir/resets/off" };
    server.switch(path, "switch connection resets on or off", SWITCH_TIMEOUT)
}
