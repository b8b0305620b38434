//! The metrics of a comparison, and their margins.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::figures::latencies::LATENCIES;
use crate::findings::{Better, Column, Compared, Unit, compared};

/// Margin of CPU time per request, as a share (`docs/method.md#comparison`).
const CPU_MARGIN: f64 = 0.05;
/// Margin of throughput, and of median and mean latency, as a share.
const MIDDLE_MARGIN: f64 = 0.10;
/// Margin of all latencies except median and mean, as a share.
const TAIL_MARGIN: f64 = 0.25;

/// A metric of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Complete responses per second; higher is better.
    Throughput,
    /// CPU time of the data plane per completed request, microseconds; lower is better.
    CpuPerRequest,
    /// A latency by its field in results (`mean`, `p50`, `p999`), nanoseconds; lower is better.
    Latency(&'static str),
    /// A column of a finding.
    Finding(OfFinding),
}

/// A compared column of a finding.
#[derive(Clone, Copy, Debug)]
pub struct OfFinding {
    column: &'static Column,
    compared: Compared,
}

impl PartialEq for OfFinding {
    fn eq(&self, other: &Self) -> bool {
        self.compared.metric == other.compared.metric
    }
}

impl Eq for OfFinding {}

impl Measure {
    /// Load metrics that get a verdict by default.
    pub const JUDGED: [Self; 4] =
        [Self::Throughput, Self::CpuPerRequest, Self::Latency("p50"), Self::Latency("p99")];

    /// All metrics. Minimum and maximum latency are left out, because they depend on the number of requests.
    pub fn all() -> impl Iterator<Item = Self> {
        let latencies = LATENCIES.into_iter().filter(|name| !matches!(*name, "min" | "max"));
        let of_loads =
            [Self::Throughput, Self::CpuPerRequest].into_iter().chain(latencies.map(Self::Latency));
        of_loads.chain(compared().filter_map(Self::of_column))
    }

    /// All metrics that get a verdict by default: [`Measure::JUDGED`] and the main columns of findings.
    pub fn judged() -> impl Iterator<Item = Self> {
        let of_findings = Self::all().filter(|measure| match measure {
            Self::Finding(of) => of.compared.by_default,
            _ => false,
        });
        Self::JUDGED.into_iter().chain(of_findings)
    }

    /// The metric of a column of a finding; `None` if it is not compared.
    pub(super) fn of_column(column: &'static Column) -> Option<Self> {
        column.compared.map(|compared| Self::Finding(OfFinding { column, compared }))
    }

    /// The metric with this name (see [`Measure::name`]) or field in results: `p99.9`, `p999`.
    pub fn named(name: &str) -> Option<Self> {
        let is_field = |measure: &Self| matches!(measure, Self::Latency(field) if *field == name);
        Self::all().find(|measure| measure.name() == name || is_field(measure))
    }

