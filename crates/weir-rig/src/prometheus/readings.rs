//! The scrapes around a load, and the resources that weir computes from them.

use weir_results::{CpuSeconds, Usage};

use super::phase::{Growth, Phase, Series, Unknown, total_gauge, total_grown};

const SECOND_NS: f64 = 1e9;

/// The scrapes around a load, one field per query. A field is empty if there is no query or no data.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrapes {
    pub(super) cpu: Vec<Series>,
    pub(super) cpu_user: Vec<Series>,
    pub(super) cpu_system: Vec<Series>,
    pub(super) memory: Vec<Series>,
    pub(super) memory_free: Vec<Series>,
    pub(super) periods: Vec<Series>,
    pub(super) periods_throttled: Vec<Series>,
    pub(super) throttled: Vec<Series>,
    pub(super) open_files: Vec<Series>,
}

/// The resources that a gateway used in a phase, computed from scrapes.
#[derive(Debug)]
pub struct Readings {
    /// The resources in the phase, or why they are unknown.
    pub usage: Result<Usage, String>,
    /// How accurate the CPU time is; `None` if the resources are unknown.
    pub account: Option<Account>,
    scrapes: Scrapes,
    phase: Phase,
    /// The start of the phase by this host's monotonic clock, nanoseconds.
    start_ns: u64,
}

/// The accuracy of the CPU time of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// Number of CPU time series with a scrape since the phase began.
    pub series: usize,
    /// Number of scrapes in the phase; for several series, the smallest number.
    pub scrapes: usize,
    /// Time between two scrapes, seconds.
    pub interval_s: f64,
    /// Estimated CPU time in the phase, seconds.
    pub cpu_s: f64,
    /// Lower bound of the CPU time: its growth from the first to the last scrape inside the phase, seconds.
    pub cpu_s_least: f64,
    /// Upper bound of the CPU time: its growth from the last scrape before the phase to the first scrape after it,
    /// seconds.
    pub cpu_s_most: f64,
    /// Possible error of `cpu_s`, in seconds of CPU time. It exists because the phase starts and ends between scrapes.
    pub cpu_s_uncertain: f64,
    /// Possible error of the phase's start and end, because the offset of Prometheus's clock is not exact; seconds.
    pub clock_uncertain_s: f64,
}

impl Readings {
    pub(super) fn new(
        scrapes: Scrapes,
        phase: Phase,
        start_ns: u64,
        clock_uncertain_s: f64,
        limit_cpus: Option<f64>,
    ) -> Self {
        let cpu = cpu(&scrapes.cpu, phase);
        let account = cpu.as_ref().ok().map(|cpu| Account {
            series: scrapes.cpu.iter().filter(|series| series.reaches(phase.from_s)).count(),
            scrapes: cpu.scrapes,
            interval_s: scrapes.cpu.iter().find_map(Series::interval_s).unwrap_or(0.0),
            cpu_s: cpu.amount,
            cpu_s_least: cpu.min,
            cpu_s_most: cpu.max,
            cpu_s_uncertain: cpu.uncertain,
            clock_uncertain_s,
        });
        let usage = cpu.map(|cpu| usage(&scrapes, phase, cpu.amount, limit_cpus));
        Self { usage, account, scrapes, phase, start_ns }
    }

    /// Mean cores used from `from_ns` to `to_ns`, and memory in bytes at `to_ns`. Times are nanoseconds of this host's
    /// monotonic clock. A value is `None` if the scrapes do not cover the time.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> (Option<f64>, Option<u64>) {
        let theirs_s = |mono_ns: u64| self.phase.from_s + (mono_ns as f64 - self.start_ns as f64) / SECOND_NS;
        let (from_s, to_s) = (theirs_s(from_ns), theirs_s(to_ns));
        let alive = || self.scrapes.cpu.iter().filter(|series| series.reaches(self.phase.from_s));
        let grown: Option<f64> = alive().map(|series| Some(series.at(to_s)? - series.at(from_s)?)).sum();
        let memory = |series: &[Series]| -> Option<f64> {
            let alive = series.iter().filter(|series| series.reaches(self.phase.from_s));
            alive.map(|series| latest(series, to_s)).sum()
        };
        let used = memory(&self.scrapes.memory).zip(memory(&self.scrapes.memory_free));
        (
            grown.filter(|_| to_s > from_s && alive().next().is_some()).map(|cpu_s| cpu_s / (to_s - from_s)),
            used.filter(|_| !self.scrapes.memory.is_empty()).map(|(all, free)| (all - free).max(0.0) as u64),
        )
    }
}

