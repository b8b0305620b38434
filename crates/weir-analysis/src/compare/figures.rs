//! Compares one metric of two datasets: ratio, interval and verdict.

use serde::Serialize;

use super::CLAIM_REPEATS;
use super::Question;
use super::beyond::{Allowed, Beyond, Tested};
use super::bounded;
use super::dataset::{LoadPoint, Series};
use super::effect::{Effect, Reading, is_alike};
use super::holm;
use super::host_speed::{HostSpeed, corrected};
use super::measure::{Margins, Measure};
use super::verdict::{Place, Verdict, place};
use crate::figures::figure::{Figure, Range, Repeated};
use crate::figures::interval::CONFIDENCE;
use crate::figures::looks::Looks;
use crate::figures::quantity::{self, number, percent_short};
use crate::points::conclusions::bounds_words;

/// Maximum ratio that is printed as a number. Larger ratios are printed as `> 1,000`, and ratios below its inverse as
/// `< 0.001`.
pub const RATIO_MAX: f64 = 1_000.0;
/// Maximum share that is printed for a minimum detectable effect. Larger effects are printed as `> 1,000 %`.
const SMALLEST_EFFECT_MAX: f64 = 10.0;

/// A metric in A and in B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureComparison {
    /// The compared metric.
    pub measure: Measure,
    /// The metric's values in A.
    pub a: Figure,
    /// The metric's values in B.
    pub b: Figure,
    /// The ratio B / A of the geometric means of valid repeats; `None` if A or B has no valid repeat. CPU time per
    /// request is corrected for the speed of the host if [`FigureComparison::host_speed`] is present.
    pub ratio: Option<f64>,
    /// The interval of the ratio; `None` if A or B has fewer than two valid or bounded repeats, or if there is no
    /// verdict.
    pub interval: Option<[f64; 2]>,
    /// Confidence of this single interval, after Holm's correction.
    pub confidence: Option<f64>,
    /// Margin within which A and B count as the same, as a share.
    pub margin: f64,
    /// The verdict; `None` if this metric gets no verdict in this load, or if none was requested.
    pub verdict: Option<Verdict>,
    /// Why the verdict is undecided; empty otherwise.
    pub why: String,
    /// True if the verdict is decided, or if *better* or *worse* is possible with this number of repeats.
    pub is_decidable: bool,
    /// Minimum detectable difference, as a share, with the same repeats and noise and 80 % power.
    pub smallest_effect: Option<f64>,
    /// Difference between the direct baselines of two runs, which should be equal; `None` within one run.
    pub bias: Option<Bias>,
    /// Correction for the speed of the host; only for CPU time of a load.
    pub host_speed: Option<HostSpeed>,
    /// Counts and test of repeats beyond the measured range; `None` if there are none. If set, `ratio` is `None`, and
    /// the counts and ranks of the repeats decide the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
    /// The effect from which `interval` is computed.
    #[serde(skip)]
    effect: Option<Reading>,
}

/// The ratio B / A of the direct baselines, in the same metric. It shows the influence of rig, host and time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bias {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// 95 % interval of the ratio. It is not corrected for multiple comparisons, because a missed bias is worse than a
    /// false alarm.
    pub interval: [f64; 2],
}

impl Bias {
    /// Whether the direct baselines differ significantly.
    pub fn excludes_one(&self) -> bool {
        let [low, high] = self.interval;
        low > 1.0 || high < 1.0
    }

    /// The ratio with its interval: `1.04 (1.02 .. 1.06)`.
    pub fn words(&self) -> String {
        ratio_with_interval(self.ratio, Some(self.interval))
    }
}

impl FigureComparison {
    /// The ratio with its interval: `1.10 (1.07 .. 1.13)`. If only the interval is known, its bounds: `0.182–6.633`.
    pub fn ratio_words(&self) -> String {
        match (self.ratio, self.interval) {
            (Some(ratio), interval) => ratio_with_interval(ratio, interval),
            (None, Some(interval)) => ratio_bounds_words(interval),
            (None, None) => "n/a".into(),
        }
    }

    /// Number of blocks that would decide the verdict with 80 % power, if ratio and noise stay the same. `None` without
    /// an interval, or if more than [`super::BLOCKS_FORECAST`] are needed.
    pub(crate) fn blocks_to_decide(&self) -> Option<usize> {
        self.effect?.blocks_to_decide(self.margin.ln_1p(), 1.0 - self.confidence?)
    }

