//! Compares two datasets cell by cell: ratios with intervals, and a verdict better, worse, the same, or undecided
//! (`docs/method.md#comparison`).
//!
//! `docs/compare.md` describes how each value is computed, with sources.

mod apart;
mod beyond;
mod bounded;
mod dataset;
mod difference;
mod effect;
mod figures;
mod holm;
mod host_speed;
mod matching;
mod measure;
mod verdict;

use serde::Serialize;
use weir_results::{ArrivalModel, Run};

pub use beyond::{Beyond, Counted};
pub use dataset::{Dataset, LoadPoint, RunSource, Series, Source, label_apart};
pub use difference::Difference;
pub use figures::{Bias, FigureComparison, RATIO_MAX, interval_words, ratio_words, smallest_effect_words};
pub use host_speed::HostSpeed;
pub use measure::{Margins, Measure};
pub use verdict::Verdict;

use crate::figures::curve::CurvePoint;
use crate::figures::looks::Looks;
use crate::figures::quantity;
use crate::points::axes::{Axes, axes_words};
use figures::Pair;

/// Joint confidence of all intervals of a comparison.
pub const CONFIDENCE_TOGETHER: f64 = 0.99;
/// Minimum number of valid repeats in A and in B for *better* and *worse* (`docs/method.md#repeats`).
pub const CLAIM_REPEATS: usize = 6;
/// Maximum number of blocks in a forecast. If more are needed, a quieter host helps more than further blocks.
pub(crate) const BLOCKS_FORECAST: usize = 100;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Question {
    /// Measures that get a verdict.
    pub measures: Vec<Measure>,
    /// Margins that override the margins of the scenario and the default margins.
    pub margins: Margins,
    /// Name of the only load to compare; `None` compares all.
    pub load: Option<String>,
    /// Metrics that the user requested by name; the comparison fails if one was not measured.
    pub must_have: Vec<Measure>,
    /// Whether to compare even if the conditions differ.
    pub force: bool,
    /// Arrival model of the loads for which the rig does different work in A and B. For these loads, the rig's CPU time
    /// does not show the speed of the host. `None` if the rig does the same work in all loads.
    pub other_rig_at: Option<ArrivalModel>,
    /// Whether repeats may be added, with a new evaluation after each addition. Intervals must then hold at every
    /// evaluation.
    pub is_sequential: bool,
}

/// Number of verdicts in a typical comparison: throughput and CPU time in a closed load; CPU time, p50 and p99 in an
/// open load.
const JUDGED: f64 = 5.0;

/// Minimum difference between two gateways that a comparison detects with 80 % power, as a share. `standard_deviation`
/// is the standard deviation of the value's logarithm between repeats.
pub fn smallest_difference(standard_deviation: f64, blocks: usize) -> f64 {
    let n = blocks.max(2) as f64;
    let standard_error = standard_deviation * (2.0 / n).sqrt();
    let effect =
        effect::Effect { log_ratio: 0.0, standard_error, degrees_of_freedom: n - 1.0, looks: Looks::Once };
    effect.smallest(0.0, (1.0 - CONFIDENCE_TOGETHER) / JUDGED)
}

impl Default for Question {
    fn default() -> Self {
        Self {
            measures: Measure::judged().collect(),
            margins: Margins::default(),
            load: None,
            must_have: Vec::new(),
            force: false,
            other_rig_at: None,
            is_sequential: false,
        }
    }
}

