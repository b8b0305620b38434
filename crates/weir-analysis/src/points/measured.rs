//! The repeats of a gateway at a load point, and resource usage summed by role.

use std::collections::BTreeMap;

use weir_results::{
    Bounds, Cell, CpuSeconds, Measurement, NetworkUsage, Part, Reason, Role, Thresholds, Usage,
};

use crate::figures::figure::{Range, Repeated, Sample};
use crate::figures::latencies::latency_ns;
use crate::figures::seconds::Seconds;
use crate::verdicts::reasons::{Metric, reasons_and_range, reasons_for, value};

/// Reasons that can delay requests but never speed them up.
const DELAYING: [Reason; 4] =
    [Reason::GeneratorLimited, Reason::UpstreamLimited, Reason::HostNoise, Reason::Throttled];

/// One load of one cell.
#[derive(Clone, Copy)]
pub(crate) struct Repeat<'a> {
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) cell: &'a Cell,
    pub(crate) measurement: &'a Measurement,
}

/// The repeats of a gateway at a load point, in order.
#[derive(Default)]
pub(crate) struct Repeats<'a>(Vec<Repeat<'a>>);

impl<'a> From<Repeat<'a>> for Repeats<'a> {
    fn from(repeat: Repeat<'a>) -> Self {
        Self(vec![repeat])
    }
}

/// The usage of a cell's data plane, summed over its parts; see [`role_usage`].
pub fn data_usage(parts: &[Part], usage: &BTreeMap<String, Usage>) -> Option<Usage> {
    role_usage(parts, usage, Role::Data)
}

/// The usage of a cell's upstream, summed over its endpoints; `None` if nothing was sampled.
///
/// `cpu_share_of_limit` comes from the busiest endpoint: with round robin, one saturated endpoint slows down all.
pub fn origin_usage(parts: &[Part], usage: &BTreeMap<String, Usage>) -> Option<Usage> {
    let origins = parts.iter().filter(|part| part.role == Role::Origin);
    let shares = origins.filter_map(|part| usage.get(&part.name)?.cpu_share_of_limit);
    let cpu_share_of_limit = shares.reduce(f64::max);
    Some(Usage { cpu_share_of_limit, ..role_usage(parts, usage, Role::Origin)? })
}

/// The usage of the parts of one role, summed; `None` without parts or samples.
///
/// `cpu_share_of_limit` is relative to the sum of the parts' limits; `None` if a part has no limit.
pub fn role_usage(parts: &[Part], usage: &BTreeMap<String, Usage>, role: Role) -> Option<Usage> {
    let of_role = || parts.iter().filter(|part| part.role == role);
    let used: Vec<&Usage> = of_role().filter_map(|part| usage.get(&part.name)).collect();
    if used.len() < 2 {
        return used.first().copied().cloned();
    }
    let limit_cpus: Option<f64> = of_role().map(|part| part.limit_cpus).sum();
    let cpu_cores = used.iter().map(|usage| usage.cpu_cores).sum();
    let total = |of: fn(&Usage) -> Option<u64>| {
        used.iter().map(|usage| of(usage)).try_fold(0, |sum: u64, next| Some(sum.saturating_add(next?)))
    };
    Some(Usage {
        cpu_s: CpuSeconds {
            user: used.iter().map(|usage| usage.cpu_s.user).sum(),
            system: used.iter().map(|usage| usage.cpu_s.system).sum(),
        },
        cpu_is_unsplit: used.iter().any(|usage| usage.cpu_is_unsplit),
        cpu_cores,
        cpu_share_of_limit: limit_cpus.filter(|limit| *limit > 0.0).map(|limit| cpu_cores / limit),
        throttled_s: used.iter().map(|usage| usage.throttled_s).sum(),
        periods: total(|usage| usage.periods),
        periods_throttled: total(|usage| usage.periods_throttled),
        memory_bytes_mean: total(|usage| usage.memory_bytes_mean),
        memory_bytes_peak: total(|usage| usage.memory_bytes_peak),
        threads_max: total(|usage| usage.threads_max),
        pids_max: total(|usage| usage.pids_max),
        open_files_max: total(|usage| usage.open_files_max),
        sockets_max: total(|usage| usage.sockets_max),
        network: used
            .iter()
            .map(|usage| usage.network)
            .try_fold(NetworkUsage::default(), |sum, next| Some(sum + next?)),
        block_read_bytes: total(|usage| usage.block_read_bytes),
        block_written_bytes: total(|usage| usage.block_written_bytes),
        switches_voluntary: total(|usage| usage.switches_voluntary),
        switches_involuntary: total(|usage| usage.switches_involuntary),
        runqueue_s: used.iter().map(|usage| usage.runqueue_s).sum(),
    })
}

