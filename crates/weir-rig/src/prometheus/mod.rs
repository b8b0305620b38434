//! Reads the resource usage of a remote gateway in a phase of a load from a Prometheus server: CPU, memory, throttling.
//!
//! weir reads the raw scrapes with their timestamps. It does not use `rate()`, because the range of `rate()` cannot be
//! aligned with a phase. [`Pages`] computes the same resources from the cAdvisor metrics of kubelets, which weir
//! scrapes itself.

mod client;
mod clock;
mod pages;
mod phase;
mod queries;
mod readings;

use std::collections::BTreeMap;

pub use client::{Credentials, PrometheusAddress};
pub use clock::WallClock;
pub use pages::{ContainerOf, PageClock, Pages};
pub use queries::{MetricSet, Queries};
pub use readings::{Account, Readings};

use self::client::Client;
use self::clock::{ClockReading, offset, unix_s};
use self::phase::{Phase, Series};
use crate::RigError;

/// How long before a phase weir starts to read scrapes, seconds. Prometheus has the same default for
/// `--query.lookback-delta`.
const LOOKBACK_S: f64 = 300.0;
/// Number of clock readings; weir uses the reading with the shortest round trip.
const CLOCK_READINGS: usize = 3;
/// Maximum number of label sets that an error lists.
const LISTED_MAX: usize = 8;
/// The value of the label `container` for the pause container, which holds the network namespace of a pod.
const PAUSE_CONTAINER: &str = "POD";

/// A Prometheus that scrapes a gateway.
#[derive(Debug)]
pub struct Prometheus {
    client: Client,
    queries: Queries,
}

/// What a Prometheus reports about a gateway before a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Number of CPU time series that the selector matches.
    pub series: usize,
    /// Time between two scrapes, seconds; `None` if there is only one scrape so far.
    pub interval_s: Option<f64>,
    /// The sum of the CPU limits of all series, cores; `None` if a series has no limit, or limits are unknown.
    pub limit_cpus: Option<f64>,
    /// The sum of the memory limits of all series, bytes; `None` if a series has no limit, or limits are unknown.
    pub limit_memory_bytes: Option<u64>,
}

/// The sustained phase of a load, in times of this host's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start of the sustained phase, nanoseconds.
    pub from_ns: u64,
    /// End of the sustained phase, nanoseconds.
    pub to_ns: u64,
    /// This host's wall clock before the load, to detect later whether the clock was set.
    pub clock_before: WallClock,
}

/// The result of reading the scrapes of a phase.
#[derive(Debug)]
pub enum Reading {
    /// A series has no scrape after the end of the phase yet. Try again after this many seconds (the scrape interval).
    NotYet(f64),
    /// The resources of the phase, computed from the scrapes.
    Read(Box<Readings>),
}

impl Prometheus {
    /// Reads the files that `address` names; sends no request.
    ///
    /// # Errors
    /// [`RigError::Prometheus`] if a file cannot be used.
    pub fn new(address: &PrometheusAddress, queries: Queries) -> Result<Self, RigError> {
        Ok(Self { client: Client::new(address)?, queries })
    }

    /// The base URL of the Prometheus server.
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// Checks that the Prometheus responds and has series of the gateway.
    ///
    /// # Errors
    /// [`RigError::Prometheus`] if it does not respond, or the selector matches no series; the error then lists the
    /// existing series.
    pub fn probe(&self) -> Result<Known, RigError> {
        let series = self.current(&self.queries.cpu)?.len();
        if series == 0 {
            return Err(self.nothing_matches()?);
        }
        let cpu = self.scraped(&self.queries.cpu, LOOKBACK_S)?;
        let (quotas, periods) =
            (self.current(&self.queries.quota)?, self.current(&self.queries.quota_period)?);
        let memory = self.current(&self.queries.memory_limit)?;
        Ok(Known {
            series,
            interval_s: cpu.iter().find_map(Series::interval_s),
            limit_cpus: cpu_limit(&quotas, &periods, series),
            limit_memory_bytes: memory_limit(&memory, series),
        })
    }

