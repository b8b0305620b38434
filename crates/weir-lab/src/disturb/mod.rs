//! Disturbances: deliberate changes, faults and extra clients while a load runs.
//!
//! Each kind is one file here, registered in [`KINDS`]. A load calls its disturbances in this order:
//!
//! ```text
//! start -> (generator is launched) -> poll, poll, ... -> undo -> (samples end) -> end -> record
//!                                        \ load failed -> abandon
//! ```

mod beside;
mod changes;
mod faults;
mod registrations;
mod silent;
mod slow;

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_results::{Measurement, Part, Plane};
use weir_rig::{Binary, Binding, Driver, Namespace, Rendered, Rig, Running, Sampler, Workload};

use crate::cell::error::CellError;
use crate::cell::network::Listener;
use crate::cell::origin::Upstream;
use crate::cell::service::Services;
use crate::clock::LoadClock;
use crate::pods::PodHost;
use crate::scenario::Scenario;

/// Prepares one kind of disturbance for a ready gateway; returns `None` if the scenario does not use this kind.
type Prepare = fn(&Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError>;

/// One function per kind of disturbance.
const KINDS: &[Prepare] =
    &[changes::prepare, faults::prepare, slow::prepare, silent::prepare, registrations::prepare];

/// Something that disturbs the loads of one cell, one load after the other.
pub(crate) trait Disturbance {
    /// Whether the disturbance acts during the load named `load`.
    fn applies_to(&self, load: &str) -> bool;

    /// The request counters that this disturbance makes unusable. weir does not compare them with the generator's
    /// counts.
    fn unusable_counters(&self) -> UnusableCounters {
        UnusableCounters::default()
    }

    /// Whether the disturbance makes the load unsteady on purpose, so that `not-stationary` is not reported.
    fn is_unsteady(&self) -> bool {
        false
    }

    /// Called at the start of a load, before its generator is launched. Resets the state of the previous load.
    fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError>;

    /// Does everything that is due, and returns the time until the next poll; `None` if none is needed.
    ///
    /// The first call follows the launch of the generator. Later calls come when the returned time has passed, or
    /// earlier. `sustained_at` is the approximate start of the sustained phase. This method must not block: blocking
    /// work needs its own thread.
    fn poll(
        &mut self,
        load: &mut LoadContext<'_>,
        sustained_at: Instant,
    ) -> Result<Option<Duration>, CellError> {
        let _ = (load, sustained_at);
        Ok(None)
    }

    /// Reverts what the disturbance has changed. Called after the load has ended, while its processes are still
    /// sampled.
    fn undo(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        let _ = load;
        Ok(())
    }

    /// Stops immediately and restores nothing: the load failed, and the processes of the cell end with it.
    fn abandon(&mut self) {}

    /// Ends the disturbance. Called after the last samples; returns the processes that the disturbance ran.
    fn end(&mut self) -> Result<Vec<Part>, CellError> {
        Ok(Vec::new())
    }

    /// The requests that the disturbance itself sent during the load. The counters of gateway and upstream include
    /// these requests; the generator's counts do not.
    fn own_requests(&self) -> OwnRequests {
        OwnRequests::default()
    }

    /// Adds the events of the disturbance to the measurement of the load.
    fn record(&self, clock: &LoadClock, measurement: &mut Measurement);
}

/// A ready gateway, for which disturbances are prepared.
pub(crate) struct Gateway<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) driver: &'a Driver,
    pub(crate) binding: &'a Binding,
    pub(crate) rendered: &'a Rendered,
    /// The folder with the files of the gateway.
    pub(crate) home: &'a Path,
    /// The processes of the gateway on this host.
    pub(crate) running: &'a [Running],
    pub(crate) listener: &'a Listener,
    pub(crate) upstream: &'a Upstream,
    pub(crate) services: &'a Services,
    /// The network namespace of the load generator; `None` means the network of the host.
    pub(crate) generator: Option<&'a Namespace>,
    /// The weir program, which disturbances can run as a process.
    pub(crate) weir: &'a Binary,
    /// Set when the run is stopped.
    pub(crate) stop: &'a Arc<AtomicBool>,
    /// The workloads of the gateway, if it already runs in a cluster; `None` for gateways that weir starts.
    pub(crate) pods: Option<&'a InCluster>,
}

/// A gateway that already runs in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct InCluster {
    pub(crate) host: Arc<dyn PodHost>,
    /// Name of the gateway in the scenario.
    pub(crate) gateway: String,
    /// The workloads of the gateway, each with its name in the report.
    pub(crate) workloads: BTreeMap<Plane, (String, Workload)>,
}

/// What a disturbance can act on while a load runs.
pub(crate) struct LoadContext<'a> {
    /// The load's name.
    pub(crate) load: &'a str,
    pub(crate) rig: &'a Rig,
    /// The folder of the cell.
    pub(crate) dir: &'a Path,
    /// All processes of the cell.
    pub(crate) running: &'a mut [Running],
    pub(crate) sampler: &'a Sampler,
}

/// The request counters that weir must not compare with the generator's counts in a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnusableCounters {
    pub(crate) gateway: bool,
    pub(crate) origin: bool,
}