impl<'a> Repeat<'a> {
    /// The reasons why `metric` is invalid in this repeat; empty if it is valid.
    pub(crate) fn reasons(&self, metric: Metric) -> &'a [Reason] {
        let judgement = &self.measurement.judgement;
        match (&judgement.bounds, metric) {
            (Some(bounds), Metric::Throughput) => reasons_of(bounds, value::THROUGHPUT),
            (Some(bounds), Metric::Cpu) => reasons_of(bounds, value::CPU),
            _ => reasons_for(&judgement.verdicts, metric),
        }
    }

    /// Returns `sample`, a value of this repeat, with the reasons and bounds from the judgement of the value `name`.
    pub(crate) fn judged(&self, name: &str, sample: Sample) -> Repeated {
        let (reasons, range) = reasons_and_range(&self.measurement.judgement, name);
        Repeated { repeat: self.cell.key.repeat, sample, reasons, range }
    }

    /// Latency at the quantile `share` in `part`, which contains some seconds of the phase. It gets the reasons that
    /// the latency `name` has in the whole phase, except those in `caused`, which the measured disturbance itself
    /// causes.
    ///
    /// It is unknown in which seconds requests were delayed. So the bounds assume that all delayed requests lie in
    /// `part`.
    pub(crate) fn judged_part(
        &self,
        name: &str,
        share: f64,
        part: &Seconds<'_>,
        caused: &[Reason],
    ) -> Repeated {
        let (repeat, sample) = (self.cell.key.repeat, part.latency_ns(share));
        let judgement = &self.measurement.judgement;
        let known = judgement.bounds.as_ref().map(|bounds| bounds.get(name));
        let reasons = match known {
            Some(bounds) => bounds.map_or(&[][..], |bounds| &bounds.reasons),
            None => &judgement.verdicts.latency,
        };
        let reasons: Vec<Reason> =
            reasons.iter().copied().filter(|reason| !caused.contains(reason)).collect();
        let judged = |reasons, range| Repeated { repeat, sample, reasons, range };
        let (Some(bounds), Sample::Value(value)) = (known.flatten(), sample) else {
            return judged(reasons, Range::default());
        };
        match reasons[..] {
            [] => judged(reasons, Range::default()),
            [Reason::Overloaded] => judged(reasons, Range { low: Some(value), high: None }),
            _ if reasons.iter().all(|reason| DELAYING.contains(reason)) => {
                let range = self.delayed_part(name, share, part, bounds);
                let tolerance = match share {
                    _ if share > 0.5 => self.thresholds.tail_tolerance,
                    _ => self.thresholds.median_tolerance,
                };
                let is_valid = range.low.is_some_and(|low| low >= value * (1.0 - tolerance));
                judged(if is_valid { Vec::new() } else { reasons }, range)
            }
            _ => judged(reasons, Range::default()),
        }
    }

    /// Bounds of a latency in some seconds of the phase (`part`). `share` is the quantile, from 0 to 1. Assumes that
    /// all delayed requests of the phase lie in these seconds.
    fn delayed_part(&self, name: &str, share: f64, part: &Seconds<'_>, bounds: &Bounds) -> Range {
        let record = &self.measurement.record;
        let value = |share: f64| match part.latency_ns(share) {
            Sample::Value(value) => Some(value),
            Sample::BeyondTimeout | Sample::Missing => None,
        };
        // Share by which the host may have been slower or faster: how far the upper bound of this quantile exceeds its
        // value, both over the whole phase.
        let whole = latency_ns(&record.result.latency_ns, name);
        let speed = whole.zip(bounds.high).map_or(0.0, |(whole, high)| (high / whole - 1.0).max(0.0));
        let of_all = record.result.requests.scheduled as f64 / part.sent().max(1) as f64;
        let delayed = self.measurement.judgement.delayed_share.map(|delayed| delayed * of_all);
        let low = delayed.filter(|delayed| *delayed < 1.0).and_then(|delayed| value(share * (1.0 - delayed)));
        Range {
            low: low.map(|low| low * (1.0 - speed).max(0.0)),
            high: value(share).map(|high| high * (1.0 + speed)),
        }
    }

    /// Judges a time, such as the time until a route change takes effect. Only host noise or a limit that was not
    /// applied can change it. Noise can only lengthen it, so with noise the measured time is an upper bound.
    pub(crate) fn judged_time(&self, sample: Sample) -> Repeated {
        let repeat = self.cell.key.repeat;
        let judgement = &self.measurement.judgement;
        let reasons = match &judgement.bounds {
            Some(bounds) => bounds.get("max").map_or(&[][..], |bounds| &bounds.reasons),
            None => &judgement.verdicts.latency,
        };
        let against = [Reason::HostNoise, Reason::LimitNotApplied];
        let reasons: Vec<Reason> =
            reasons.iter().copied().filter(|reason| against.contains(reason)).collect();
        let high = match (sample, &reasons[..]) {
            (Sample::Value(value), [Reason::HostNoise]) if judgement.bounds.is_some() => Some(value),
            _ => None,
        };
        Repeated { repeat, sample, reasons, range: Range { low: None, high } }
    }

    /// The latency `name`. A quantile has no value if its rank falls among the unanswered requests. The latency is then
    /// beyond the timeout.
    pub(crate) fn latency(&self, name: &str) -> Sample {
        let result = &self.measurement.record.result;
        let value = latency_ns(&result.latency_ns, name);
        match value {
            Some(value) => Sample::Value(value),
            None if result.requests.scheduled > 0 && name != "mean" => Sample::BeyondTimeout,
            None => Sample::Missing,
        }
    }

    pub(crate) fn data(&self) -> Option<Usage> {
        data_usage(&self.cell.parts, &self.measurement.usage)
    }
}