    /// Reads the scrapes around `span`, and computes the resources. Returns [`Reading::NotYet`] if a series has no
    /// scrape after the span; with `is_last`, computes the resources from the existing scrapes.
    ///
    /// # Errors
    /// [`RigError::Prometheus`] if the Prometheus server does not respond or rejects a query.
    pub fn read(&self, span: &Span, limit_cpus: Option<f64>, is_last: bool) -> Result<Reading, RigError> {
        let readings = (0..CLOCK_READINGS).map(|_| self.read_clock()).collect::<Result<Vec<_>, _>>()?;
        let clock = WallClock::now();
        let Some(offset) = offset(&readings) else {
            let message = "the response has no server time".into();
            return Err(self.client.failed(message, "see the log of Prometheus"));
        };
        let theirs_s = |mono_ns| clock.unix_s(mono_ns) + offset.ahead_s;
        let phase = Phase { from_s: theirs_s(span.from_ns), to_s: theirs_s(span.to_ns) };
        let back_s = (unix_s() + offset.ahead_s - phase.from_s).max(0.0) + LOOKBACK_S;
        let cpu = self.scraped(&self.queries.cpu, back_s)?;
        let waits = |series: &&Series| series.reaches(phase.from_s) && !series.reaches(phase.to_s);
        if !is_last && (cpu.is_empty() || cpu.iter().any(|series| waits(&series))) {
            let interval_s = cpu.iter().find_map(Series::interval_s);
            return Ok(Reading::NotYet(interval_s.unwrap_or(LOOKBACK_S)));
        }
        let rest = |query: &Option<String>| self.scraped(query, back_s);
        let q = &self.queries;
        let scrapes = readings::Scrapes {
            cpu,
            cpu_user: rest(&q.cpu_user)?,
            cpu_system: rest(&q.cpu_system)?,
            memory: rest(&q.memory)?,
            memory_free: rest(&q.memory_free)?,
            periods: rest(&q.periods)?,
            periods_throttled: rest(&q.periods_throttled)?,
            throttled: rest(&q.throttled)?,
            open_files: rest(&q.open_files)?,
        };
        let clock_uncertain_s = offset.uncertain_s + clock.moved_s(&span.clock_before);
        let start_ns = span.from_ns;
        let readings = Readings::new(scrapes, phase, start_ns, clock_uncertain_s, limit_cpus);
        Ok(Reading::Read(Box::new(readings)))
    }

    fn read_clock(&self) -> Result<ClockReading, RigError> {
        let before_s = unix_s();
        let theirs_s = self.client.now_s()?;
        Ok(ClockReading { before_s, theirs_s, after_s: unix_s() })
    }

    /// The last value of each series that `query` selects; empty without a query.
    fn current(&self, query: &Option<String>) -> Result<Vec<Series>, RigError> {
        let Some(query) = query else { return Ok(Vec::new()) };
        Ok(own(self.client.series(query)?))
    }

    /// The series that `query` selects, with their scrapes of the last `back_s` seconds; empty without a query.
    fn scraped(&self, query: &Option<String>, back_s: f64) -> Result<Vec<Series>, RigError> {
        let Some(query) = query else { return Ok(Vec::new()) };
        Ok(own(self.client.series(&format!("{query}[{}s]", back_s.ceil()))?))
    }

    /// Builds the error for a selector that matches no series; its remedy lists the existing series.
    fn nothing_matches(&self) -> Result<RigError, RigError> {
        let query = self.queries.cpu.as_deref().unwrap_or_default();
        let metric = query.split('{').next().unwrap_or_default();
        let has = |metric: &str| self.client.series(metric);
        let there = if metric.is_empty() { Vec::new() } else { has(metric)? };
        let remedy = if there.is_empty() {
            let mut sets = Vec::new();
            for set in MetricSet::ALL.into_iter().filter(|set| set.cpu_metric() != metric) {
                if !has(set.cpu_metric())?.is_empty() {
                    sets.push(format!("`metrics: {}` ({})", set.name(), set.cpu_metric()));
                }
            }
            match sets.is_empty() {
                true => format!("check the scrape targets: this Prometheus has no series of {metric}"),
                false => {
                    let others = sets.join(" or ");
                    format!("use {others}: this Prometheus has no series of {metric}")
                }
            }
        } else {
            format!("correct the selector; {metric} has the series {}", listed(&there))
        };
        let message = format!("no series matches {query}");
        Ok(RigError::Prometheus { place: self.url().to_owned(), message, remedy, is_wrong_use: true })
    }
}

/// Keeps only the series of the pods' own containers, if there are any. cAdvisor also reports a sum per pod, and the
/// pause container. With these series, CPU time would count twice.
fn own(mut series: Vec<Series>) -> Vec<Series> {
    let container = |series: &Series| series.labels.get("container").cloned().unwrap_or_default();
    let is_own = |series: &Series| !matches!(container(series).as_str(), "" | PAUSE_CONTAINER);
    if series.iter().any(is_own) {
        series.retain(is_own);
    }
    series
}

