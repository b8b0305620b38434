//! Estimates the smallest differences that a comparison of ten minutes can detect on this host, from the variation
//! between repeats (`docs/method.md#comparison`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use weir_analysis::compare::smallest_difference;
use weir_analysis::quantity::percent_short;
use weir_analysis::{Figure, Repeated, join, noise_margin, reason_name, summarize};
use weir_lab::{AgentsOptions, Bench, Observer, Overrides, Progress, Source};
use weir_results::{ArrivalModel, Cell, CellKey, Measurement, Reason, Store, Thresholds};
use weir_rig::{Binary, Drivers};

use crate::cmd::known::known;
use crate::failure::Failure;

/// Number of repeats of the quickstart scenario with one gateway. With this number, the standard deviation has a
/// relative error of a quarter.
const REPEATS: u32 = 8;
/// Minimum number of valid repeats for an estimate.
const REPEATS_MIN: usize = 6;
/// Warm-up and duration. They are shorter than in the quickstart scenario, to keep `weir doctor` fast.
const PHASES: [&str; 2] = ["warmup=200ms", "duration=800ms"];
/// Length of the comparison for which the estimate is made, in minutes.
const MINUTES: f64 = 10.0;
/// Length of a block of the quickstart scenario with two gateways, in seconds: three cells with two loads each.
const BLOCK_S: f64 = 13.0;
/// Largest difference that is printed as a number. Larger differences are printed as "more than" this value.
const USEFUL_MAX: f64 = 2.0;

/// The smallest differences between two gateways that a comparison of ten minutes can detect. They are shares: 0.05
/// is 5 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Precision {
    /// The smallest detectable difference in CPU time per request.
    pub(super) cpu: f64,
    /// The smallest detectable difference in throughput.
    pub(super) throughput: f64,
    /// The smallest detectable difference in p99.
    pub(super) p99: f64,
}

/// The values of all usable repeats, by metric.
#[derive(Default)]
struct Repeats {
    throughput: Vec<f64>,
    cpu: Vec<f64>,
    p99: Vec<f64>,
}

/// Prints no progress, because the run is a part of `weir doctor`.
struct Silent;

impl Observer for Silent {
    fn note(&self, _: &str) {}
    fn cell_started(&self, _: &CellKey, _: Progress) {}
    fn load_started(&self, _: &CellKey, _: &str, _: Duration) {}
    fn load_retried(&self, _: &CellKey, _: &str, _: &str) {}
    fn load_measured(&self, _: &CellKey, _: &Measurement) {}
    fn cell_finished(&self, _: &Cell, _: Progress) {}
}

impl Precision {
    /// Measures `gateway` with a short quickstart run, whose repeats have fresh processes. If too few repeats are
    /// usable, the inner error says why.
    ///
    /// # Errors
    /// If the run cannot start, for example because another run uses this host.
    pub(super) fn measure(drivers: &Drivers, gateway: &str) -> Result<Result<Self, String>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(
                format!("cannot make a temporary folder: {error}"),
                "free up disk space, or use --quick",
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
        let agents = AgentsOptions::default();
        let bench =
            Bench { drivers, weir: &weir, stop: &stop, observer: &Silent, agents: &agents, watcher: None };
        weir_lab::execute(&run, &prepared, &mut store, &bench)?;
        let summary = summarize(&run, &store.cells(&run.id)?);
        let failed = summary.failed.first().map(|failed| format!("{}: {}", failed.cause, failed.message));
        let row = |model| {
            let point = summary.points.iter().find(|point| point.model == model)?;
            point.gateways().next()
        };
        let (Some(full), Some(tail)) = (row(ArrivalModel::Closed), row(ArrivalModel::Open)) else {
            return Ok(Err(failed.unwrap_or_else(|| "nothing was measured".to_owned())));
        };
        let p99 = tail.latency("p99").map(usable).unwrap_or_default();
        let repeats = Repeats {
            throughput: usable(&full.throughput_per_s),
            cpu: usable(&full.cpu_us_per_request),
            p99,
        };
        let reasons = in_words(full.reasons().into_iter().chain(tail.reasons()));
        Ok(repeats.precision().ok_or_else(|| failed.unwrap_or(reasons)))
    }