    /// The verdict in words: `worse`, `same within 5 %`. Empty without a verdict.
    pub fn verdict_words(&self) -> String {
        match self.verdict {
            Some(Verdict::Same) => format!("same within {}", percent_short(self.margin)),
            Some(verdict) => verdict.word().into(),
            None => String::new(),
        }
    }
}

/// A compared metric that has no verdict yet. The verdict needs the error level of the metric's interval. This level
/// depends on all drafts, so it is known only when all of them exist.
pub(super) struct Draft {
    measure: Measure,
    a: Figure,
    b: Figure,
    ratio: Option<f64>,
    effect: Option<Reading>,
    margin: f64,
    bias: Option<Bias>,
    host_speed: Option<HostSpeed>,
    /// Why no verdict is possible, whatever the error level of the interval; `None` if a verdict is possible.
    barred: Option<String>,
    /// Why *better* and *worse* are not possible; `None` if they are.
    unclaimed: Option<String>,
    /// Whether all values of A and B are below the resolution of the measurement.
    is_unresolved: bool,
    /// Whether the effect was computed from bounds, because too few repeats are valid.
    is_bounded: bool,
    /// Uncertainty of the ratio's logarithm that comes from the resolution of the measurement; zero for exact values.
    log_step: f64,
    /// Repeats beyond the measured range, if any.
    pub(super) beyond: Option<Tested>,
    pub(super) is_judged: bool,
}

/// The same kind of value in A and in B.
pub(super) struct Pair<'a, T> {
    pub(super) a: &'a T,
    pub(super) b: &'a T,
}

/// Compares all metrics of two series, without verdicts yet. If A and B come from two runs, `direct` holds their direct
/// baselines.
pub(super) fn drafts(
    Pair { a, b }: Pair<'_, Series>,
    direct: Option<Pair<'_, Series>>,
    question: &Question,
    margins: &Margins,
    is_paired: bool,
) -> Vec<Draft> {
    let is_judged = |measure: Measure| {
        let is_for = |series: &Series| !series.not_for.contains(&measure);
        // Throughput gets a verdict if A or B was overloaded.
        let is_for =
            if measure == Measure::Throughput { is_for(a) || is_for(b) } else { is_for(a) && is_for(b) };
        question.measures.contains(&measure) && is_for
    };
    let draft = |measure: Measure| {
        let (of_a, of_b) = (a.figure(measure)?, b.figure(measure)?);
        let is_measured = of_a.repeats.iter().chain(&of_b.repeats).any(|repeated| repeated.value().is_some());
        let bias = direct.as_ref().and_then(|Pair { a, b }| bias(a.figure(measure)?, b.figure(measure)?));
        is_measured.then(|| {
            let mut draft =
                Draft::new(measure, Pair { a: of_a, b: of_b }, margins.of(measure), bias, is_paired);
            draft.is_judged = is_judged(measure);
            if question.is_sequential {
                draft.effect = draft.effect.map(|effect| effect.with(Looks::Any));
            }
            if measure.is_cpu_time() {
                let model = a.load_point.map(|point| point.model);
                let is_same_rig = question.other_rig_at.is_none() || question.other_rig_at != model;
                if is_paired && is_same_rig {
                    draft.correct_host_speed(&a.rig_cpu, &b.rig_cpu);
                }
                draft.barred = draft.barred.or_else(|| other_load_point(a.load_point, b.load_point));
            }
            draft
        })
    };
    Measure::all().filter_map(draft).collect()
}

/// Computes the verdict of each draft. The error level of a draft's interval comes from `levels`, which applies Holm's
/// correction for the joint error `alpha`.
pub(super) fn finished(drafts: Vec<Vec<Draft>>, alpha: f64) -> Vec<Vec<FigureComparison>> {
    let levels = levels(&drafts.iter().flatten().collect::<Vec<_>>(), alpha);
    let mut levels = levels.into_iter();
    let mut finish = |of: Vec<Draft>| -> Vec<FigureComparison> {
        of.into_iter().map(|draft| draft.finished(levels.next().flatten())).collect()
    };
    drafts.into_iter().map(&mut finish).collect()
}