/// A comparison of two datasets. A is the baseline; verdicts are about B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Dataset A, the baseline.
    pub a: Side,
    /// Dataset B, which gets the verdicts.
    pub b: Side,
    /// Whether repeats were paired by block within one run. If not, they were compared as independent samples.
    pub is_paired: bool,
    /// Joint confidence of all intervals with a verdict.
    pub confidence: f64,
    /// Number of metrics in the main family of Holm's correction. A metric belongs to it if its verdict depends on an
    /// interval. Metrics with a repeat beyond the measured range form a second family, which is not counted here.
    pub family: usize,
    /// Conditions that differ, if the comparison was forced.
    pub forced: Vec<Difference>,
    /// Differences between the compared gateways. The comparison measures their effect.
    pub gateways: Vec<Difference>,
    /// Differences between the hosts and between the rig's own programs.
    pub environment: Vec<Difference>,
    /// Warnings about the data, such as failed requests in A or B.
    pub warnings: Vec<String>,
    /// Notes about the comparison.
    pub notes: Vec<String>,
    /// Load points where B failed and A did not, in words. These points have no verdict, because B has no valid value.
    pub failed: Vec<String>,
    /// Metrics of findings for which A has a value and B has none, in words: for example, because a gateway in B never
    /// recovers.
    pub not_reached: Vec<String>,
    /// Load points that only A or only B has, in words.
    pub unmatched: Vec<String>,
    /// Load points that A and B have in common, with their metrics.
    pub points: Vec<PointComparison>,
}

/// One dataset of a comparison, A or B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Name of the dataset.
    pub label: String,
    /// Where the data comes from, in words.
    pub source: String,
    /// The run's id; `None` for data that weir did not measure.
    pub run: Option<String>,
}

/// A gateway at a load point, in both datasets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointComparison {
    /// The gateway's names in A and in B.
    pub gateways: [String; 2],
    /// Values of the axes.
    pub axes: Axes,
    /// Name of the load.
    pub load: String,
    /// The compared metrics, each with its values and verdict.
    pub figures: Vec<FigureComparison>,
    /// Latency by quantile in A and in B.
    pub curves: [Vec<CurvePoint>; 2],
}

/// Why two datasets cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// A and B are the same dataset.
    #[error("A and B are the same: {0}")]
    Same(String),
    /// A and B were measured under different conditions.
    #[error("A and B were measured under different conditions:\n{}", listed(.0))]
    Conditions(Vec<Difference>),
    /// A and B have no load point in common.
    #[error("A and B have no load point in common:\n{}", listed(.differ))]
    NothingInCommon {
        /// What differs, with the values in A and in B.
        differ: Vec<Difference>,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A dataset has several series, and it is unclear which one to compare.
    #[error("{label} has several gateways or loads, so it is unclear which one to compare: {names}")]
    Several {
        /// Name of the dataset with several series.
        label: String,
        /// The series to choose from, as text.
        names: String,
    },
    /// A requested metric was not measured.
    #[error("A and B have no metric `{}` in common", .measure.name())]
    NoFigure {
        /// The metric that the user requested.
        measure: Measure,
        /// Names of the metrics that both datasets have.
        names: String,
    },
    /// No load has the requested name.
    #[error("neither A nor B has a load `{load}`; the loads are {names}")]
    NoLoad {
        /// The load that the user requested.
        load: String,
        /// Names of the existing loads.
        names: String,
    },
}

impl CompareError {
    /// What the user can do about the error.
    pub fn remedy(&self) -> String {
        let remedy = match self {
            Self::Same(_) => "name two runs, or two gateways of one run: RUN:old RUN:new",
            Self::Conditions(_) => {
                "measure both under the same conditions, preferably in one run, or use --force to compare \
                them anyway"
            }
            Self::NothingInCommon { remedy, .. } => remedy,
            Self::Several { .. } => "name the gateway as RUN:GATEWAY, and the load with --load NAME",
            Self::NoFigure { names, .. } if names.is_empty() => "remove --metric",
            Self::NoFigure { names, .. } => return format!("remove --metric, or name one of {names}"),
            Self::NoLoad { .. } => "remove --load, or give the name of an existing load",
        };
        remedy.to_owned()
    }
}

/// Checks that A and B are different datasets that were measured under the same conditions.
///
/// # Errors
/// If conditions differ, or if A and B are the same dataset.
pub fn check(a: &Dataset, b: &Dataset) -> Result<(), CompareError> {
    match matching::conditions(a, b)? {
        differences if differences.is_empty() => Ok(()),
        differences => Err(CompareError::Conditions(differences)),
    }
}

