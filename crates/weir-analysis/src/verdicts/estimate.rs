//! How much noise on the host can have done to a load (`docs/method.md#noise`; the constants are from
//! `docs/decisions/0024-noise-by-effect.md`).

use weir_results::ArrivalModel;

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
    /// From the CPU time that others took and the run-queue delay of the rig's parts; `None` if the host was not
    /// sampled.
    pub(crate) fn of(evidence: &Evidence<'_>) -> Option<Self> {
        let host = evidence.host?;
        let cores = f64::from(evidence.host_cores.max(1));
        // Others stall one core at most for each core that they use, and a part waits at least as long as it is stalled.
        // Stolen time is no run-queue delay: the guest's kernel takes the part for running.
        let others = host.others * cores;
        let stalled =
            run_queue_share(evidence).map_or(others, |waited| waited.min(others)) + host.steal * cores;
        let stalled = stalled.min(1.0);
        let taken_share = host.steal + host.others;
        let busy = utilization(evidence).min(UTILIZATION_MAX);
        let delayed = (stalled / (1.0 - busy)).min(1.0);
        let latency = (LATENCY_PER_SHARE * taken_share).min(1.0);
        Some(Self { stalled, delayed, cpu: noise_margin(taken_share), latency })
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