    /// The name on command lines and in files: `throughput`, `cpu`, `mean`, `p50`, `p99.9`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::CpuPerRequest => "cpu",
            Self::Latency("p999") => "p99.9",
            Self::Latency("p9999") => "p99.99",
            Self::Latency(name) => name,
            Self::Finding(of) => of.compared.metric,
        }
    }

    /// The name in tables and sentences: `CPU per request`, `p99 latency`. For a column of a finding, this is
    /// [`Measure::name`], because the column's heading is ambiguous outside the table of the finding.
    pub fn title(self) -> String {
        match self {
            Self::Throughput => "throughput".into(),
            Self::CpuPerRequest => "CPU per request".into(),
            Self::Latency(_) => format!("{} latency", self.name()),
            Self::Finding(of) => of.compared.metric.to_owned(),
        }
    }

    /// Formats a value with its unit.
    pub fn words(self, value: f64) -> String {
        self.unit().words(value)
    }

    /// The unit of the metric's values.
    pub fn unit(self) -> Unit {
        match self {
            Self::Throughput => Unit::PerSecond,
            Self::CpuPerRequest => Unit::Microseconds,
            Self::Latency(_) => Unit::Nanoseconds,
            Self::Finding(of) => of.column.unit,
        }
    }

    /// Whether the metric is a column of a finding.
    pub(super) fn is_of_finding(self) -> bool {
        matches!(self, Self::Finding(_))
    }

    /// Whether the metric is a CPU time or a count per CPU second. Both depend on the load point and on host speed.
    pub(super) fn is_cpu_time(self) -> bool {
        match self {
            Self::CpuPerRequest => true,
            Self::Throughput | Self::Latency(_) => false,
            Self::Finding(of) => of.compared.cpu_time,
        }
    }

    /// Words for a repeat beyond the measured range, for example `not recovered`.
    pub fn beyond_words(self) -> &'static str {
        match self {
            Self::Finding(of) => of.column.beyond,
            _ => "> timeout",
        }
    }

    /// What a missing value shows about the gateway, as text: `no capacity found`. `None` if it shows nothing.
    pub(super) fn absent_words(self) -> Option<&'static str> {
        match self {
            Self::Finding(of) => Some(of.column.absent).filter(|words| !words.is_empty()),
            _ => None,
        }
    }

    /// Resolution: values below it count as equal; `None` for exact values.
    pub(super) fn resolution(self) -> Option<f64> {
        match self {
            Self::Finding(of) => of.compared.resolution,
            _ => None,
        }
    }

    /// Whether higher is better.
    pub fn more_is_better(self) -> bool {
        match self {
            Self::Throughput => true,
            Self::CpuPerRequest | Self::Latency(_) => false,
            Self::Finding(of) => of.column.better == Some(Better::Higher),
        }
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Margins of metrics, as shares: differences within the margin count as no difference.
///
/// A margin of 10 % covers ratios from 1/1.1 to 1.1. It is symmetric on logarithms, so A against B and B against A get
/// opposite verdicts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Margins(BTreeMap<String, f64>);

impl Margins {
    /// The default margins, overridden by `given`, which holds margins by metric name.
    pub fn with(given: &BTreeMap<String, f64>) -> Self {
        let mut margins = Self::default();
        for (measure, share) in given.iter().filter_map(|(name, share)| Some((Measure::named(name)?, *share)))
        {
            margins.set(measure, share);
        }
        margins
    }

    /// These margins, overridden by the margins in `other`.
    pub(super) fn overridden_by(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().map(|(name, share)| (name.clone(), *share)));
        self
    }

    /// Sets the margin of one measure.
    pub fn set(&mut self, measure: Measure, share: f64) {
        self.0.insert(measure.name().to_owned(), share);
    }

    /// The margin of a measure as a share, such as 0.05 for 5 %.
    pub fn of(&self, measure: Measure) -> f64 {
        let by_default = match measure {
            Measure::CpuPerRequest => CPU_MARGIN,
            Measure::Throughput | Measure::Latency("p50" | "mean") => MIDDLE_MARGIN,
            Measure::Latency(_) => TAIL_MARGIN,
            Measure::Finding(of) => of.compared.margin,
        };
        self.0.get(measure.name()).copied().unwrap_or(by_default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_found_by_their_names() {
        for measure in Measure::all() {
            assert_eq!(Measure::named(measure.name()), Some(measure));
        }
        for name in ["p99.9", "p999"] {
            assert_eq!(Measure::named(name), Some(Measure::Latency("p999")));
        }
        assert_eq!(Measure::named("cpu"), Some(Measure::CpuPerRequest));
        assert_eq!(Measure::named("max"), None);
    }

    #[test]
    fn margins_are_the_defaults_unless_overridden() {
        let mut margins =
            Margins::with(&BTreeMap::from([("p99.9".to_owned(), 0.5), ("p9999".to_owned(), 0.6)]));
        let shares = ["cpu", "throughput", "p50", "p99", "p99.9"]
            .map(|name| margins.of(Measure::named(name).unwrap()));
        assert_eq!(shares, [0.05, 0.1, 0.1, 0.25, 0.5]);
        assert_eq!(margins.of(Measure::Latency("p9999")), 0.6, "margins also accept field names");
        margins.set(Measure::CpuPerRequest, 0.02);
        assert_eq!(margins.of(Measure::CpuPerRequest), 0.02);
    }
}
