//! What this host can decide in ten minutes: how much values wander from repeat to repeat (`docs/method.md#comparison`).

use serde::Serialize;
use weir_analysis::compare::smallest_difference;
use weir_analysis::noise_margin;
use weir_analysis::quantity::percent_short;
use weir_engine::{ModelSpec, Spacing};
use weir_results::{LoadResult, Thresholds};

use super::bounds::Origin;
use crate::failure::Failure;

/// Repeats with a fresh origin each; their spread is known to a quarter of itself.
const REPEATS: usize = 8;
/// As the quickstart has them.
const CONNECTIONS: u32 = 10;
const RATE_PER_S: f64 = 3_000.0;
const OPEN_CONNECTIONS: u32 = 32;
/// Length of each load, nanoseconds.
const LOAD_NS: u64 = 800_000_000;
/// What is promised for.
const MINUTES: f64 = 10.0;
/// A block of the quickstart with two gateways: three cells of two loads.
const BLOCK_S: f64 = 13.0;
/// A difference above this is no answer.
const USEFUL_MAX: f64 = 2.0;

/// The smallest differences that a comparison of two gateways finds in ten minutes, as shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Precision {
    /// In CPU time per request.
    pub(super) cpu: f64,
    /// In throughput.
    pub(super) throughput: f64,
    /// In p99.
    pub(super) p99: f64,
}

/// Values of the repeats.
#[derive(Default)]
struct Repeats {
    throughput: Vec<f64>,
    cpu: Vec<f64>,
    p99: Vec<f64>,
}

impl Precision {
    /// Measures weir's origin with its generator, in repeats with fresh processes; `None` if a value was missing.
    pub(super) fn measure() -> Result<Option<Self>, Failure> {
        let mut repeats = Repeats::default();
        for _ in 0..REPEATS {
            let origin = Origin::start()?;
            let closed = origin.drive(ModelSpec::default(), CONNECTIONS, LOAD_NS)?;
            let open =
                origin.drive(ModelSpec::open(RATE_PER_S, Spacing::Poisson), OPEN_CONNECTIONS, LOAD_NS)?;
            repeats.add(&closed, &open);
        }
        Ok(repeats.precision())
    }

    /// `taken` is the share of the host that others take. A value that they can move beyond its tolerance has bounds only.
    pub(super) fn words(&self, taken: f64) -> String {
        let thresholds = Thresholds::default();
        let is_noisy = taken > thresholds.disturbed_share;
        let margin = noise_margin(taken);
        let of = |share: f64, is_bounded: bool| match share {
            _ if is_noisy && is_bounded => "no size".to_owned(),
            share if share > USEFUL_MAX => format!("more than {}", percent_short(USEFUL_MAX)),
            share if share >= 0.1 => format!("{:.0} %", share * 100.0),
            share => percent_short((share * 1_000.0).round() / 1_000.0),
        };
        format!(
            "In {MINUTES:.0} minutes, a comparison of two gateways here finds differences of {} in CPU per request, {} in \
             throughput and {} in p99.",
            of(self.cpu, margin > thresholds.cpu_tolerance),
            of(self.throughput, margin > thresholds.throughput_tolerance),
            of(self.p99, true)
        ) + if is_noisy { " Beside this noise, p99 has bounds only." } else { "" }
    }
}

impl Repeats {
    fn add(&mut self, closed: &LoadResult, open: &LoadResult) {
        self.throughput.push(closed.rate_per_s);
        let completed = open.requests.completed.max(1) as f64;
        self.cpu.push(open.cpu_s.total() / completed);
        self.p99.extend(open.latency_ns.p99.map(|ns| ns as f64));
    }

    fn precision(&self) -> Option<Precision> {
        let blocks = (MINUTES * 60.0 / BLOCK_S) as usize;
        let of = |values: &[f64]| {
            let is_whole = values.len() == REPEATS && values.iter().all(|value| *value > 0.0);
            is_whole.then(|| smallest_difference(spread(values), blocks))
        };
        Some(Precision { cpu: of(&self.cpu)?, throughput: of(&self.throughput)?, p99: of(&self.p99)? })
    }
}

/// The standard deviation of the logarithms.
fn spread(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wanders_more_decides_less() {
        let repeats = |step: f64| {
            let values: Vec<f64> = (0..REPEATS).map(|place| 100.0 * (step * place as f64).exp()).collect();
            Repeats { throughput: values.clone(), cpu: values.clone(), p99: values }
        };
        let of = |step| repeats(step).precision().unwrap().cpu;
        assert!(of(0.001) < of(0.01) && of(0.01) < of(0.1));
        // A standard deviation of 2.4 %: of 46 blocks, 2.4 % x 1.41 / 6.8 x (2.7 + 0.85).
        assert!((0.015..0.025).contains(&of(0.01)), "{}", of(0.01));
        let missing = Repeats { p99: Vec::new(), ..repeats(0.01) };
        assert_eq!(missing.precision(), None);
    }

    #[test]
    fn differences_are_told_as_one_says_them() {
        let words = Precision { cpu: 0.0412, throughput: 0.093, p99: 0.402 }.words(0.01);
        assert_eq!(
            words,
            "In 10 minutes, a comparison of two gateways here finds differences of 4.1 % in CPU per request, 9.3 % in \
             throughput and 40 % in p99."
        );
        let wide = Precision { cpu: 0.1, throughput: 0.1, p99: 3.0 };
        assert!(wide.words(0.0).contains("more than 200 % in p99"));
        let noisy = wide.words(0.1);
        assert!(
            noisy.contains("of no size in CPU per request, 10 % in throughput and no size in p99. "),
            "{noisy}"
        );
    }
}
