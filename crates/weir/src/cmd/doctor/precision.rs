//! What this host can decide in ten minutes: how much values wander from repeat to repeat (`docs/method.md#comparison`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use weir_analysis::compare::smallest_difference;
use weir_analysis::noise_margin;
use weir_analysis::quantity::percent_short;
use weir_lab::{Bench, Observer, Overrides, Progress, Source};
use weir_results::{ArrivalModel, Cell, CellKey, CellOutcome, Measurement, Store, Thresholds};
use weir_rig::{Binary, Drivers};

use crate::cmd::known::known;
use crate::failure::Failure;

/// Repeats of the quickstart with one gateway; their spread is known to a quarter of itself.
const REPEATS: u32 = 8;
/// Shorter than in the quickstart, so that the doctor takes no longer.
const PHASES: [&str; 2] = ["warmup=200ms", "duration=800ms"];
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

/// Watches a run that nobody watches.
struct Unseen;

impl Observer for Unseen {
    fn note(&self, _: &str) {}
    fn cell_started(&self, _: &CellKey, _: Progress) {}
    fn load_started(&self, _: &CellKey, _: &str, _: Duration) {}
    fn load_retried(&self, _: &CellKey, _: &str, _: &str) {}
    fn load_measured(&self, _: &CellKey, _: &Measurement) {}
    fn cell_finished(&self, _: &Cell, _: Progress) {}
}

impl Precision {
    /// Measures `gateway` by a short quickstart, in repeats with fresh processes; `None` if a value was missing.
    ///
    /// # Errors
    /// If the run cannot begin: another one may use this host.
    pub(super) fn measure(drivers: &Drivers, gateway: &str) -> Result<Option<Self>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(
                format!("cannot make a temporary folder: {error}"),
                "free space, or use --quick",
            )
        };
        let folder = tempfile::tempdir().map_err(failed)?;
        let mut store = Store::open(&folder.path().join("doctor.db"))?;
        let overrides = Overrides {
            gateways: vec![gateway.to_owned()],
            set: PHASES.map(str::to_owned).to_vec(),
            repeats: Some(REPEATS),
            ..Overrides::default()
        };
        let checked = weir_lab::read(&Source::find("quickstart")?, &overrides, &known(drivers))?;
        let prepared = weir_lab::prepare(checked, drivers)?;
        let run = weir_lab::new_run(&prepared, Vec::new());
        let (weir, stop) = (Binary::own()?, Arc::new(AtomicBool::new(false)));
        let bench = Bench { drivers, weir: &weir, stop: &stop, observer: &Unseen };
        weir_lab::execute(&run, &prepared, &mut store, &bench)?;
        let mut repeats = Repeats::default();
        for cell in store.cells(&run.id)?.iter().filter(|cell| cell.key.gateway == gateway) {
            if let CellOutcome::Measured { measurements } = &cell.outcome {
                measurements.iter().for_each(|measurement| repeats.add(measurement));
            }
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
    fn add(&mut self, measurement: &Measurement) {
        let result = &measurement.record.result;
        match result.model {
            ArrivalModel::Closed => {
                self.throughput.push(result.rate_per_s);
                self.cpu.extend(measurement.cpu_us_per_request);
            }
            ArrivalModel::Open => self.p99.extend(result.latency_ns.p99.map(|ns| ns as f64)),
        }
    }

    fn precision(&self) -> Option<Precision> {
        let blocks = (MINUTES * 60.0 / BLOCK_S) as usize;
        let of = |values: &[f64]| {
            let is_whole = values.len() == REPEATS as usize && values.iter().all(|value| *value > 0.0);
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