/// The CPU time used in `phase`, or why it is unknown.
fn cpu(series: &[Series], phase: Phase) -> Result<Growth, String> {
    match total_grown(series, phase) {
        Ok(Some(growth)) => Ok(growth),
        Ok(None) => Err("no series has been scraped since the phase began".into()),
        Err((series, unknown)) => {
            let every = series.interval_s().filter(|_| matches!(unknown, Unknown::TooFew(_)));
            let every =
                every.map(|interval_s| format!(" (scrape interval {interval_s:.1} s)")).unwrap_or_default();
            Err(format!("{}: {unknown}{every}", super::labels(&series.labels)))
        }
    }
}

fn usage(scrapes: &Scrapes, phase: Phase, cpu_s: f64, limit_cpus: Option<f64>) -> Usage {
    let grown = |series: &[Series]| total_grown(series, phase).ok().flatten().map(|growth| growth.amount);
    let whole = |series: &[Series]| grown(series).map(|amount| amount.round() as u64);
    let memory = total_gauge(&scrapes.memory, phase);
    // If free memory is queried but unknown, used memory is unknown too.
    let free = match scrapes.memory_free.is_empty() {
        true => Some(Default::default()),
        false => total_gauge(&scrapes.memory_free, phase),
    };
    let memory = memory.zip(free);
    let bytes = |value: f64| value.max(0.0) as u64;
    let split =
        grown(&scrapes.cpu_user).zip(grown(&scrapes.cpu_system)).filter(|(user, system)| user + system > 0.0);
    let user_share = split.map_or(1.0, |(user, system)| user / (user + system));
    let cpu_cores = cpu_s / (phase.to_s - phase.from_s);
    Usage {
        cpu_s: CpuSeconds { user: cpu_s * user_share, system: cpu_s * (1.0 - user_share) },
        cpu_is_unsplit: split.is_none(),
        cpu_cores,
        cpu_share_of_limit: limit_cpus.map(|limit| cpu_cores / limit),
        throttled_s: grown(&scrapes.throttled),
        periods: whole(&scrapes.periods),
        periods_throttled: whole(&scrapes.periods_throttled),
        memory_bytes_mean: memory.map(|(all, free)| bytes(all.mean - free.mean)),
        memory_bytes_peak: memory.map(|(all, free)| bytes(all.max - free.min)),
        open_files_max: total_gauge(&scrapes.open_files, phase).map(|open| open.max as u64),
        ..Usage::default()
    }
}

/// The last value at or before `at_s`.
fn latest(series: &Series, at_s: f64) -> Option<f64> {
    let split = series.points.partition_point(|point| point.at_s <= at_s);
    series.points.get(split.checked_sub(1)?).map(|point| point.value)
}

#[cfg(test)]
mod tests {
    use super::super::phase::Point;
    use super::*;

    /// Scrapes every five seconds from 90 s to 170 s.
    fn scraped(value: impl Fn(f64) -> f64) -> Vec<Series> {
        let times = (0..17).map(|step| 90.0 + 5.0 * f64::from(step));
        let points = times.map(|at_s| Point { at_s, value: value(at_s) }).collect();
        vec![Series { points, labels: [("pod".to_owned(), "a".to_owned())].into() }]
    }

    const PHASE: Phase = Phase { from_s: 101.0, to_s: 161.0 };
    const START_NS: u64 = 7_000_000_000;

