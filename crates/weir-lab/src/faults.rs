//! Faults of the upstream while a load runs: each is done to one of its servers when its time has come, by the thread
//! that waits for the generator, and all are undone when the load is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_results::{FaultAction, FaultEvent, LoadRecord};
use weir_rig::{Credentials, Rig, Running, Sampler, mono_ns};

use crate::cell::error::{CellError, failed};
use crate::clock::moment_of;
use crate::origin::Replica;
use crate::scenario::ScheduledFault;

/// What the generator takes until its load begins, about, and a little more: a fault belongs to the second that begins
/// with its time, and not to the end of the one before.
const LOAD_BEGINS: Duration = Duration::from_millis(200);

/// How long weir's own origin may take to say that it resets connections from now on.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// What is done to the upstream during one load.
#[derive(Debug)]
pub(crate) struct FaultCourse<'a> {
    /// What is still to come, in the order of time.
    left: &'a [ScheduledFault],
    replicas: &'a [Replica],
    /// Start of the sustained phase, as far as the lab can tell; rather late than early.
    start: Instant,
    /// What was done to servers that are not as they were.
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

/// What reaches the upstream's processes.
pub(crate) struct Reach<'a> {
    pub(crate) rig: &'a Rig,
    /// All processes of the cell.
    pub(crate) running: &'a mut [Running],
    pub(crate) sampler: &'a Sampler,
}

impl<'a> FaultCourse<'a> {
    /// Begins with a load whose generator was started now.
    pub(crate) fn begin(faults: &'a [ScheduledFault], replicas: &'a [Replica], warmup: Duration) -> Self {
        let start = Instant::now() + LOAD_BEGINS + warmup;
        Self { left: faults, replicas, start, away: BTreeMap::new(), done: Vec::new() }
    }

    /// The time until the next fault, `most` at most.
    pub(crate) fn pause(&self, most: Duration) -> Duration {
        let until =
            |fault: &ScheduledFault| (self.start + fault.at.0).saturating_duration_since(Instant::now());
        self.left.first().map_or(most, |next| until(next).min(most))
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, mut reach: Reach<'_>) -> Result<(), CellError> {
        while let Some((next, rest)) = self.left.split_first()
            && Instant::now() >= self.start + next.at.0
        {
            self.left = rest;
            let at_ns = mono_ns();
            self.apply(next.replica, next.action, &mut reach)?;
            let took_ns = mono_ns().saturating_sub(at_ns);
            self.done.push(Done { at_ns, took_ns, replica: next.replica, action: next.action });
        }
        Ok(())
    }

    /// Lets every server be what it was before.
    pub(crate) fn undo(&mut self, mut reach: Reach<'_>) -> Result<(), CellError> {
        let away: Vec<u32> = self.away.keys().copied().collect();
        away.into_iter().try_for_each(|replica| self.apply(replica, FaultAction::Return, &mut reach))
    }

    /// What was done, on the clock of `record`, whose warm-up began at `start_ns`.
    pub(crate) fn on_the_clock_of(&self, record: &LoadRecord, start_ns: u64) -> Vec<FaultEvent> {
        let event = |done: &Done| {
            let (t_s, sustained) = moment_of(record, start_ns, done.at_ns);
            let Done { replica, action, took_ns, .. } = *done;
            FaultEvent { t_s, sustained, replica, action, took_ns }
        };
        self.done.iter().map(event).collect()
    }

    fn apply(&mut self, replica: u32, action: FaultAction, reach: &mut Reach<'_>) -> Result<(), CellError> {
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
        for part in reach.running.iter_mut().filter(|part| server.has_part(part.name())) {
            match (action, was) {
                (FaultAction::Kill, _) => part.crash(),
                (FaultAction::Stall, _) => part.stall(),
                (FaultAction::Return, Some(FaultAction::Kill)) => {
                    part.start_again(reach.rig)?;
                    reach.sampler.rejoin(part);
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
    let (network, address) = (server.namespace.as_ref(), server.asked);
    let asked = (server.name.as_str(), path);
    let said = match weir_rig::status_of(&Credentials::default(), network, address, asked, TOLD_WITHIN) {
        Ok(200) => return Ok(()),
        Ok(status) => format!("HTTP status {status}"),
        Err(error) => error,
    };
    let message = format!("{}: cannot switch connection resets on or off: {said}", server.name);
    Err(failed("died", &message, "see its log", ""))
}