/// Compares B with A.
///
/// # Errors
/// If A and B are the same dataset, were measured under different conditions (unless forced), or have no load point in
/// common. Also if it is unclear which series of a dataset to compare, or if a requested load or metric does not exist.
pub fn compare(a: &Dataset, b: &Dataset, question: &Question) -> Result<Comparison, CompareError> {
    let conditions = matching::conditions(a, b)?;
    if !conditions.is_empty() && !question.force {
        return Err(CompareError::Conditions(conditions));
    }
    let matched = matching::matched(a, b, question.load.as_deref())?;
    let is_paired = matching::is_one_run(a, b);
    let margins = matching::margins(a, &question.margins);
    let drafts = matched.pairs.iter().map(|&(of_a, of_b)| {
        let direct = || Some(Pair { a: a.direct(of_a)?, b: b.direct(of_b)? });
        let direct = if is_paired { None } else { direct() };
        figures::drafts(Pair { a: of_a, b: of_b }, direct, question, &margins, is_paired)
    });
    let drafts: Vec<_> = drafts.collect();
    let family = drafts.iter().flatten().filter(|draft| draft.is_judged && draft.beyond.is_none()).count();
    let figures = figures::finished(drafts, 1.0 - CONFIDENCE_TOGETHER);
    let points = matched.pairs.iter().zip(figures).map(|((of_a, of_b), figures)| PointComparison {
        gateways: [of_a.gateway.clone(), of_b.gateway.clone()],
        axes: of_b.axes.clone(),
        load: of_b.load.clone(),
        figures,
        curves: [of_a.curve.clone(), of_b.curve.clone()],
    });
    let points: Vec<PointComparison> = points.collect();
    let has =
        |measure: &Measure| points.iter().flat_map(|point| &point.figures).any(|of| of.measure == *measure);
    if let Some(missing) = question.must_have.iter().find(|measure| !has(measure)) {
        let names: Vec<&str> = Measure::all().filter(has).map(Measure::name).collect();
        return Err(CompareError::NoFigure { measure: *missing, names: names.join(", ") });
    }
    let not_reached = matched.not_reached(a, b, |place, measure| {
        let found = points[place].figures.iter().find(|of| of.measure == measure);
        found.is_some_and(|of| of.verdict.is_some_and(|verdict| verdict != Verdict::Worse))
    });
    Ok(Comparison {
        a: matching::side(a),
        b: matching::side(b),
        is_paired,
        confidence: CONFIDENCE_TOGETHER,
        family,
        gateways: matching::gateways(a, b, &matched.pairs),
        environment: matching::environment(a, b),
        warnings: matching::warnings(a, b),
        notes: matching::notes(a, b, !conditions.is_empty()),
        forced: conditions,
        failed: matched.failed(a, b),
        not_reached,
        unmatched: matched.unmatched(a, b),
        points,
    })
}

/// Two series of one run, and the measures that get a verdict.
pub(crate) struct SeriesPair {
    pub(crate) a: Series,
    pub(crate) b: Series,
    pub(crate) measures: Vec<Measure>,
}

/// Compares the series of each pair block by block. All pairs form one family of Holm's correction.
pub(crate) fn compare_series(run: &Run, pairs: &[SeriesPair]) -> Vec<Vec<FigureComparison>> {
    let margins = Margins::with(&run.thresholds.margins);
    let drafts = pairs.iter().map(|SeriesPair { a, b, measures }| {
        let is_sequential = run.manifest.repeats_were_added;
        let question = Question { measures: measures.clone(), is_sequential, ..Question::default() };
        figures::drafts(Pair { a, b }, None, &question, &margins, true)
    });
    figures::finished(drafts.collect(), 1.0 - CONFIDENCE_TOGETHER)
}

impl Comparison {
    /// Whether at least one metric was corrected for the speed of the host.
    pub fn knows_host_speed(&self) -> bool {
        self.points.iter().flat_map(|point| &point.figures).any(|figure| figure.host_speed.is_some())
    }

