//! One load of one cell over time, in a limited number of steps.

use serde::Serialize;
use weir_results::{Cell, LoadSecond, Measurement, Role, UsageSecond, new_histogram, quantile_ns};

use crate::figures::heat::{Heat, Shares};

/// Throughput, latency and resource use per step; missing samples are `None`.
///
/// A step is one second, or several if the load has more seconds than the maximum number of steps. Counts and
/// histograms are added, quantiles are never averaged. A step never spans both warm-up and phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Start of the sustained phase, seconds from the start of the warm-up.
    pub sustained_from_s: Option<f64>,
    /// Start of each step, seconds from the start of the warm-up.
    pub t_s: Vec<f64>,
    /// End of the last step, seconds from the start of the warm-up.
    pub end_s: f64,
    /// Complete responses per second.
    pub rate_per_s: Vec<Option<f64>>,
    /// p50 of the latencies in each step, nanoseconds.
    pub p50_ns: Vec<Option<u64>>,
    /// p90 of the latencies in each step, nanoseconds.
    pub p90_ns: Vec<Option<u64>>,
    /// p99 of the latencies in each step, nanoseconds.
    pub p99_ns: Vec<Option<u64>>,
    /// Maximum latency in each step, nanoseconds.
    pub max_ns: Vec<Option<u64>>,
    /// Distribution of the latencies in each step.
    pub heat: Heat,
    /// Start of each step of resource samples, seconds from the start of the warm-up.
    pub sampled_t_s: Vec<f64>,
    /// Cores used by the data plane.
    pub data_cores: Vec<Option<f64>>,
    /// Memory of the data plane without page cache, bytes.
    pub data_memory_bytes: Vec<Option<u64>>,
    /// Resource use of every part of the cell, in the order in which the parts were started.
    pub parts: Vec<PartTimeline>,
}

/// Resource use of one part, per step of samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartTimeline {
    /// The part's name.
    pub name: String,
    /// Role of the part.
    pub role: Role,
    /// Cores used by the part, per step.
    pub cores: Vec<Option<f64>>,
    /// Memory of the part without page cache, bytes, per step.
    pub memory_bytes: Vec<Option<u64>>,
}

/// Builds the timeline of a measurement of `cell`, in at most about `steps_max` steps.
pub fn timeline(cell: &Cell, measurement: &Measurement, steps_max: usize) -> Timeline {
    // The drain after the phase is left out: nothing is sent in it.
    let seconds = &measurement.record.seconds;
    let end = seconds.iter().rposition(|second| second.sustained).map_or(seconds.len(), |last| last + 1);
    let seconds = &seconds[..end];
    let end_s = seconds.last().map_or(f64::INFINITY, |second| second.t_s + second.length_s);
    let samples: Vec<&UsageSecond> = measurement.series.iter().filter(|sample| sample.t_s < end_s).collect();
    let mut timeline = Timeline {
        sustained_from_s: seconds.iter().find(|second| second.sustained).map(|second| second.t_s),
        end_s: if end_s.is_finite() { end_s } else { 0.0 },
        ..Timeline::default()
    };
    let mut shares = Shares::default();
    for step in steps(seconds, steps_max) {
        timeline.add(step, &mut shares);
    }
    timeline.heat = shares.heat();
    let steps: Vec<&[&UsageSecond]> = samples.chunks(length(samples.len(), steps_max)).collect();
    timeline.sampled_t_s = steps.iter().filter_map(|step| Some(step.first()?.t_s)).collect();
    timeline.parts = cell
        .parts
        .iter()
        .map(|part| PartTimeline {
            name: part.name.clone(),
            role: part.role,
            cores: steps.iter().map(|step| mean(step, |at| at.cpu_cores.get(&part.name).copied())).collect(),
            memory_bytes: steps
                .iter()
                .map(|step| mean(step, |at| at.memory_bytes.get(&part.name).map(|bytes| *bytes as f64)))
                .map(|bytes| bytes.map(|bytes| bytes as u64))
                .collect(),
        })
        .collect();
    let data = || timeline.parts.iter().filter(|part| part.role == Role::Data);
    let places = 0..timeline.sampled_t_s.len();
    timeline.data_cores =
        places.clone().map(|place| sum(data().filter_map(|part| part.cores[place]))).collect();
    timeline.data_memory_bytes = places
        .map(|place| sum(data().filter_map(|part| part.memory_bytes[place]).map(|bytes| bytes as f64)))
        .map(|bytes| bytes.map(|bytes| bytes as u64))
        .collect();
    timeline
}