/// Returns the two-sided error level of each draft; `None` if the draft gets no verdict. Drafts with an interval form
/// one family. Drafts with repeats beyond the measured range (such as `> timeout`) form a second one. Each family has
/// the joint error `alpha`. The second family uses exact tests. With few repeats, these tests cannot reach the low
/// p-values that one large family would require.
fn levels(drafts: &[&Draft], alpha: f64) -> Vec<Option<f64>> {
    let mut levels = vec![None; drafts.len()];
    for is_beyond in [false, true] {
        let is_meant = |draft: &&Draft| draft.is_judged && draft.beyond.is_some() == is_beyond;
        let family: Vec<usize> = (0..drafts.len()).filter(|place| is_meant(&drafts[*place])).collect();
        let p_values: Vec<f64> = family.iter().map(|place| drafts[*place].p_value()).collect();
        for (place, level) in family.into_iter().zip(holm::levels(&p_values, alpha)) {
            levels[place] = Some(level);
        }
    }
    levels
}

impl Draft {
    fn new(
        measure: Measure,
        Pair { a, b }: Pair<'_, Figure>,
        margin: f64,
        bias: Option<Bias>,
        is_paired: bool,
    ) -> Self {
        let resolution = measure.resolution();
        let raise = |value: f64| resolution.map_or(value, |resolution| value.max(resolution));
        let raised = |figure: &Figure| -> Vec<(u32, f64)> {
            valid(figure).into_iter().map(|(repeat, value)| (repeat, raise(value))).collect()
        };
        let allowed = Allowed { factor: 1.0 + margin, step: resolution.unwrap_or(0.0) };
        let beyond = Tested::of(measure.beyond_words(), [a, b], resolution, allowed);
        let (of_a, of_b) = (raised(a), raised(b));
        let pairs: Vec<(f64, f64)> = of_b
            .iter()
            .filter_map(|(repeat, b)| Some((of_a.iter().find(|(other, _)| other == repeat)?.1, *b)))
            .collect();
        let values = |of: &[(u32, f64)]| of.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
        let (values_a, values_b): (Vec<f64>, Vec<f64>) = match is_paired {
            true => pairs.iter().copied().unzip(),
            false => (values(&of_a), values(&of_b)),
        };
        let effect = match is_paired {
            true => Effect::paired(&pairs),
            false => Effect::unpaired(&values_a, &values_b),
        };
        let effect = effect.map(Reading::from).filter(|_| beyond.is_none());
        let is_unresolved = beyond.is_none()
            && resolution
                .is_some_and(|resolution| values_a.iter().chain(&values_b).all(|value| *value <= resolution));
        let [valid_a, valid_b] = match &beyond {
            Some(beyond) => [beyond.counts.a.of, beyond.counts.b.of],
            None => [values_a.len(), values_b.len()],
        };
        let is_enough = valid_a.min(valid_b) >= CLAIM_REPEATS || beyond.is_some();
        let bounded = if is_enough || is_unresolved { None } else { bounded::between(a, b, is_paired) };
        let bounded = bounded.filter(|of| of.counts[0].min(of.counts[1]) > valid_a.min(valid_b));
        let is_bounded = bounded.is_some();
        let (effect, [valid_a, valid_b]) = match bounded {
            Some(of) => (Some(of.effect), of.counts),
            None => (effect, [valid_a, valid_b]),
        };
        let effect = effect.map(|effect| effect.with(a.looks().max(b.looks())));
        let counts = match is_paired && beyond.is_none() {
            true if is_bounded => {
                format!(
                    "A and B both have valid or bounded values in {}",
                    quantity::counted(valid_a as u64, "block")
                )
            }
            true => format!("A and B are both valid in {}", quantity::counted(pairs.len() as u64, "block")),
            false => format!("A has {valid_a}, B has {valid_b}"),
        };
        let barred = if beyond.is_some() || is_bounded {
            None
        } else if values_a.len() < 2 || values_b.len() < 2 {
            Some(format!(
                "no interval, because an interval needs two valid repeats of A and of B: {counts}{}",
                invalid(a, b)
            ))
        } else if is_unresolved {
            None
        } else if effect.is_none() {
            Some("a repeat has a value of zero or less, so there is no ratio".into())
        } else {
            alike(&values_a, &values_b, effect.map(|reading| reading.first))
        };
        let fewest = valid_a.min(valid_b);
        let unclaimed = (fewest < CLAIM_REPEATS).then(|| {
            let kind = if is_bounded { "valid or bounded" } else { "valid" };
            format!(
                "a verdict of better or worse needs {CLAIM_REPEATS} {kind} repeats of A and of B: {counts}{}",
                invalid(a, b)
            )
        });
        let means = geometric_mean(&values_a).zip(geometric_mean(&values_b)).filter(|_| beyond.is_none());
        let ratio = means.map(|(a, b)| b / a);
        let log_step = means.zip(resolution).map_or(0.0, |((a, b), step)| log_step(a.max(b), step));
        Self {
            measure,
            a: a.clone(),
            b: b.clone(),
            ratio: ratio.filter(|ratio| ratio.is_finite()),
            effect,
            margin,
            bias,
            host_speed: None,
            barred,
            unclaimed,
            is_unresolved,
            is_bounded,
            log_step,
            beyond,
            is_judged: false,
        }
    }