    /// Whether B is worse in a metric, failed at a load point, or did not reach a value that A reached.
    pub fn is_worse(&self) -> bool {
        self.count(Verdict::Worse) > 0 || !self.failed.is_empty() || !self.not_reached.is_empty()
    }

    /// Returns why no metric is decidable; a gate must then not pass. `None` if at least one metric is decidable.
    pub fn nothing_decidable(&self) -> Option<String> {
        let figures = || self.points.iter().flat_map(|point| &point.figures);
        if figures().any(|figure| figure.is_decidable) {
            return None;
        }
        let mut whys: Vec<&str> = Vec::new();
        for why in figures().map(|figure| figure.why.as_str()).filter(|why| !why.is_empty()) {
            if !whys.contains(&why) {
                whys.push(why);
            }
        }
        Some(match whys.as_slice() {
            [] => "no metric gets a verdict".to_owned(),
            [why] => (*why).to_owned(),
            [why, _] => format!("{why} (and 1 other reason)"),
            [why, rest @ ..] => format!("{why} (and {} other reasons)", rest.len()),
        })
    }

    /// Number of metrics with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let figures = self.points.iter().flat_map(|point| &point.figures);
        figures.filter(|figure| figure.verdict == Some(verdict)).count()
    }

    /// Conclusions, one sentence each: which metrics are worse or better, and in which metrics the direct baselines
    /// differ.
    pub fn conclusions(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for verdict in [Verdict::Worse, Verdict::Better] {
            for point in &self.points {
                let figures = point.figures.iter().filter(|figure| figure.verdict == Some(verdict));
                sentences.extend(figures.map(|figure| {
                    let (title, a, b) = (figure.measure.title(), &self.a.label, &self.b.label);
                    let how = match &figure.beyond {
                        Some(beyond) => beyond.sentence(a),
                        None => format!("{} times the value of {a}", figure.ratio_words()),
                    };
                    format!("{}: {title} of {b} is {}: {how}.", point.words(), verdict.word())
                }));
            }
        }
        let biased =
            self.points.iter().flat_map(|point| point.figures.iter().map(move |figure| (point, figure)));
        sentences.extend(biased.filter_map(|(point, figure)| {
            let bias = figure.bias.filter(|bias| figure.verdict.is_some() && bias.excludes_one())?;
            Some(format!(
                "{}: the direct baselines differ in {}: B / A is {}. For gateways, smaller differences stay \
                 undecided.",
                point.words(),
                figure.measure.title(),
                bias.words()
            ))
        }));
        sentences
    }

    /// The verdicts in one line: `1 worse, 5 the same, 2 undecided`.
    pub fn headline(&self) -> String {
        let counted = [Verdict::Worse, Verdict::Better, Verdict::Same, Verdict::Undecided]
            .map(|verdict| (verdict, self.count(verdict)));
        let mut said: Vec<String> = counted
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(verdict, n)| format!("{n} {}", verdict.word()))
            .collect();
        if !self.not_reached.is_empty() {
            let n = self.not_reached.len();
            said.insert(0, format!("no value in {}", quantity::counted(n as u64, "metric")));
        }
        if !self.failed.is_empty() {
            let n = self.failed.len();
            said.insert(0, format!("failed at {}", quantity::counted(n as u64, "load point")));
        }
        match said.as_slice() {
            [] => "Nothing could be compared".into(),
            said => format!("{} against {}: {}", self.b.label, self.a.label, said.join(", ")),
        }
    }
}

impl PointComparison {
    /// Gateways, load and axes in words: `nginx, tail, limits.data.cpus = 0.5`.
    pub fn words(&self) -> String {
        let [a, b] = &self.gateways;
        let gateway = if a == b { a.clone() } else { format!("{b} against {a}") };
        let named: Vec<String> = [gateway, self.load.clone(), axes_words(&self.axes)]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        if named.is_empty() { "all".into() } else { named.join(", ") }
    }
}

fn listed(differences: &[Difference]) -> String {
    differences.iter().map(|difference| format!("  {}", difference.words())).collect::<Vec<_>>().join("\n")
}