    fn half_a_core() -> Scrapes {
        Scrapes {
            cpu: scraped(|at_s| at_s / 2.0),
            cpu_user: scraped(|at_s| at_s / 8.0),
            cpu_system: scraped(|at_s| at_s * 3.0 / 8.0),
            memory: scraped(|at_s| 1_000.0 + at_s),
            periods: scraped(|at_s| at_s * 10.0),
            periods_throttled: scraped(|at_s| at_s),
            throttled: scraped(|at_s| at_s / 100.0),
            ..Scrapes::default()
        }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn resources_of_a_phase_come_from_its_scrapes() {
        let readings = Readings::new(half_a_core(), PHASE, START_NS, 0.002, Some(2.0));
        let usage = readings.usage.as_ref().unwrap();
        near(usage.cpu_s.total(), 30.0);
        near(usage.cpu_s.user, 7.5);
        near(usage.cpu_cores, 0.5);
        near(usage.cpu_share_of_limit.unwrap(), 0.25);
        near(usage.throttled_s.unwrap(), 0.6);
        assert_eq!((usage.periods, usage.periods_throttled), (Some(600), Some(60)));
        assert_eq!((usage.memory_bytes_mean, usage.memory_bytes_peak), (Some(1_132), Some(1_160)));
        assert!(!usage.cpu_is_unsplit && usage.open_files_max.is_none() && usage.threads_max.is_none());
        let account = readings.account.unwrap();
        assert_eq!((account.series, account.scrapes, account.clock_uncertain_s), (1, 12, 0.002));
        near(account.interval_s, 5.0);
        near(account.cpu_s_least, 27.5);
        near(account.cpu_s_most, 32.5);
    }

    #[test]
    fn missing_series_are_none_and_not_zero() {
        let scrapes = Scrapes { cpu: scraped(|at_s| at_s / 2.0), ..Scrapes::default() };
        let usage = Readings::new(scrapes, PHASE, START_NS, 0.0, None).usage.unwrap();
        assert!(usage.cpu_is_unsplit);
        assert_eq!((usage.memory_bytes_mean, usage.memory_bytes_peak), (None, None));
        assert_eq!((usage.periods, usage.throttled_s, usage.cpu_share_of_limit), (None, None, None));
        let free = Scrapes { memory_free: scraped(|_| 400.0), ..half_a_core() };
        let usage = Readings::new(free, PHASE, START_NS, 0.0, None).usage.unwrap();
        assert_eq!((usage.memory_bytes_mean, usage.memory_bytes_peak), (Some(732), Some(760)));
    }

    #[test]
    fn a_phase_with_too_few_scrapes_reports_the_interval() {
        let short = Phase { from_s: 101.0, to_s: 109.0 };
        let readings = Readings::new(half_a_core(), short, START_NS, 0.0, None);
        assert_eq!(readings.account, None);
        assert_eq!(
            readings.usage.unwrap_err(),
            "{pod=\"a\"}: the phase has 1 scrape, but weir needs at least 3 (scrape interval 5.0 s)"
        );
        let nothing = Readings::new(Scrapes::default(), PHASE, START_NS, 0.0, None);
        assert!(nothing.usage.unwrap_err().contains("no series has been scraped"));
    }

    #[test]
    fn seconds_are_interpolated_between_scrapes() {
        let readings = Readings::new(half_a_core(), PHASE, START_NS, 0.0, None);
        let (cores, memory) = readings.between(START_NS, START_NS + 1_000_000_000);
        near(cores.unwrap(), 0.5);
        assert_eq!(memory, Some(1_100));
        assert_eq!(readings.between(START_NS + 100_000_000_000, START_NS + 101_000_000_000).0, None);
        let nothing = Readings::new(Scrapes::default(), PHASE, START_NS, 0.0, None);
        assert_eq!(nothing.between(START_NS, START_NS + 1_000_000_000), (None, None));
    }
}