    /// Corrects the ratio for the speed of the host. If the rig's CPU time differs significantly between A and B, the
    /// rig may have done different work. The uncorrected effect is then kept as a second reading, and claims must hold
    /// for both readings.
    fn correct_host_speed(&mut self, rig_a: &Figure, rig_b: &Figure) {
        if self.is_bounded {
            return;
        }
        let ratios = self.b.paired(&self.a, |b, a| b / a);
        let found = self.effect.zip(corrected(&counted(&ratios), rig_a, rig_b));
        let Some((measured, found)) = found.filter(|(_, found)| found.effect.has_spread()) else { return };
        let second = found.speed.rig_differs().then_some(measured.first);
        self.ratio = Some(found.effect.log_ratio.exp());
        let looks = measured.first.looks;
        self.effect = Some(Reading { first: found.effect, second, unknown: [false; 2] }.with(looks));
        self.host_speed = Some(found.speed);
    }

    /// The p-value for Holm's correction; 1 if no claim is possible, so that this metric is tested last and costs the
    /// other metrics no statistical power.
    fn p_value(&self) -> f64 {
        let may_claim = self.barred.is_none()
            && !self.is_unresolved
            && self.unclaimed.is_none()
            && !self.is_within_bias();
        if let Some(beyond) = &self.beyond {
            return if may_claim { beyond.counts.p_value } else { 1.0 };
        }
        let effect = self.effect.filter(|_| may_claim);
        effect.map_or(1.0, |effect| effect.p_value_beyond(self.log_margin() + self.log_step))
    }

    fn log_margin(&self) -> f64 {
        self.margin.ln_1p()
    }

    /// The absolute logarithm of the bias if the bias is significant, else zero.
    fn log_bias(&self) -> f64 {
        self.bias.filter(Bias::excludes_one).map_or(0.0, |bias| bias.ratio.ln().abs())
    }

    fn is_within_bias(&self) -> bool {
        match &self.beyond {
            // If there are repeats beyond the measured range, no ratio exists to compare with the bias. So any
            // significant bias counts as a possible explanation of the difference.
            Some(_) => self.log_bias() > 0.0,
            None => self.effect.is_some_and(|effect| effect.first.log_ratio.abs() <= self.log_bias()),
        }
    }

    fn finished(self, level: Option<f64>) -> FigureComparison {
        let effect = self.effect.filter(|_| self.barred.is_none() && !self.is_unresolved).zip(level);
        let judged = |level: f64| match (&self.beyond, effect) {
            (Some(beyond), _) => self.judged_beyond(beyond, level),
            (None, _) if self.is_unresolved && self.barred.is_none() => (Verdict::Same, String::new()),
            (None, None) => (Verdict::Undecided, self.barred.clone().unwrap_or_default()),
            (None, Some((effect, _))) => self.judged(effect, level),
        };
        let (verdict, why) = level.map(judged).unzip();
        let why = why.unwrap_or_default();
        let is_decided = verdict.is_some_and(|verdict| verdict != Verdict::Undecided);
        // Whether B can be significantly worse. If too many repeats of A are beyond the measured range, it cannot, even
        // if all repeats of B are beyond it.
        let is_within_reach =
            |beyond: &Tested| self.barred.is_none() && level.is_some_and(|level| beyond.least <= level);
        let could_be = effect.is_some() || self.beyond.as_ref().is_some_and(is_within_reach);
        let granted = self.log_margin().max(self.log_bias()) + self.log_step;
        FigureComparison {
            is_decidable: is_decided || (could_be && self.unclaimed.is_none()),
            interval: effect.map(|(effect, level)| {
                let ([low, high], step) = (effect.interval(level), self.log_step.exp());
                [(low / step).max(f64::MIN_POSITIVE), (high * step).min(f64::MAX)]
            }),
            confidence: effect.map(|(_, level)| 1.0 - level),
            smallest_effect: effect.map(|(effect, level)| effect.smallest(granted, level)),
            measure: self.measure,
            a: self.a,
            b: self.b,
            ratio: self.ratio,
            margin: self.margin,
            verdict,
            why,
            bias: self.bias,
            host_speed: self.host_speed,
            beyond: self.beyond.map(|beyond| beyond.counts),
            effect: effect.map(|(effect, _)| effect),
        }
    }