impl Timeline {
    fn add(&mut self, step: &[LoadSecond], shares: &mut Shares) {
        let (Some(first), length_s) = (step.first(), step.iter().map(|second| second.length_s).sum::<f64>())
        else {
            return;
        };
        let completed: f64 = step.iter().map(|second| second.completed as f64).sum();
        let mut merged = new_histogram();
        for second in step {
            // A second with an unreadable histogram does not contribute latencies.
            let Ok(histogram) = second.latency.decode() else { continue };
            if step.len() == 1 {
                merged = histogram;
            } else {
                let _ = merged.add(&histogram);
            }
        }
        self.t_s.push(first.t_s);
        self.rate_per_s.push((length_s > 0.0).then(|| completed / length_s));
        self.p50_ns.push(quantile_ns(&merged, 0, 0.5));
        self.p90_ns.push(quantile_ns(&merged, 0, 0.9));
        self.p99_ns.push(quantile_ns(&merged, 0, 0.99));
        self.max_ns.push((!merged.is_empty()).then(|| merged.max()));
        shares.add(&merged);
    }
}

/// Seconds per step, for at most `steps_max` steps.
fn length(seconds: usize, steps_max: usize) -> usize {
    seconds.div_ceil(steps_max.max(1)).max(1)
}

/// Splits the warm-up and the sustained phase into equally long steps.
fn steps(seconds: &[LoadSecond], steps_max: usize) -> impl Iterator<Item = &[LoadSecond]> {
    let length = length(seconds.len(), steps_max);
    seconds.chunk_by(|one, next| one.sustained == next.sustained).flat_map(move |phase| phase.chunks(length))
}

/// The mean of `of` over the samples of a step; `None` if no sample has a value.
fn mean(step: &[&UsageSecond], of: impl Fn(&UsageSecond) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = step.iter().filter_map(|sample| of(sample)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn sum(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(|sum, next| sum + next)
}

#[cfg(test)]
mod tests {
    use weir_results::Histogram;

    use super::*;

    fn second(t_s: f64, sustained: bool, times_ns: &[u64]) -> LoadSecond {
        let mut histogram = new_histogram();
        times_ns.iter().for_each(|ns| histogram.record(*ns).unwrap());
        LoadSecond {
            t_s,
            length_s: 1.0,
            sustained,
            sent: times_ns.len() as u64,
            completed: times_ns.len() as u64,
            unexpected: 0,
            lost: 0,
            latency: Histogram::encode(&histogram),
        }
    }

    #[test]
    fn steps_add_up_and_keep_warm_up_and_phase_apart() {
        let seconds: Vec<LoadSecond> = (0..7).map(|at| second(f64::from(at), at >= 3, &[1_000])).collect();
        let lengths = |steps_max| steps(&seconds, steps_max).map(<[LoadSecond]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(7), [1; 7]);
        assert_eq!(lengths(4), [2, 1, 2, 2]);
        assert_eq!(lengths(1), [3, 4]);
        assert_eq!(lengths(0), [3, 4]);
    }

    #[test]
    fn a_step_has_the_quantiles_of_all_its_requests() {
        let mut timeline = Timeline::default();
        let mut shares = Shares::default();
        let seconds = [second(0.0, true, &[1_000, 1_000, 1_000]), second(1.0, true, &[9_000])];
        timeline.add(&seconds, &mut shares);
        assert_eq!(timeline.rate_per_s, [Some(2.0)]);
        // The p50 of all four requests is 1 us. The mean of the two p50 values, one per second, would be 5 us.
        assert_eq!(timeline.p50_ns[0].map(|ns| ns / 100), Some(10));
        assert_eq!(timeline.max_ns[0].map(|ns| ns / 1_000), Some(9));
        assert_eq!(shares.heat().shares.len(), 1);
    }
}
