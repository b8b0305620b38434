//! The positive control: checks that the run detects a known slowdown (`docs/method.md#control`).

use std::borrow::Cow;

use weir_results::{ArrivalModel, BoundBy, Burned, CONTROL, Cell, CellOutcome, Measurement, Run};

use crate::compare::{
    Comparison, Dataset, FigureComparison, Margins, Measure, PointComparison, Question, RATIO_MAX, Verdict,
    compare, smallest_effect_words,
};
use crate::figures::quantity::{percent, time_ns};
use crate::findings::{Column, Finding, KEEP, Row, Table, Unit, Value};
use crate::points::axes::with_axes;
use crate::summary::{self, Summary};

const KEY: &str = "control";

const INTRO: &str = "\
The positive control is a second measurement of one gateway with a known slowdown. A process in the gateway's cgroup \
uses extra CPU time, a fixed share of the gateway's. In open loads the upstream also delays each response. weir \
measures both amounts and compares the control with the gateway by the rules of `weir compare`, without a margin. \
*Detected*: the 99 % interval of the ratio excludes 1, on the expected side. The 99 % confidence holds for all metrics \
together. *Minimum detectable*: the smallest change that a comparison with the same repeats and noise detects with \
80 % power.";

static COLUMNS: [Column; 7] = [
    Column::of("load", "Load", Unit::Load, KEEP),
    Column::of("metric", "Metric", Unit::Text, KEEP),
    Column::of("known", "Added", Unit::Text, KEEP),
    Column::of("measured", "Measured", Unit::Text, KEEP),
    Column::of("found", "Detected", Unit::Text, KEEP),
    Column::of("finds_from", "Minimum detectable", Unit::Text, 8),
    Column::of("why", "Reason", Unit::Text, 5),
];

/// Summarizes the cells of a run. Its positive control becomes a finding, not a gateway.
pub fn summarize(run: &Run, cells: &[Cell]) -> Summary {
    let Some(control) = Control::of(run) else { return summary::summarize(run, cells) };
    let (gateways, own) = without_control(run, cells);
    let mut summary = summary::summarize(&gateways, &own);
    summary.findings.extend(control.finding(run, cells));
    summary
}

/// Returns the run and its cells without the cells of a positive control.
pub(crate) fn without_control<'a>(run: &'a Run, cells: &'a [Cell]) -> (Cow<'a, Run>, Cow<'a, [Cell]>) {
    let (mut run, mut cells) = (Cow::Borrowed(run), Cow::Borrowed(cells));
    // In a run without a positive control, a gateway may have the name `CONTROL`.
    if run.scenario.get(KEY).is_some() {
        run.to_mut().plan.retain(|key| key.gateway != CONTROL);
        cells = cells.iter().filter(|cell| cell.key.gateway != CONTROL).cloned().collect();
    }
    (run, cells)
}

/// The positive control of a run: a second measurement of `gateway` with a known slowdown.
struct Control {
    gateway: String,
}

/// The change that the positive control makes on purpose and the analysis should find.
struct Known {
    /// The relative change of the metric: 0.1 is +10 %.
    change: f64,
    words: String,
}

impl Known {
    /// Whether the measured change is too small: its whole interval, from `low` to `high`, lies below a known increase
    /// or above a known decrease.
    fn is_below(&self, low: f64, high: f64) -> bool {
        if self.change < 0.0 { low > self.change } else { high < self.change }
    }
}

impl Control {
    fn of(run: &Run) -> Option<Self> {
        let gateway = run.scenario.get(KEY)?.get("gateway")?.as_str()?;
        Some(Self { gateway: gateway.to_owned() })
    }

    fn finding(&self, run: &Run, cells: &[Cell]) -> Option<Finding> {
        let mut finding = Finding::new(KEY, "Positive control", INTRO);
        let failed =
            cells.iter().filter(|cell| cell.key.gateway == CONTROL).find_map(|cell| match &cell.outcome {
                CellOutcome::Failed { cause, message, .. } => Some(format!("{cause}: {message}")),
                CellOutcome::Measured { .. } => None,
            });
        finding.sentences.extend(failed.map(|why| format!("The positive control failed. {why}")));
        if let Some(comparison) = self.compared(run, cells) {
            let rows: Vec<(Row, String)> =
                comparison.points.iter().flat_map(|point| self.rows(point, cells)).collect();
            let (rows, sentences): (Vec<Row>, Vec<String>) = rows.into_iter().unzip();
            finding.sentences.extend(sentences);
            if !rows.is_empty() {
                let caption = format!("{} and its positive control", self.gateway);
                finding.tables.push(Table { caption, columns: &COLUMNS, rows });
            }
        }
        (!finding.sentences.is_empty()).then_some(finding)
    }

    fn compared(&self, run: &Run, cells: &[Cell]) -> Option<Comparison> {
        let of = |gateway: &str| Dataset::of_run(run, cells, Some(gateway)).ok();
        let mut margins = Margins::default();
        Measure::JUDGED.into_iter().for_each(|measure| margins.set(measure, 0.0));
        let question = Question {
            measures: Measure::JUDGED.to_vec(),
            margins,
            // In open loads the upstream delays responses. This takes CPU time of the upstream, so the rig's CPU time
            // does not show the speed of the host.
            other_rig_at: Some(ArrivalModel::Open),
            is_sequential: run.manifest.repeats_were_added,
            ..Question::default()
        };
        compare(&of(&self.gateway)?, &of(CONTROL)?, &question).ok()
    }

