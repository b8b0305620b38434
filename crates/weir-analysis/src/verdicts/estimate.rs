//! How much noise on the host can have done to a load (`docs/method.md#noise`; the constants are from
//! `docs/decisions/0024-noise-by-effect.md`).

use weir_results::{AgentMachine, ArrivalModel, HostShare};

use crate::verdicts::evidence::Evidence;

/// CPU time per request that noise can move, as share, per share of the host's CPU that others took.
const CPU_PER_SHARE: f64 = 0.7;
/// The same for the latency of every request, which can be less by that without the noise: beside it, requests find cold
/// caches and busy siblings.
const LATENCY_PER_SHARE: f64 = 1.4;
/// Utilization above which the queue behind a stalled part is no longer estimated by it.
const UTILIZATION_MAX: f64 = 0.9;

/// The share by which CPU time per request can have moved, to either side, if others took the share `taken` of the host.
pub fn noise_margin(taken: f64) -> f64 {
    CPU_PER_SHARE * taken
}

/// What processes outside the rig can have done to a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NoiseEstimate {
    /// Share of the time in which a part of the rig was ready, and others ran in its place.
    pub(crate) stalled: f64,
    /// Share of the requests that were delayed: those that met a stalled part, and those queued behind them.
    pub(crate) delayed: f64,
    /// Share by which CPU time per request can have moved, to either side.
    pub(crate) cpu: f64,
    /// Share by which every request can be faster without the noise.
    pub(crate) latency: f64,
}

impl NoiseEstimate {
    /// From the CPU time that others took on this host and on the machines of agents, and the run-queue delay of the rig's
    /// parts there; `None` if no host was sampled.
    pub(crate) fn of(evidence: &Evidence<'_>) -> Option<Self> {
        match (Self::of_this_host(evidence), Self::of_agents(evidence)) {
            (Some(here), Some(agents)) => Some(Self {
                stalled: here.stalled.max(agents.stalled),
                delayed: (here.delayed + agents.delayed).min(1.0),
                cpu: here.cpu,
                latency: here.latency.max(agents.latency),
            }),
            (here, agents) => here.or(agents),
        }
    }

    fn of_this_host(evidence: &Evidence<'_>) -> Option<Self> {
        let cores = f64::from(evidence.host_cores.max(1));
        Some(Self::by(evidence.host?, cores, run_queue_share(evidence), utilization(evidence)))
    }

    /// What others did to the generators on other machines, each with its share of the requests. The gateway is not there, so
    /// that its CPU time cannot have moved.
    fn of_agents(evidence: &Evidence<'_>) -> Option<Self> {
        let is_queued = evidence.record.result.model == ArrivalModel::Open;
        let shards = &evidence.record.shards;
        let scheduled: u64 = shards.iter().map(|shard| shard.requests.scheduled).sum();
        let estimates = shards.iter().filter_map(|shard| {
            let AgentMachine { share, cores, .. } = shard.machine.as_ref()?;
            let own = &shard.generator;
            let waited_s: f64 = own.worker_runqueue_s.iter().sum();
            let is_known = !own.worker_runqueue_s.is_empty() && own.wall_s > 0.0;
            let waited = is_known.then(|| waited_s / own.wall_s);
            let used_s = own.worker_cpu_s.iter().copied().fold(0.0, f64::max);
            let busy = if is_queued && own.wall_s > 0.0 { used_s / own.wall_s } else { UTILIZATION_MAX };
            let weight = shard.requests.scheduled as f64 / scheduled.max(1) as f64;
            Some((weight, Self::by(share, f64::from((*cores).max(1)), waited, busy)))
        });
        estimates
            .map(|(weight, one)| Self {
                stalled: weight * one.stalled,
                delayed: weight * one.delayed,
                cpu: 0.0,
                latency: one.latency,
            })
            .reduce(|sum, one| Self {
                stalled: sum.stalled + one.stalled,
                delayed: sum.delayed + one.delayed,
                cpu: 0.0,
                latency: sum.latency.max(one.latency),
            })
    }

    /// By what others took of a host with `cores`. The parts there waited for a CPU for the share `waited` of the time, if
    /// that is known, and the busiest of them worked for the share `busy`.
    fn by(host: &HostShare, cores: f64, waited: Option<f64>, busy: f64) -> Self {
        // Others stall one core at most for each core that they use, and a part waits at least as long as it is stalled.
        // Stolen time is no run-queue delay: the guest's kernel takes the part for running.
        let others = host.others * cores;
        let stalled = waited.map_or(others, |waited| waited.min(others)) + host.steal * cores;
        let stalled = stalled.min(1.0);
        let taken_share = host.steal + host.others;
        let delayed = (stalled / (1.0 - busy.min(UTILIZATION_MAX))).min(1.0);
        let latency = (LATENCY_PER_SHARE * taken_share).min(1.0);
        Self { stalled, delayed, cpu: noise_margin(taken_share), latency }
    }
}

/// Run-queue delay of all parts without the pauses by their quotas, over wall time; `None` if that of one is unknown.
fn run_queue_share(evidence: &Evidence<'_>) -> Option<f64> {
    let wall_s = evidence.record.generator.wall_s;
    let parts = [evidence.data, evidence.origin, evidence.generator];
    let waited = parts
        .into_iter()
        .flatten()
        .map(|usage| Some((usage.runqueue_s? - usage.throttled_s.unwrap_or(0.0)).max(0.0)));
    let waited_s: Option<f64> = waited.sum();
    waited_s.filter(|_| wall_s > 0.0).map(|waited_s| waited_s / wall_s)
}

/// That of the busiest part: of its limit in cores, or of one core if that is more, since a quota does not slow down what
/// it lets run.
fn utilization(evidence: &Evidence<'_>) -> f64 {
    let parts = [evidence.data, evidence.origin, evidence.generator];
    let shares = parts.into_iter().flatten().map(|usage| match usage.cpu_share_of_limit {
        Some(share) => share.min(usage.cpu_cores),
        None => usage.cpu_cores,
    });
    let is_queued = evidence.record.result.model == ArrivalModel::Open;
    if is_queued { shares.fold(0.0, f64::max) } else { UTILIZATION_MAX }
}