fn reasons_of<'a>(bounds: &'a BTreeMap<String, Bounds>, name: &str) -> &'a [Reason] {
    bounds.get(name).filter(|bounds| !bounds.is_valid).map_or(&[], |bounds| &bounds.reasons)
}

impl<'a> Repeats<'a> {
    pub(crate) fn push(&mut self, repeat: Repeat<'a>) {
        self.0.push(repeat);
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|repeat| repeat.cell.key.repeat);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Repeat<'a>> {
        self.0.iter()
    }

    /// The repeat with this number.
    pub(crate) fn repeat(&self, number: u32) -> Option<&Repeat<'a>> {
        self.0.iter().find(|repeat| repeat.cell.key.repeat == number)
    }

    pub(crate) fn repeated(&self, metric: Metric, of: &dyn Fn(&Repeat<'_>) -> Sample) -> Vec<Repeated> {
        self.iter()
            .map(|repeat| Repeated {
                repeat: repeat.cell.key.repeat,
                sample: of(repeat),
                reasons: repeat.reasons(metric).to_vec(),
                range: Range::default(),
            })
            .collect()
    }

    /// One value per repeat, with the reasons and bounds from [`Repeat::judged`].
    pub(crate) fn judged(&self, name: &str, of: &dyn Fn(&Repeat<'_>) -> Sample) -> Vec<Repeated> {
        self.iter().map(|repeat| repeat.judged(name, of(repeat))).collect()
    }

    /// The repeats in which `metric` is valid, and `true`. If there are none, all repeats and `false`.
    pub(crate) fn counted(&self, metric: Metric) -> (Vec<&Repeat<'a>>, bool) {
        let valid: Vec<_> = self.iter().filter(|repeat| repeat.reasons(metric).is_empty()).collect();
        if valid.is_empty() { (self.iter().collect(), false) } else { (valid, true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, role: Role) -> Part {
        Part {
            name: name.into(),
            role,
            version: String::new(),
            binary: String::new(),
            binary_sha256: String::new(),
            config_sha256: None,
            command: Vec::new(),
            limit_cpus: Some(1.0),
            limit_memory_bytes: None,
            limits_applied: true,
            limited_by: "cgroup-v1".into(),
            image: None,
        }
    }

    fn used(cpu_cores: f64) -> Usage {
        Usage { cpu_cores, cpu_share_of_limit: Some(cpu_cores), ..Usage::default() }
    }

    #[test]
    fn each_plane_of_a_gateway_has_its_own_use() {
        let control = Part { limit_cpus: Some(0.1), ..part("contour", Role::Control) };
        let parts = [control, part("envoy-1", Role::Data), part("envoy-2", Role::Data)];
        let cores = [("contour", 0.1), ("envoy-1", 0.25), ("envoy-2", 0.5)];
        let usage = cores.map(|(name, cores)| (name.to_owned(), used(cores))).into();
        let data = data_usage(&parts, &usage).unwrap();
        assert_eq!((data.cpu_cores, data.cpu_share_of_limit), (0.75, Some(0.375)), "of two cores");
        assert_eq!(role_usage(&parts, &usage, Role::Control), Some(used(0.1)));
        assert_eq!(data_usage(&parts[..1], &usage), None);
    }

    #[test]
    fn the_share_of_an_upstream_is_that_of_its_busiest_endpoint() {
        let parts = [
            part("nginx", Role::Data),
            part("origin-1", Role::Origin),
            part("origin-2", Role::Origin),
            part("origin-3", Role::Origin),
        ];
        let cores = [("nginx", 0.75), ("origin-1", 0.25), ("origin-2", 1.0), ("origin-3", 0.25)];
        let usage = cores.map(|(name, cores)| (name.to_owned(), used(cores))).into();
        let origin = origin_usage(&parts, &usage).unwrap();
        assert_eq!((origin.cpu_cores, origin.cpu_share_of_limit), (1.5, Some(1.0)));
        assert_eq!(origin_usage(&parts[1..2], &usage), Some(used(0.25)));
        assert_eq!(origin_usage(&parts[..1], &usage), None);
        assert_eq!(data_usage(&parts, &usage), Some(used(0.75)));
    }
}
