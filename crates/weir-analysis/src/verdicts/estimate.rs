//! Estimates how far host noise may have changed the values of a load (`docs/method.md#noise`). The constants come
//! from `docs/decisions/0024-noise-by-effect.md`.

use weir_results::{ArrivalModel, HostShare, ShardResult};

use crate::verdicts::evidence::Evidence;

/// Relative change of CPU time per request, divided by the share of the host's CPU that other processes took.
const CPU_PER_SHARE: f64 = 0.7;
/// Relative decrease of every latency if no other processes ran, divided by the share of the host's CPU that they took.
/// Other processes evict caches and keep hyperthread siblings busy, so latencies rise.
const LATENCY_PER_SHARE: f64 = 1.4;
/// Maximum utilization that is assumed when the queue behind a stalled part of the rig is estimated.
const UTILIZATION_MAX: f64 = 0.9;

/// Estimated share by which host noise may have changed CPU time per request, up or down. `taken` is the share of the
/// host's CPU that other processes took.
pub fn noise_margin(taken: f64) -> f64 {
    CPU_PER_SHARE * taken
}

/// Estimated effect of processes outside the rig on a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NoiseEstimate {
    /// Share of the time in which a part of the rig was ready to run, but another process ran instead.
    pub(crate) stalled: f64,
    /// Share of delayed requests: requests that met a stalled part, and requests queued behind them.
    pub(crate) delayed: f64,
    /// Share by which CPU time per request may have changed in either direction.
    pub(crate) cpu: f64,
    /// Share by which latencies could be lower without the noise.
    pub(crate) latency: f64,
}

impl NoiseEstimate {
    /// Estimates the effect of noise on this host and on the agents' machines, from the CPU time that other processes
    /// took and from the run-queue delay of the rig's parts. `None` if no machine was sampled. The stalls of this host
    /// and the mean stalls of the agents are added, because they need not overlap.
    pub(crate) fn of(evidence: &Evidence<'_>) -> Option<Self> {
        match (Self::of_this_host(evidence), Self::of_agents(evidence)) {
            (Some(here), Some(agents)) => Some(Self {
                stalled: (here.stalled + agents.stalled).min(1.0),
                delayed: (here.delayed + agents.delayed).min(1.0),
                cpu: here.cpu,
                latency: here.latency.max(agents.latency),
            }),
            (here, agents) => here.or(agents),
        }
    }

    /// Estimates the effect of noise on this host only; `None` if this host was not sampled.
    pub(crate) fn of_this_host(evidence: &Evidence<'_>) -> Option<Self> {
        let cores = f64::from(evidence.host_cores.max(1));
        Some(Self::by(evidence.host?, cores, run_queue_share(evidence), utilization(evidence)))
    }

    /// Estimates the effect of host noise on an agent's machine, where only the generator runs; `None` if the machine
    /// was not sampled. In an open loop (`is_queued`), requests queue, so the estimate uses the utilization of the
    /// agent's busiest worker. In a closed loop, it uses [`UTILIZATION_MAX`].
    pub(crate) fn of_agent(shard: &ShardResult, is_queued: bool) -> Option<Self> {
        let machine = shard.machine.as_ref()?;
        let own = &shard.generator;
        let share_of = |seconds: f64| if own.wall_s > 0.0 { seconds / own.wall_s } else { 0.0 };
        let waited = run_queue_s(shard).map(share_of);
        let busy = match is_queued {
            true => share_of(own.worker_cpu_s.iter().copied().fold(0.0, f64::max)),
            false => UTILIZATION_MAX,
        };
        Some(Self::by(machine.share.as_ref()?, machine.cores.max(1.0), waited, busy))
    }