    /// The smallest detectable differences, in words. `taken` is the share of the host's CPU that other processes use.
    /// If these processes can change a metric by more than its tolerance, weir reports only bounds of the metric.
    pub(super) fn words(&self, taken: f64) -> String {
        let thresholds = Thresholds::default();
        let is_noisy = taken > thresholds.disturbed_share;
        let margin = noise_margin(taken);
        let of = |share: f64| match share {
            share if share > USEFUL_MAX => format!("more than {}", percent_short(USEFUL_MAX)),
            share if share >= 0.1 => format!("{:.0} %", share * 100.0),
            share => percent_short((share * 1_000.0).round() / 1_000.0),
        };
        let all = [
            ("CPU per request", self.cpu, margin > thresholds.cpu_tolerance),
            ("throughput", self.throughput, margin > thresholds.throughput_tolerance),
            ("p99", self.p99, true),
        ];
        let (bounded, known): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, _, is_bounded)| is_noisy && *is_bounded);
        let known: Vec<String> =
            known.iter().map(|(name, share, _)| format!("{} in {name}", of(*share))).collect();
        let bounded: Vec<String> = bounded.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let mut words = format!("A {MINUTES:.0}-minute comparison of two gateways on this host ");
        words += &match known.is_empty() {
            true => "cannot detect differences reliably.".to_owned(),
            false => format!("detects differences of at least {} (80 % power).", join(&known)),
        };
        if !bounded.is_empty() {
            words += &format!(" At the current host noise, weir reports only bounds of {}.", join(&bounded));
        }
        words
    }
}

impl Repeats {
    fn precision(&self) -> Option<Precision> {
        let blocks = (MINUTES * 60.0 / BLOCK_S) as usize;
        let of = |values: &[f64]| {
            let is_enough = values.len() >= REPEATS_MIN && values.iter().all(|value| *value > 0.0);
            is_enough.then(|| smallest_difference(spread(values), blocks))
        };
        Some(Precision { cpu: of(&self.cpu)?, throughput: of(&self.throughput)?, p99: of(&self.p99)? })
    }
}

/// The values of repeats that are valid, or invalid only because of host noise.
fn usable(figure: &Figure) -> Vec<f64> {
    let is_usable = |of: &&Repeated| of.reasons.iter().all(|reason| *reason == Reason::HostNoise);
    figure.repeats.iter().filter(is_usable).filter_map(Repeated::value).collect()
}

/// Lists the reasons other than host noise, each once.
fn in_words(reasons: impl Iterator<Item = (Reason, usize)>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (reason, _) in reasons.filter(|(reason, _)| *reason != Reason::HostNoise) {
        let name = reason_name(reason);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { "too few repeats".to_owned() } else { names.join(", ") }
}

/// The standard deviation of the logarithms of the values.
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
    fn more_variation_means_larger_detectable_differences() {
        let repeats = |step: f64| {
            let values: Vec<f64> = (0..REPEATS).map(|place| 100.0 * (step * place as f64).exp()).collect();
            Repeats { throughput: values.clone(), cpu: values.clone(), p99: values }
        };
        let of = |step| repeats(step).precision().unwrap().cpu;
        assert!(of(0.001) < of(0.01) && of(0.01) < of(0.1));
        // The expected value is 1.8 %: the standard deviation of 2.4 %, times √2 / √46 for 46 blocks, times the sum of
        // two t quantiles. The quantiles are 2.7 for the error level and 0.85 for 80 % power.
        assert!((0.015..0.025).contains(&of(0.01)), "{}", of(0.01));
        let missing = Repeats { p99: Vec::new(), ..repeats(0.01) };
        assert_eq!(missing.precision(), None);
    }

    #[test]
    fn detectable_differences_are_printed_for_people() {
        let words = Precision { cpu: 0.0412, throughput: 0.093, p99: 0.402 }.words(0.01);
        assert_eq!(
            words,
            "A 10-minute comparison of two gateways on this host detects differences of at least 4.1 % in CPU per request, \
             9.3 % in throughput and 40 % in p99 (80 % power)."
        );
        let wide = Precision { cpu: 0.1, throughput: 0.1, p99: 3.0 };
        assert!(wide.words(0.0).contains("more than 200 % in p99"));
        let noisy = wide.words(0.1);
        assert_eq!(
            noisy,
            "A 10-minute comparison of two gateways on this host detects differences of at least 10 % in throughput (80 % \
             power). At the current host noise, weir reports only bounds of CPU per request and p99."
        );
    }
}