/// Number of requests that disturbances send during a load. The counters of gateway and upstream include them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRequests {
    /// Requests to which the gateway responded, with any status.
    pub(crate) answered: u64,
    /// Requests that the gateway certainly forwarded to the upstream.
    pub(crate) forwarded: u64,
    /// Requests that the counters may or may not include. The gateway's counter includes up to this many in addition to
    /// `answered`. The upstream's counter includes up to this many in addition to `forwarded`.
    pub(crate) uncertain: u64,
}

impl AddAssign for OwnRequests {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.forwarded += other.forwarded;
        self.uncertain += other.uncertain;
    }
}

impl OwnRequests {
    /// Subtracts the requests of disturbances from the gateway's count; `sent` is the generator's count.
    pub(crate) fn subtracted_from_gateway(&self, counted: u64, sent: u64) -> u64 {
        self.subtracted(counted, self.answered, sent)
    }

    /// Subtracts the requests of disturbances from the upstream's count; `sent` is the generator's count.
    pub(crate) fn subtracted_from_origin(&self, counted: u64, sent: u64) -> u64 {
        self.subtracted(counted, self.forwarded, sent)
    }

    fn subtracted(&self, counted: u64, certain: u64, sent: u64) -> u64 {
        let rest = counted.saturating_sub(certain);
        rest - rest.saturating_sub(sent).min(self.uncertain)
    }
}

/// The disturbances of one cell. Direct cells have none, because every disturbance needs a gateway.
#[derive(Default)]
pub(crate) struct Disturbances(Vec<Box<dyn Disturbance>>);

impl Disturbances {
    /// Prepares the disturbances of the scenario.
    pub(crate) fn prepare(gateway: &Gateway<'_>) -> Result<Self, CellError> {
        let prepared = KINDS.iter().map(|prepare| prepare(gateway)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(prepared.into_iter().flatten().collect()))
    }

    /// The disturbances that act during `load`.
    pub(crate) fn of_load(&mut self, load: &str) -> Active<'_> {
        Active(self.0.iter_mut().filter(|of| of.applies_to(load)).collect())
    }
}

/// The disturbances of one load.
pub(crate) struct Active<'a>(Vec<&'a mut Box<dyn Disturbance>>);

impl Active<'_> {
    /// See [`Disturbance::start`].
    pub(crate) fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.0.iter_mut().try_for_each(|of| of.start(load))
    }

    /// Polls all disturbances; returns the time until the next poll, at most `pause_max`.
    pub(crate) fn poll(
        &mut self,
        load: &mut LoadContext<'_>,
        sustained_at: Instant,
        pause_max: Duration,
    ) -> Result<Duration, CellError> {
        self.0.iter_mut().try_fold(pause_max, |pause, of| {
            Ok(of.poll(load, sustained_at)?.map_or(pause, |wanted| wanted.min(pause)))
        })
    }

    /// Undoes all disturbances, even if one of them fails; returns the first error.
    pub(crate) fn undo(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        let undone: Vec<Result<(), CellError>> = self.0.iter_mut().map(|of| of.undo(load)).collect();
        undone.into_iter().collect()
    }

    /// See [`Disturbance::abandon`].
    pub(crate) fn abandon(&mut self) {
        self.0.iter_mut().for_each(|of| of.abandon());
    }

    /// See [`Disturbance::end`].
    pub(crate) fn end(&mut self) -> Result<Vec<Part>, CellError> {
        let parts = self.0.iter_mut().map(|of| of.end()).collect::<Result<Vec<_>, _>>()?;
        Ok(parts.concat())
    }

    /// Counters that at least one disturbance makes unusable.
    pub(crate) fn unusable_counters(&self) -> UnusableCounters {
        self.0.iter().map(|of| of.unusable_counters()).fold(UnusableCounters::default(), |all, of| {
            UnusableCounters { gateway: all.gateway || of.gateway, origin: all.origin || of.origin }
        })
    }

    /// The requests that all disturbances have sent.
    pub(crate) fn own_requests(&self) -> OwnRequests {
        let mut all = OwnRequests::default();
        self.0.iter().for_each(|of| all += of.own_requests());
        all
    }

    /// Whether one of the disturbances makes the load unsteady.
    pub(crate) fn are_unsteady(&self) -> bool {
        self.0.iter().any(|of| of.is_unsteady())
    }

    /// See [`Disturbance::record`].
    pub(crate) fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        self.0.iter().for_each(|of| of.record(clock, measurement));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_requests_are_subtracted_from_the_counters() {
        let mut own = OwnRequests { answered: 3, forwarded: 1, uncertain: 1 };
        own += OwnRequests { answered: 1, forwarded: 0, uncertain: 1 };
        // Uncertain requests can explain a surplus, but not missing requests.
        let gateway = |counted| own.subtracted_from_gateway(counted, 100);
        assert_eq!([104, 105, 106, 107].map(gateway), [100, 100, 100, 101]);
        assert_eq!(gateway(103), 99);
        let origin = |counted| own.subtracted_from_origin(counted, 100);
        assert_eq!([101, 103, 104].map(origin), [100, 100, 101]);
        assert_eq!(OwnRequests::default().subtracted_from_gateway(100, 100), 100);
    }
}