    /// Combines the estimates of all agents, weighted by their requests. The gateway is assumed to run on another
    /// machine, so the gateway's CPU time per request is not affected.
    fn of_agents(evidence: &Evidence<'_>) -> Option<Self> {
        let is_queued = evidence.record.result.model == ArrivalModel::Open;
        let shards = &evidence.record.shards;
        let scheduled: u64 = shards.iter().map(|shard| shard.requests.scheduled).sum();
        let weight = |shard: &ShardResult| shard.requests.scheduled as f64 / scheduled.max(1) as f64;
        let estimates: Vec<(f64, Self)> = shards
            .iter()
            .filter_map(|shard| Some((weight(shard), Self::of_agent(shard, is_queued)?)))
            .collect();
        if estimates.is_empty() {
            return None;
        }
        // Without stalls, one agent would send `1 / (1 - stalled)` times as many requests, and all agents together
        // would send `1 + more` times as many.
        let more: f64 =
            estimates.iter().map(|(weight, one)| weight * (1.0 / (1.0 - one.stalled) - 1.0)).sum();
        Some(Self {
            stalled: if more.is_finite() { more / (1.0 + more) } else { 1.0 },
            delayed: estimates.iter().map(|(weight, one)| weight * one.delayed).sum(),
            cpu: 0.0,
            latency: estimates.iter().map(|(_, one)| one.latency).fold(0.0, f64::max),
        })
    }

    /// Estimates the effect on a machine with `cores` CPUs from the CPU time that other processes took (`host`).
    /// `waited` is the share of time in which parts of the rig waited for a CPU, if known. `busy` is the utilization of
    /// the busiest part.
    fn by(host: &HostShare, cores: f64, waited: Option<f64>, busy: f64) -> Self {
        // Other processes stall at most as many cores as they use, and only while parts wait in the run queue. Steal
        // time is added separately: the run-queue delay does not include it, because the guest's kernel counts the part
        // as running.
        let others = host.others * cores;
        let stalled = waited.map_or(others, |waited| waited.min(others)) + host.steal * cores;
        let stalled = stalled.min(1.0);
        let taken_share = host.taken();
        let delayed = (stalled / (1.0 - busy.min(UTILIZATION_MAX))).min(1.0);
        let latency = (LATENCY_PER_SHARE * taken_share).min(1.0);
        Self { stalled, delayed, cpu: noise_margin(taken_share), latency }
    }
}

/// Run-queue delay of all parts of the rig on this host, without throttled time, divided by wall time. `None` if the
/// delay of one part is unknown.
fn run_queue_share(evidence: &Evidence<'_>) -> Option<f64> {
    let wall_s = evidence.record.generator.wall_s;
    let shards = &evidence.record.shards;
    let generator = evidence.generator.filter(|_| shards.is_empty());
    let waited = [evidence.data, evidence.origin, generator]
        .into_iter()
        .flatten()
        .map(|usage| Some((usage.runqueue_s? - usage.throttled_s.unwrap_or(0.0)).max(0.0)));
    let is_here = |shard: &&ShardResult| shard.machine.as_ref().is_some_and(|machine| machine.is_here);
    let of_agents = shards.iter().filter(is_here).map(run_queue_s);
    let waited_s: Option<f64> = waited.chain(of_agents).sum();
    waited_s.filter(|_| wall_s > 0.0).map(|waited_s| waited_s / wall_s)
}

/// Run-queue delay of a shard's workers; `None` if the kernel does not report it.
fn run_queue_s(shard: &ShardResult) -> Option<f64> {
    let waited_s = &shard.generator.worker_runqueue_s;
    (!waited_s.is_empty()).then(|| waited_s.iter().sum())
}

/// Utilization of the busiest part, relative to its CPU limit. A limit below one core counts as one core, because a
/// quota does not slow down running threads. In a closed loop always [`UTILIZATION_MAX`].
fn utilization(evidence: &Evidence<'_>) -> f64 {
    let parts = [evidence.data, evidence.origin, evidence.generator];
    let shares = parts.into_iter().flatten().map(|usage| match usage.cpu_share_of_limit {
        Some(share) => share.min(usage.cpu_cores),
        None => usage.cpu_cores,
    });
    let is_queued = evidence.record.result.model == ArrivalModel::Open;
    if is_queued { shares.fold(0.0, f64::max) } else { UTILIZATION_MAX }
}