    /// The verdict for a metric with repeats beyond the measured range, and why it is undecided.
    fn judged_beyond(&self, beyond: &Tested, level: f64) -> (Verdict, String) {
        let counts = beyond.counts.words();
        let why = match (&self.barred, &self.unclaimed, self.bias) {
            (Some(barred), ..) => barred.clone(),
            (_, Some(unclaimed), _) => format!("{counts}, and {unclaimed}"),
            (.., Some(bias)) if bias.excludes_one() => {
                format!("{counts}, but the direct baselines also differ: B / A is {}", bias.words())
            }
            _ if beyond.counts.p_value <= level => {
                let is_better = beyond.is_b_greater == self.measure.more_is_better();
                return (if is_better { Verdict::Better } else { Verdict::Worse }, String::new());
            }
            _ => format!("{counts}, which may be chance"),
        };
        (Verdict::Undecided, why)
    }

    fn judged(&self, effect: Reading, level: f64) -> (Verdict, String) {
        let undecided = |why: String| (Verdict::Undecided, why);
        let interval = widened(effect.log_interval(level), self.log_step);
        let bias = self.bias.map(|bias| bias.words()).unwrap_or_default();
        match place(interval, self.log_margin()) {
            Place::Above | Place::Below if self.is_within_bias() => undecided(format!(
                "the difference does not exceed that of the direct baselines (B / A: {bias})"
            )),
            Place::Above | Place::Below if self.unclaimed.is_some() => {
                undecided(self.unclaimed.clone().unwrap_or_default())
            }
            Place::Above if self.measure.more_is_better() => (Verdict::Better, String::new()),
            Place::Below if !self.measure.more_is_better() => (Verdict::Better, String::new()),
            Place::Above | Place::Below => (Verdict::Worse, String::new()),
            // The rig's bias may hide a difference of the same size between the gateways.
            Place::Within
                if place(widened(interval, self.log_bias()), self.log_margin()) != Place::Within =>
            {
                undecided(format!(
                    "the direct baselines differ too much for the verdict \"same\": B / A is {bias}"
                ))
            }
            Place::Within => (Verdict::Same, String::new()),
            Place::Across => undecided(match &self.unclaimed {
                Some(unclaimed) => format!("the interval crosses the margin, and {unclaimed}"),
                None => format!("the interval crosses the margin of {}", percent_short(self.margin)),
            }),
        }
    }
}

/// Returns why the uncertainty is unknown: all repeats of A are equal and all repeats of B are equal, or all blocks
/// have the same ratio. `None` if the uncertainty is known. If only one dataset has equal repeats, for example because
/// another program rounded them, the other dataset shows the spread.
fn alike(a: &[f64], b: &[f64], effect: Option<Effect>) -> Option<String> {
    let what = match is_alike(a) && is_alike(b) {
        true => "the repeats",
        false if !effect.is_some_and(|effect| effect.has_spread()) => "the ratios of the blocks",
        false => return None,
    };
    Some(format!("{what} are all equal, so their uncertainty is unknown"))
}

/// Returns why CPU time gets no verdict: the load points differ, and CPU time depends on the load point
/// (`docs/method.md#cpu`). `None` if they are equal.
fn other_load_point(a: Option<LoadPoint>, b: Option<LoadPoint>) -> Option<String> {
    (a != b).then(|| "CPU time is compared only at the same number of connections or the same rate".into())
}

