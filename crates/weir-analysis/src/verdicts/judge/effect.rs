//! How each reason may have changed the values of a load (`docs/method.md#reasons`).

use weir_results::{BoundBy, Reason};

use super::{Case, Context};
use crate::verdicts::effects::{Effect, Factors, Ranks};
use crate::verdicts::stationary::Drift;

/// Share of a request's CPU time that late sending may change: late requests share wake-ups, and a wake-up costs up to
/// half of a request's CPU time.
const LATE_COST: f64 = 0.5;

impl Case<'_> {
    /// The effect of a reason on each value (`docs/method.md#reasons`).
    pub(super) fn effect(&self, reason: Reason, context: &Context<'_>) -> Effect {
        match reason {
            Reason::GeneratorLimited if self.open() => self.late_effect(),
            Reason::UpstreamLimited if self.is_carried() => {
                Effect { latency: Ranks::AT_MOST, ..Effect::NONE }
            }
            Reason::GeneratorLimited | Reason::UpstreamLimited => Effect::LIMITED_BY_RIG,
            Reason::HostNoise => self.noise_effect(context.bound_by),
            Reason::Overloaded => Effect { latency: Ranks::AT_LEAST, is_tolerable: false, ..Effect::NONE },
            // Throttling delays the requests of the throttled period. The queue then delays the requests of the next
            // period. So the delayed share is twice the throttled share.
            Reason::Throttled => {
                Effect { latency: Ranks::delayed(2.0 * self.throttled_share()), ..Effect::NONE }
            }
            // If connections are missing, the load was smaller than configured.
            Reason::Errors if context.are_connections_missing => Effect {
                throughput: Factors::AT_LEAST,
                latency: Ranks::AT_LEAST,
                memory: Factors::AT_LEAST,
                ..Effect::UNKNOWN
            },
            Reason::Errors => self.errors_effect(),
            Reason::NotStationary => context.drift.map_or(Effect::UNKNOWN, Drift::effect),
            Reason::Noisy | Reason::Implausible | Reason::LimitNotApplied => Effect::UNKNOWN,
            // Each latency is measured with a single clock, so latencies are not affected.
            Reason::ClockUncertain => {
                let share = self.apart_ns() as f64 / 1e9 / self.e.record.result.duration_s;
                let moved = Factors::within(share);
                Effect { throughput: moved, cpu: moved, cores: moved, ..Effect::NONE }
            }
        }
    }

    /// The effect of a generator that sends late: the requests of an open load arrive in bursts.
    fn late_effect(&self) -> Effect {
        let Some(late) = self.late_share() else {
            return Effect { latency: Ranks::AT_MOST, memory: Factors::EXACT, ..Effect::UNKNOWN };
        };
        Effect {
            throughput: if self.is_carried() { Factors::EXACT } else { Factors::AT_LEAST },
            latency: Ranks::delayed(late),
            cpu: Factors::within(LATE_COST * late),
            cores: Factors::within(LATE_COST * late),
            ..Effect::NONE
        }
    }

    /// Share of requests that were sent late or not at all; `None` if unknown. A request is late if its lateness
    /// exceeds the median latency or the fixed threshold. Less lateness is normal, because wake-ups cause it even on a
    /// quiet host.
    fn late_share(&self) -> Option<f64> {
        let record = self.e.record;
        let lateness = record.lateness.as_ref()?.decode().ok().filter(|lateness| !lateness.is_empty())?;
        let p50_ns = record.result.latency_ns.p50? as f64;
        let in_time = lateness.count_between(0, (p50_ns as u64).min(self.t.lateness_ns));
        Some(1.0 - in_time as f64 / self.scheduled().max(lateness.len()) as f64)
    }

    fn noise_effect(&self, bound_by: BoundBy) -> Effect {
        let Some(estimate) = self.noise else { return Effect::UNKNOWN };
        // A generator that is stalled by noise sends late.
        let late = self.late_share().filter(|_| self.open()).unwrap_or(0.0);
        let cpu = Factors::within(estimate.cpu.max(LATE_COST * late));
        // Without the stalls, the throughput would be higher, up to the CPU limit.
        let running = 1.0 - estimate.stalled;
        let share_of_limit = self.e.data.and_then(|data| data.cpu_share_of_limit).unwrap_or(0.0);
        let share = Some(running.max(share_of_limit.min(1.0))).filter(|share| *share > 0.0);
        let slowed = Factors { low: Some(1.0), high: share.map(f64::recip) };
        let is_carried = self.is_carried();
        let (throughput, cores) = match bound_by {
            _ if is_carried => (Factors::EXACT, cpu),
            BoundBy::Gateway => (cpu.inverse(), Factors::EXACT),
            _ => (cpu.inverse().and(slowed), cpu.and(slowed)),
        };
        // If an open load completed too few requests, noise may be the cause. It may then have delayed every request.
        let delayed = if self.open() && !is_carried { 1.0 } else { estimate.delayed.max(late) };
        let latency = Ranks { slower: estimate.cpu, faster: estimate.latency, ..Ranks::delayed(delayed) };
        Effect { throughput, latency, cpu, cores, ..Effect::NONE }
    }

    fn throttled_share(&self) -> f64 {
        let parts = [self.e.data, self.e.origin, self.e.generator].into_iter().flatten();
        let shares =
            parts.filter_map(|usage| Some(usage.periods_throttled? as f64 / usage.periods?.max(1) as f64));
        shares.sum()
    }

    /// The effect of errors. An error replaces a good response. The latency of an error is meaningless. An error costs
    /// between zero and twice the CPU time of a good response.
    fn errors_effect(&self) -> Effect {
        let requests = &self.e.record.result.requests;
        let scheduled = requests.scheduled as f64;
        let Some(share) = requests.error_share().filter(|share| *share < 0.5) else { return Effect::UNKNOWN };
        let unexpected = requests.unexpected as f64 / scheduled;
        Effect {
            throughput: Factors { low: Some(1.0 - share), high: Some(1.0) },
            latency: Ranks { below: Some(share), above: Some(unexpected), ..Ranks::EXACT },
            cpu: Factors {
                low: Some((1.0 - 2.0 * share) / (1.0 - share)),
                high: Some((1.0 - share).recip()),
            },
            cores: Factors::EXACT,
            memory: Factors::EXACT,
            is_tolerable: false,
        }
    }
}
