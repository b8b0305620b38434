//! Speed of the host in each cell, from the CPU time of the rig itself (`docs/decisions/0018-host-speed.md`).

use weir_results::{ArrivalModel, Reason, Role, is_baseline};

use crate::figures::figure::{Repeated, Sample};
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, role_usage};
use crate::verdicts::reasons::value;

/// Median CPU time per request of upstream and load generator together, in all cells of gateways at a load point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSpeed {
    median_us: Option<f64>,
}

impl HostSpeed {
    /// Computes the median from all repeats of all gateways at a load point.
    pub(crate) fn of(group: &Group<'_>) -> Self {
        let gateways = group.rows.iter().filter(|(gateway, _)| !is_baseline(gateway));
        let mut costs: Vec<f64> =
            gateways.flat_map(|(_, repeats)| repeats.iter()).filter_map(rig_cpu_us_per_request).collect();
        costs.sort_by(f64::total_cmp);
        Self { median_us: costs.get(costs.len() / 2).copied() }
    }

    /// The factor, at least 1, by which the rig's CPU time per request in this repeat differs from the median.
    fn deviation(&self, repeat: &Repeat<'_>) -> f64 {
        let ratio =
            rig_cpu_us_per_request(repeat).zip(self.median_us).map_or(1.0, |(own, usual)| own / usual);
        ratio.max(ratio.recip())
    }

    /// Returns a value that depends on CPU time, with its reasons and bounds. If host noise may have changed CPU time,
    /// the bounds are widened by [`Self::deviation`].
    pub(crate) fn widened(&self, name: &str, repeat: &Repeat<'_>, sample: Sample) -> Repeated {
        let mut repeated = repeat.judged(name, sample);
        if repeat.was_moved_by_noise(value::CPU) {
            let factor = self.deviation(repeat);
            repeated.range.low = repeated.range.low.map(|low| low / factor);
            repeated.range.high = repeated.range.high.map(|high| high * factor);
        }
        repeated
    }

    /// Returns the throughput of a repeat. In a closed loop it depends on CPU time: the throughput of a saturated
    /// gateway is its CPU limit divided by the CPU time per request.
    pub(crate) fn throughput(&self, repeat: &Repeat<'_>) -> Repeated {
        let result = &repeat.measurement.record.result;
        let sample = Sample::Value(result.rate_per_s);
        match result.model {
            ArrivalModel::Closed => self.widened(value::THROUGHPUT, repeat, sample),
            ArrivalModel::Open => repeat.judged(value::THROUGHPUT, sample),
        }
    }
}

impl Repeat<'_> {
    /// Whether host noise may have changed the value `name`.
    fn was_moved_by_noise(&self, name: &str) -> bool {
        let bounds = self.measurement.judgement.bounds.as_ref().and_then(|bounds| bounds.get(name));
        bounds.is_some_and(|bounds| bounds.reasons.contains(&Reason::HostNoise))
    }
}

/// CPU time of upstream and load generator together per completed request, microseconds; `None` if one of them was not
/// sampled.
pub(crate) fn rig_cpu_us_per_request(repeat: &Repeat<'_>) -> Option<f64> {
    let used = |role| role_usage(&repeat.cell.parts, &repeat.measurement.usage, role);
    let cores = used(Role::Origin)?.cpu_cores + used(Role::Generator)?.cpu_cores;
    let per_s = repeat.measurement.record.result.rate_per_s;
    (per_s > 0.0).then(|| cores * 1e6 / per_s).filter(|us| *us > 0.0)
}