/// Lists the label sets of `series` for an error, at most [`LISTED_MAX`].
fn listed(series: &[Series]) -> String {
    let mut sets: Vec<String> = series.iter().map(|series| labels(&series.labels)).collect();
    sets.sort();
    let more = sets.len().saturating_sub(LISTED_MAX);
    sets.truncate(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", sets.join(", "))
}

/// Formats labels as in a selector, without the metric name.
fn labels(labels: &BTreeMap<String, String>) -> String {
    let named = labels.iter().filter(|(name, _)| *name != "__name__");
    let each: Vec<String> = named.map(|(name, value)| format!("{name}={value:?}")).collect();
    format!("{{{}}}", each.join(","))
}

/// The sum of the CPU limits (quota divided by period), cores; `None` unless all `count` series have a limit.
fn cpu_limit(quotas: &[Series], periods: &[Series], count: usize) -> Option<f64> {
    let unnamed = |series: &Series| {
        let mut labels = series.labels.clone();
        labels.remove("__name__");
        labels
    };
    let value = |series: &Series| series.points.last().map(|point| point.value).filter(|value| *value > 0.0);
    let cores = |quota: &Series| {
        let period = periods.iter().find(|period| unnamed(period) == unnamed(quota))?;
        Some(value(quota)? / value(period)?)
    };
    let limits: Vec<f64> = quotas.iter().filter_map(cores).collect();
    (count > 0 && limits.len() == count).then(|| limits.iter().sum())
}

/// The sum of the memory limits, bytes. A series with the value 0 has no limit. `None` unless all `count` series have a
/// limit.
fn memory_limit(limits: &[Series], count: usize) -> Option<u64> {
    let values = limits.iter().filter_map(|limit| limit.points.last()).map(|point| point.value);
    let values: Vec<f64> = values.filter(|bytes| *bytes > 0.0).collect();
    (count > 0 && values.len() == count).then(|| values.iter().sum::<f64>() as u64)
}

#[cfg(test)]
mod tests {
    use super::phase::Point;
    use super::*;

    fn series(labels: &[(&str, &str)], value: f64) -> Series {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Series { labels, points: vec![Point { at_s: 1.0, value }] }
    }

    #[test]
    fn pod_sums_are_not_counted_in_addition_to_containers() {
        let gateway = series(&[("pod", "a"), ("container", "gateway")], 1.0);
        let proxy = series(&[("pod", "a"), ("container", "sidecar")], 2.0);
        let pause = series(&[("pod", "a"), ("container", "POD")], 3.0);
        let pod = series(&[("pod", "a")], 6.0);
        assert_eq!(own(vec![pod.clone(), gateway.clone(), pause, proxy.clone()]), [gateway, proxy]);
        let docker = series(&[("name", "gateway")], 1.0);
        assert_eq!(own(vec![docker.clone()]), [docker], "without container labels, every series counts");
        assert_eq!(own(vec![pod.clone()]), [pod]);
    }

    #[test]
    fn limits_are_known_if_every_series_has_one() {
        let quota = |pod, value| series(&[("__name__", "quota"), ("pod", pod)], value);
        let period = |pod| series(&[("__name__", "period"), ("pod", pod)], 100_000.0);
        let (quotas, periods) = ([quota("a", 50_000.0), quota("b", 200_000.0)], [period("b"), period("a")]);
        assert_eq!(cpu_limit(&quotas, &periods, 2), Some(2.5));
        assert_eq!(cpu_limit(&quotas, &periods, 3), None, "one has no quota");
        assert_eq!(cpu_limit(&quotas, &periods[..1], 2), None);
        assert_eq!(cpu_limit(&[quota("a", -1.0)], &periods, 1), None);
        assert_eq!(cpu_limit(&[], &[], 0), None);
        assert_eq!(memory_limit(&[quota("a", 1024.0), quota("b", 1024.0)], 2), Some(2048));
        assert_eq!(memory_limit(&[quota("a", 1024.0), quota("b", 0.0)], 2), None);
    }

    #[test]
    fn labels_are_listed_in_selector_syntax() {
        let many: Vec<Series> = (0..10)
            .map(|n| series(&[("__name__", "x"), ("pod", &format!("p{n}")), ("zone", "b")], 0.0))
            .collect();
        let said = listed(&many);
        assert!(said.starts_with("{pod=\"p0\",zone=\"b\"}, {pod=\"p1\""), "{said}");
        assert!(said.ends_with("{pod=\"p7\",zone=\"b\"} and 2 more"), "{said}");
    }
}