/// The ratio B / A of the direct baselines. `None` if A or B has fewer than two valid repeats, if a value is beyond the
/// timeout, or if the values do not vary.
fn bias(a: &Figure, b: &Figure) -> Option<Bias> {
    let values = |figure: &Figure| valid(figure).into_iter().map(|(_, value)| value).collect::<Vec<f64>>();
    if a.beyond_timeout || b.beyond_timeout {
        return None;
    }
    let effect = Effect::unpaired(&values(a), &values(b)).filter(Effect::has_spread)?;
    Some(Bias { ratio: effect.log_ratio.exp(), interval: effect.interval(1.0 - CONFIDENCE) })
}

/// Repeat number and value of each valid repeat.
fn valid(figure: &Figure) -> Vec<(u32, f64)> {
    counted(&figure.repeats)
}

fn counted(repeats: &[Repeated]) -> Vec<(u32, f64)> {
    let counted = repeats.iter().filter(|repeated| repeated.reasons.is_empty());
    counted.filter_map(|repeated| Some((repeated.repeat, repeated.value()?))).collect()
}

/// The reasons why repeats in A and B are invalid, in parentheses; empty if there are none.
fn invalid(a: &Figure, b: &Figure) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (reason, _) in a.reasons().into_iter().chain(b.reasons()) {
        let name = crate::verdicts::reasons::reason_name(reason);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// The geometric mean; `None` without values, or if one is not above zero.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    let has_logs = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    has_logs.then(|| (logs / values.len() as f64).exp())
}

/// How much the logarithm of `greater` decreases if `greater` decreases by one `step` of the measurement. `greater` is
/// the higher of the means of A and B, so the result is the same for A / B and B / A.
fn log_step(greater: f64, step: f64) -> f64 {
    if greater > step { -(1.0 - step / greater).ln() } else { 0.0 }
}

fn widened([low, high]: [f64; 2], by: f64) -> [f64; 2] {
    [low - by, high + by]
}

/// A ratio in words. From 0.1 to 10, it has three decimals. Beyond [`RATIO_MAX`], it is only `> 1,000` or `< 0.001`,
/// because intervals of two or three repeats can be very wide.
pub fn ratio_words(ratio: f64) -> String {
    match ratio {
        _ if ratio > RATIO_MAX => format!("> {}", number(RATIO_MAX)),
        _ if ratio < 1.0 / RATIO_MAX => format!("< {}", number(1.0 / RATIO_MAX)),
        _ if (0.1..10.0).contains(&ratio) => format!("{ratio:.3}"),
        _ => number(ratio),
    }
}

/// An interval of a ratio: `1.07 .. 1.13`, or `any` if it is too wide.
pub fn interval_words([low, high]: [f64; 2]) -> String {
    if low < 1.0 / RATIO_MAX && high > RATIO_MAX {
        return "any".into();
    }
    format!("{} .. {}", ratio_words(low), ratio_words(high))
}

/// The minimum detectable effect: `12.5 %`, or `> 1,000 %`.
pub fn smallest_effect_words(share: f64) -> String {
    if share > SMALLEST_EFFECT_MAX {
        return format!("> {}", percent_short(SMALLEST_EFFECT_MAX));
    }
    percent_short(share)
}

/// Bounds of a ratio: `0.182–6.633`, `≥ 1.150`, or `n/a`. A lower bound below 1 / [`RATIO_MAX`] and an upper bound above
/// [`RATIO_MAX`] are left out.
fn ratio_bounds_words([low, high]: [f64; 2]) -> String {
    let least = 1.0 / RATIO_MAX;
    let low = (low >= least).then(|| low.min(RATIO_MAX));
    let high = (high <= RATIO_MAX).then(|| high.max(least));
    match bounds_words(&Range { low, high }, ratio_words) {
        words if words.is_empty() => "n/a".into(),
        words => words,
    }
}

fn ratio_with_interval(ratio: f64, interval: Option<[f64; 2]>) -> String {
    let said = ratio_words(ratio);
    match interval {
        Some(interval) => format!("{said} ({})", interval_words(interval)),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_without_valid_repeats_has_bounds() {
        let check = |interval: [f64; 2], expected: &str| assert_eq!(ratio_bounds_words(interval), expected);
        check([0.1823, 6.633], "0.182–6.633");
        check([1.15, f64::MAX], "≥ 1.150");
        check([f64::MIN_POSITIVE, 0.9], "≤ 0.900");
        check([2_000.0, f64::MAX], "≥ 1,000");
        check([f64::MIN_POSITIVE, 0.000_5], "≤ 0.001");
        check([f64::MIN_POSITIVE, f64::MAX], "n/a");
    }
}