    /// A row and a sentence for each metric with a known change.
    fn rows(&self, point: &PointComparison, cells: &[Cell]) -> Vec<(Row, String)> {
        let here = |gateway: &str| -> Vec<&Measurement> {
            let cells =
                cells.iter().filter(|cell| cell.key.gateway == gateway && cell.key.axes == point.axes);
            cells.filter_map(|cell| measured(cell, &point.load)).collect()
        };
        let (own, control) = (here(&self.gateway), here(CONTROL));
        let row = |figure: &FigureComparison| {
            let known = self.known(figure, &own, &control).filter(|_| figure.verdict.is_some())?;
            Some(self.row(point, figure, &known))
        };
        point.figures.iter().filter_map(row).collect()
    }

    /// The change that the positive control makes in a metric; `None` if unknown.
    fn known(
        &self,
        figure: &FigureComparison,
        own: &[&Measurement],
        control: &[&Measurement],
    ) -> Option<Known> {
        let burned = burned(control)?;
        let is_closed = own.first()?.record.result.model == ArrivalModel::Closed;
        match figure.measure {
            Measure::CpuPerRequest => Some(Known { change: burned, words: signed(burned) }),
            // The throughput of a saturated gateway is its CPU limit divided by the CPU time per request.
            Measure::Throughput
                if is_closed && own.iter().all(|of| of.judgement.bound_by == BoundBy::Gateway) =>
            {
                let change = 1.0 / (1.0 + burned) - 1.0;
                Some(Known { change, words: signed(change) })
            }
            Measure::Latency(_) if !is_closed => {
                let given = |of: &[&Measurement]| -> Vec<f64> {
                    of.iter().filter_map(|of| Some(of.counters.origin_delay_ns_mean? as f64)).collect()
                };
                let mean = |given: Vec<f64>| given.iter().sum::<f64>() / given.len().max(1) as f64;
                let delay_ns = mean(given(control)) - mean(given(own));
                let change = delay_ns / figure.a.mean?;
                (delay_ns > 0.0)
                    .then(|| Known { change, words: format!("{} (+{})", signed(change), time_ns(delay_ns)) })
            }
            _ => None,
        }
    }

    fn row(&self, point: &PointComparison, figure: &FigureComparison, known: &Known) -> (Row, String) {
        let interval = figure.interval.map(|ends| ends.map(end));
        let measured = match (figure.ratio, interval) {
            (Some(ratio), Some([low, high])) => format!("{} [{low} .. {high}]", signed(ratio - 1.0)),
            (Some(ratio), None) => signed(ratio - 1.0),
            (None, Some([low, high])) => format!("{low} .. {high}"),
            (None, None) => "n/a".to_owned(),
        };
        let is_found = figure.verdict == Some(Verdict::Worse);
        let finds_from = figure.smallest_effect.map_or("n/a".to_owned(), smallest_effect_words);
        // Delaying responses also takes CPU time, so the measured change may be larger than the added change. Only a
        // smaller measured change is suspicious.
        let is_less = figure.interval.is_some_and(|[low, high]| known.is_below(low - 1.0, high - 1.0));
        let distrust = "do not trust differences of this size in this run";
        let why = match figure.verdict {
            Some(Verdict::Better) => {
                format!("the added change and the measured change have opposite signs: {distrust}")
            }
            Some(Verdict::Worse) if is_less => {
                format!("the measured change is smaller than the added change: {distrust}")
            }
            Some(Verdict::Worse) => String::new(),
            _ if !figure.is_decidable => figure.why.clone(),
            _ if is_less => format!("the interval excludes the added change: {distrust}"),
            _ => "the interval includes 0 (no change)".to_owned(),
        };
        let title = figure.measure.title();
        let gateway = with_axes(&self.gateway, &point.axes);
        let found = if is_found { "detected" } else { "not detected" };
        let reason = if why.is_empty() { String::new() } else { format!(" ({why})") };
        let sentence = format!(
            "{gateway}, {}: the added {} {title} is {found}: measured {measured}{reason}.",
            point.load, known.words
        );
        let mut axes = point.axes.clone();
        axes.insert("metric".to_owned(), figure.measure.name().into());
        let texts = [&title, &known.words, &measured, &found.to_owned(), &finds_from, &why];
        let values = std::iter::once(Value::Missing).chain(texts.map(|text| Value::text(text.clone())));
        let row =
            Row { gateway: self.gateway.clone(), load: point.load.clone(), axes, values: values.collect() };
        (row, sentence)
    }
}

/// CPU time that the positive control's burner process used, divided by the CPU time of the gateway; `None` if unknown.
fn burned(control: &[&Measurement]) -> Option<f64> {
    let events = control.iter().flat_map(|of| &of.events).filter(|event| event.kind == Burned::KIND);
    let all: Vec<Burned> =
        events.filter_map(|event| serde_json::from_value(event.details.clone()).ok()).collect();
    let sum = |of: fn(&Burned) -> u64| all.iter().map(of).sum::<u64>() as f64;
    let used_ns = sum(|of| of.used_ns);
    (used_ns > 0.0).then(|| sum(|of| of.burned_ns) / used_ns)
}

fn measured<'a>(cell: &'a Cell, load: &str) -> Option<&'a Measurement> {
    let CellOutcome::Measured { measurements } = &cell.outcome else { return None };
    measurements.iter().find(|measurement| measurement.load == load)
}

/// Formats one end of an interval of ratios as a change: `+9.8 %`.
fn end(ratio: f64) -> String {
    if (1.0 / RATIO_MAX..RATIO_MAX).contains(&ratio) { signed(ratio - 1.0) } else { "unknown".to_owned() }
}

/// Formats a share as a change: `+9.8 %`, `-4.0 %`.
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(share.abs()))
}
