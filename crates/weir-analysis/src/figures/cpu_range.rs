//! Range of a data plane's CPU use, as share of its limit.

use serde::Serialize;
use weir_results::{Measurement, Part, Role};

use crate::points::measured::{Repeat, data_usage};
use crate::verdicts::reasons::Metric;

/// Rounding tolerance for the start times of samples, seconds.
const ROUNDING_S: f64 = 1e-6;

/// Minimum and maximum CPU use of the data plane in single seconds of the sustained phases, as share of its CPU limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuRange {
    /// CPU use in the second with the lowest use, as a share of the CPU limit.
    pub least: f64,
    /// Maximum CPU use in a single second, as share of the limit.
    pub greatest: f64,
    /// Whether the range covers valid repeats; if none is valid, it covers all repeats and is invalid.
    pub counts: bool,
}

/// The range of the CPU use in the valid repeats, or in all repeats if none is valid; `None` without a limit or
/// samples.
///
/// If a phase has no complete sampled second, its mean CPU use is used.
pub(crate) fn cpu_range(repeats: &[Repeat<'_>]) -> Option<CpuRange> {
    let is_valid = |repeat: &Repeat<'_>| repeat.reasons(Metric::Cpu).is_empty();
    let counts = repeats.iter().any(is_valid);
    let counted = repeats.iter().filter(|repeat| !counts || is_valid(repeat));
    let shares: Vec<f64> = counted.flat_map(shares).filter(|share| share.is_finite()).collect();
    let least = shares.iter().copied().reduce(f64::min)?;
    let greatest = shares.iter().copied().reduce(f64::max)?;
    Some(CpuRange { least, greatest, counts })
}

/// CPU use as a share of the limit, one value per complete second of the phase. If no complete second was sampled,
/// contains only the share in the whole phase.
fn shares(repeat: &Repeat<'_>) -> Vec<f64> {
    let (parts, measurement) = (&repeat.cell.parts, repeat.measurement);
    let Some(limit_cpus) = data_limit_cpus(parts) else { return Vec::new() };
    let (from_s, to_s) = phase_s(measurement);
    let is_within = |t_s: f64| t_s + ROUNDING_S >= from_s && t_s + 1.0 <= to_s + ROUNDING_S;
    let seconds = measurement.series.iter().filter(|second| is_within(second.t_s));
    let data = || parts.iter().filter(|part| part.role == Role::Data);
    let cores = seconds.filter_map(|second| {
        data().map(|part| second.cpu_cores.get(&part.name).copied()).sum::<Option<f64>>()
    });
    let shares: Vec<f64> = cores.map(|cores| cores / limit_cpus).collect();
    if !shares.is_empty() {
        return shares;
    }
    let whole = data_usage(parts, &measurement.usage).and_then(|usage| usage.cpu_share_of_limit);
    whole.into_iter().collect()
}

/// Sum of the CPU limits of the data plane's parts; `None` if a part has no limit.
pub(crate) fn data_limit_cpus(parts: &[Part]) -> Option<f64> {
    let mut data = parts.iter().filter(|part| part.role == Role::Data).peekable();
    data.peek()?;
    data.map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cpus| *cpus > 0.0)
}

/// Start and end of the sustained phase, seconds from the start of the warm-up.
fn phase_s(measurement: &Measurement) -> (f64, f64) {
    let seconds = &measurement.record.seconds;
    let from_s = seconds.iter().find(|second| second.sustained).map_or(0.0, |second| second.t_s);
    (from_s, from_s + measurement.record.result.duration_s)
}
