//! Two datasets, cell by cell: ratios with intervals, and whether one is better, worse, the same, or undecided (`docs/method.md#comparison`).
//!
//! `docs/compare.md` says how each figure is made and where it comes from.

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

/// Confidence of all intervals of a comparison together.
pub const CONFIDENCE_TOGETHER: f64 = 0.99;
/// Valid repeats of each side that *better* and *worse* need (`docs/method.md#repeats`).
pub const CLAIM_REPEATS: usize = 6;
/// Blocks up to which it is forecast how many decide a verdict: beyond, a quieter host is the better answer.
pub(crate) const BLOCKS_FORECAST: usize = 100;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Question {
    /// Measures that get a verdict.
    pub measures: Vec<Measure>,
    /// Margins other than those of the scenario and the method.
    pub margins: Margins,
    /// Only this load.
    pub load: Option<String>,
    /// Measures that have to be there: those that were asked for by name.
    pub must_have: Vec<Measure>,
    /// Compare although the conditions differ.
    pub force: bool,
    /// Loads at which the rig's own work is known to differ, so that it says nothing of the speed of the host.
    pub other_rig_at: Option<ArrivalModel>,
    /// Whether more looks may follow this one, so that intervals have to hold at all of them.
    pub is_sequential: bool,
}

/// Metrics that a comparison of two gateways judges in two loads: throughput, CPU twice, p50 and p99.
const JUDGED: f64 = 5.0;

/// The smallest difference, as share, that a comparison of two gateways calls different in four cases of five: over so many
/// blocks, of a value whose logarithm has this standard deviation from repeat to repeat.
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

/// Two datasets compared. A is the one to compare with, B the one that is better or worse than it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// A.
    pub a: Side,
    /// B.
    pub b: Side,
    /// Whether repeats were compared block by block of one run, or as independent samples.
    pub is_paired: bool,
    /// Confidence of all intervals with a verdict together.
    pub confidence: f64,
    /// How many figures got a verdict by an interval: the family over which Holm's correction goes. Figures with repeats
    /// beyond what was measured are a family of their own.
    pub family: usize,
    /// Conditions that differ and were compared all the same, because that was forced.
    pub forced: Vec<Difference>,
    /// What differs of the gateways: what the comparison is about.
    pub gateways: Vec<Difference>,
    /// What differs of the hosts and of the rig's own programs.
    pub environment: Vec<Difference>,
    /// What has to be known before any figure is read: that requests of a side failed.
    pub warnings: Vec<String>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
    /// Gateways at load points where B failed and A did not, in words; no verdict says so, as none of B's figures counts.
    pub failed: Vec<String>,
    /// Values of findings that A has and no repeat of B reaches, in words: a gateway that never recovers.
    pub not_reached: Vec<String>,
    /// Gateways at load points that only one side has, in words.
    pub unmatched: Vec<String>,
    /// What both have.
    pub points: Vec<PointComparison>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// What it is called.
    pub label: String,
    /// Where it comes from, in words.
    pub source: String,
    /// The id of its run; `None` for foreign data, of unknown provenance.
    pub run: Option<String>,
}

/// A gateway at a load point, in both datasets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointComparison {
    /// The gateway's names in A and in B.
    pub gateways: [String; 2],
    /// Values of the axes.
    pub axes: Axes,
    /// The load.
    pub load: String,
    /// Its figures.
    pub figures: Vec<FigureComparison>,
    /// Latency by quantile in A and in B.
    pub curves: [Vec<CurvePoint>; 2],
}

/// Why two datasets cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// Both are the same.
    #[error("A and B are the same: {0}")]
    Same(String),
    /// They were measured under different conditions.
    #[error("A and B were measured under different conditions:\n{}", listed(.0))]
    Conditions(Vec<Difference>),
    /// No gateway at a load point is in both.
    #[error("A and B have no gateway at a load point in common:\n{}", listed(.differ))]
    NothingInCommon {
        /// What keeps them apart, and what each has of it.
        differ: Vec<Difference>,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Foreign data, which does not say what it is of, and several series that it could be compared with.
    #[error("{label} has several series, and the other side does not name one of them: {names}")]
    Several {
        /// Whose they are.
        label: String,
        /// Their names.
        names: String,
    },
    /// A figure that was asked for was not measured.
    #[error("A and B have no metric `{}` in common", .measure.name())]
    NoFigure {
        /// What was asked for.
        measure: Measure,
        /// The figures that both have, by name.
        names: String,
    },
    /// No load of that name.
    #[error("neither side has a load `{load}`; the loads are {names}")]
    NoLoad {
        /// What was asked for.
        load: String,
        /// The loads that there are.
        names: String,
    },
}

impl CompareError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        let remedy = match self {
            Self::Same(_) => "name two runs, or two gateways of one: RUN:old RUN:new",
            Self::Conditions(_) => {
                "measure both under the same conditions, preferably in one run, or use --force to compare \
                them anyway"
            }
            Self::NothingInCommon { remedy, .. } => remedy,
            Self::Several { .. } => "name one: RUN:GATEWAY, and --load NAME if it has several loads",
            Self::NoFigure { names, .. } if names.is_empty() => "remove --metric",
            Self::NoFigure { names, .. } => return format!("remove --metric, or name one of {names}"),
            Self::NoLoad { .. } => "remove --load, or name one of them",
        };
        remedy.to_owned()
    }
}

/// Sees that A and B were measured under the same conditions, and are not the same.
///
/// # Errors
/// Where they were not, or are.
pub fn check(a: &Dataset, b: &Dataset) -> Result<(), CompareError> {
    match matching::conditions(a, b)? {
        differences if differences.is_empty() => Ok(()),
        differences => Err(CompareError::Conditions(differences)),
    }
}

/// Compares B with A.
///
/// # Errors
/// When they are the same, were measured under different conditions (unless that is forced), or have nothing in common.
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

/// Two series of one run, and the measures in which B gets a verdict against A.
pub(crate) struct SeriesPair {
    pub(crate) a: Series,
    pub(crate) b: Series,
    pub(crate) measures: Vec<Measure>,
}

/// Compares the series of each pair block by block, all pairs as one family.
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
    /// Whether a figure was compared at equal speed of the host.
    pub fn knows_host_speed(&self) -> bool {
        self.points.iter().flat_map(|point| &point.figures).any(|figure| figure.host_speed.is_some())
    }

    /// Whether B is worse in a figure, or failed or did not reach what A did.
    pub fn is_worse(&self) -> bool {
        self.count(Verdict::Worse) > 0 || !self.failed.is_empty() || !self.not_reached.is_empty()
    }

    /// Why B could not have been found worse in any figure, which a gate must not take for good; `None` where it could.
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

    /// How many figures got this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let figures = self.points.iter().flat_map(|point| &point.figures);
        figures.filter(|figure| figure.verdict == Some(verdict)).count()
    }

    /// What the figures imply, a sentence each: what is worse, what is better, and how much of the rest is decided.
    pub fn conclusions(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for verdict in [Verdict::Worse, Verdict::Better] {
            for point in &self.points {
                let figures = point.figures.iter().filter(|figure| figure.verdict == Some(verdict));
                sentences.extend(figures.map(|figure| {
                    let (title, a, b) = (figure.measure.title(), &self.a.label, &self.b.label);
                    let how = match &figure.beyond {
                        Some(beyond) => beyond.sentence(a),
                        None => format!("{} times that of {a}", figure.ratio_words()),
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
                "{}: the rig itself differs in {}: direct B / A {}. Smaller differences stay undecided.",
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
            said.insert(0, format!("not reached: {}", quantity::counted(n as u64, "metric")));
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
