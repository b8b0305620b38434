//! Builds the report model from a run and its summary.

use weir_analysis::capacity::Capacity;
use weir_analysis::{Figure, Point, Summary, axes_words, host_noise, quantity};
use weir_results::{ArrivalModel, Cell, DIRECT, Part, Run};

use crate::model::{Banner, Cause, Fact, FailedReport, PointReport, Report, Tone};
use crate::sections::cells::{cell_name, cells};
use crate::sections::environment::{manifest, when};
use crate::sections::findings;
use crate::sections::glance;
use crate::sections::inventory::inventory;
use crate::sections::requests;
use crate::sections::resources;
use crate::sections::sharpen::sharpen;
use crate::sections::tables;
use crate::sections::unequal::unequal;

/// If the verdict has more details than this, they are grouped by cause.
const DETAILS_MAX: usize = 8;

/// Builds the model of the report.
pub(crate) fn build(run: &Run, cells_run: &[Cell], summary: &Summary) -> Report {
    let notes = notes(run, summary, cells_run);
    let mut report = Report {
        title: run.name.clone(),
        question: run.question.clone(),
        run_id: run.id.clone(),
        facts: facts(run, summary),
        verdict: banner(summary, &notes),
        causes: causes(summary, &notes),
        glances: glances(summary),
        sections: findings::sections(summary).collect(),
        points: summary.points.iter().enumerate().map(|(index, point)| point_report(index, point)).collect(),
        objective: tables::objective(summary),
        cells: cells(cells_run),
        failed: failed(summary),
        unequal: unequal(run, cells_run, summary),
        inventory: inventory(run, cells_run, summary),
        manifest: manifest(run, cells_run),
        reading: reading(run, summary),
    };
    // If the run plans fewer repeats than a headline needs, no value can be a headline. Then a mark on each value would
    // add nothing.
    if planned_repeats(run) >= weir_analysis::HEADLINE_REPEATS as u32 {
        report.mark_few();
    }
    report
}

fn planned_repeats(run: &Run) -> u32 {
    run.plan.iter().map(|key| key.repeat.saturating_add(1)).max().unwrap_or(0)
}

fn facts(run: &Run, summary: &Summary) -> Vec<Fact> {
    let gateways = summary.gateways.iter().filter(|gateway| gateway.name != DIRECT).count();
    let repeats = planned_repeats(run);
    let mut facts = vec![Fact::new("Started", when(run.started_unix_ms))];
    if let Some(ended) = run.ended_unix_ms {
        let seconds = ended.saturating_sub(run.started_unix_ms) / 1_000;
        facts.push(Fact::new("Duration", format!("{} min {:02} s", seconds / 60, seconds % 60)));
    }
    facts.push(Fact::new("Gateways", gateways.to_string()));
    facts.push(Fact::new("Repeats", repeats.to_string()));
    let counted = format!("{} of {} measured", summary.cells_measured, summary.cells_planned);
    facts.push(Fact::new("Cells", counted));
    let cpus = run.manifest.cpus.map(|cpus| format!("{cpus} × ")).unwrap_or_default();
    let model = run.manifest.cpu_model.as_deref().unwrap_or("unknown CPU");
    facts.push(Fact::new("Host", format!("{cpus}{model}")));
    facts
}

/// The verdict at the top of the report: how many of the expected headline values are valid.
fn banner(summary: &Summary, notes: &[String]) -> Banner {
    let rows = || summary.points.iter().flat_map(|point| point.gateways().map(move |row| (point, row)));
    let searched = || summary.capacities.iter().flat_map(Capacity::gateways);
    let headlines: Vec<State> = rows()
        .flat_map(|(point, row)| {
            let main = match point.model {
                ArrivalModel::Closed => Some(&row.throughput_per_s),
                ArrivalModel::Open => row.latency("p50"),
            };
            [main.map_or(State::Invalid, State::of), State::of(&row.cpu_us_per_request)]
        })
        .chain(searched().map(|row| State::of(&row.per_s)))
        .collect();
    let expected = headlines.len();
    let count = |state: State| headlines.iter().filter(|headline| **headline == state).count();
    let counting = count(State::Valid);
    let states = format!(
        "{counting} valid, {} bounded, {} invalid main results",
        count(State::Bounded),
        count(State::Invalid)
    );
    let problems = summary.problems();
    let planned = rows().map(|(_, row)| row.planned).chain(searched().map(|row| row.planned));
    let most_repeats = planned.max().unwrap_or(0);
    let (tone, headline) = if !problems.is_empty() {
        let counted = if counting == expected && expected > 0 {
            format!("All {expected} main results are valid, but the run has problems")
        } else {
            states
        };
        (Tone::Bad, counted)
    } else if counting == expected {
        (Tone::Good, format!("All {expected} main results are valid"))
    } else if most_repeats < weir_analysis::HEADLINE_REPEATS {
        let repeats = if most_repeats == 1 { "one".into() } else { most_repeats.to_string() };
        (
            Tone::Plain,
            format!("No headlines: a headline needs three valid repeats, but the run has only {repeats}"),
        )
    } else {
        (Tone::Plain, states)
    };
    Banner {
        tone,
        headline,
        details: problems.into_iter().chain(notes.iter().map(String::as_str)).map(str::to_owned).collect(),
    }
}

/// Whether a main result is valid, has only bounds, or is invalid.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Valid,
    Bounded,
    Invalid,
}

impl State {
    fn of(figure: &Figure) -> Self {
        match figure {
            _ if figure.headline => Self::Valid,
            _ if figure.is_bounded() || figure.noise.is_some() => Self::Bounded,
            _ => Self::Invalid,
        }
    }
}

/// Facts that readers should know about the run, although they are not problems.
fn notes(run: &Run, summary: &Summary, cells: &[Cell]) -> Vec<String> {
    let again = match summary.cells_measured_again {
        0 => None,
        1 => Some(
            "weir re-measured loads of one cell after host noise or late sends by the generator".to_owned(),
        ),
        n => Some(format!(
            "weir re-measured loads of {n} cells after host noise or late sends by the generator"
        )),
    };
    let noise =
        sharpen(run, cells, summary).into_iter().chain(host_noise(cells, run.thresholds.disturbed_share));
    noise.chain(relaxed_thresholds(run)).chain(summary.missing_added_latency()).chain(again).collect()
}

/// Lists the thresholds that the scenario makes less strict than the default; `None` if there are none.
fn relaxed_thresholds(run: &Run) -> Option<String> {
    let relaxed = run.thresholds.relaxed();
    let words = relaxed.iter().map(|of| format!("{} {} (default {})", of.name, of.value, of.default));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("the scenario relaxes thresholds: {}", words.join(", ")))
}

/// The problems by cause, then the notes. Empty if there are at most [`DETAILS_MAX`] problems and notes together,
/// because the verdict then lists them itself.
fn causes(summary: &Summary, notes: &[String]) -> Vec<Cause> {
    if summary.problems().len() + notes.len() <= DETAILS_MAX {
        return Vec::new();
    }
    let named = |(name, details): (String, Vec<String>)| Cause { name, details };
    let by_cause = summary.problems_by_cause().into_iter().map(named);
    by_cause.chain([Cause { name: String::new(), details: notes.to_vec() }]).collect()
}

fn glances(summary: &Summary) -> Vec<crate::model::Table> {
    let mut by_axes: Vec<(&weir_analysis::Axes, Vec<&Point>)> = Vec::new();
    for point in &summary.points {
        match by_axes.iter_mut().find(|(axes, _)| **axes == point.axes) {
            Some((_, points)) => points.push(point),
            None => by_axes.push((&point.axes, vec![point])),
        }
    }
    by_axes.into_iter().map(|(axes, points)| glance::glance(axes_words(axes), &points)).collect()
}

fn point_report(index: usize, point: &Point) -> PointReport {
    let open = point.model == ArrivalModel::Open;
    let purpose = if open {
        "An open load at the same rate for all gateways. Quote latency from here: it starts at the intended \
        send time of each request."
    } else {
        "A closed load. Quote throughput and CPU time per request from here, but not latency: the connections \
        send as fast as the gateway responds, so latency depends on their number."
    };
    let mut tables = tables::comparison(point);
    tables.extend([requests::requests(point), requests::percentiles(point), resources::resources(point)]);
    PointReport {
        id: crate::charts::colors::point_id(index),
        load: point.load.clone(),
        setting: point.setting(),
        purpose: purpose.into(),
        open,
        conclusions: point.conclusions.clone(),
        tables,
        folded: vec![resources::kernel_counts(point)],
    }
}

fn failed(summary: &Summary) -> Vec<FailedReport> {
    let report = |cell: &weir_analysis::FailedCell| FailedReport {
        cell: cell_name(&cell.key),
        cause: cell.cause.clone(),
        message: cell.message.clone(),
        remedy: cell.remedy.clone(),
        log_tail: cell.log_tail.clone(),
    };
    summary.failed.iter().map(report).collect()
}

fn reading(run: &Run, summary: &Summary) -> Vec<Fact> {
    let thresholds = &run.thresholds;
    let mut facts = vec![
        Fact::new(
            "Validity",
            "An invalid value stays in the tables, struck through or in parentheses, with its reason. It is \
            excluded from headlines, means and conclusions. Of a bounded value, weir reports only a lower bound, \
            an upper bound or a range. Headlines and conclusions need at least three valid repeats.",
        ),
        Fact::new(
            "Intervals",
            "95 % t confidence intervals over repeats with fresh processes: on logarithms for values, on \
            differences for added latency. A headline needs three valid repeats, and a verdict of better or \
            worse needs six.",
        ),
        Fact::new(
            "Quantiles",
            "Nearest rank, rounded up, over all scheduled requests. Requests without a response rank last, \
            and a quantile that falls there is printed as > timeout. weir adds histograms, and never averages \
            percentiles over time.",
        ),
        Fact::new(
            "Loads",
            "Closed: each connection sends its next request after the response. Open: requests follow a fixed \
            schedule, and latency starts at the intended send time.",
        ),
        Fact::new(
            "CPU per request",
            "User and system time of the gateway's data plane, as accounted by the kernel, divided by completed \
            requests. It depends on the load point, so weir compares it only at the same number of \
            connections or the same rate.",
        ),
        Fact::new(
            "Limited by",
            format!(
                "The part that limited throughput: the gateway, the upstream or the generator at {} or more of \
                its CPU limit, the host, the connections (concurrency), or the offered rate.",
                quantity::percent(thresholds.bound_share)
            ),
        ),
        Fact::new(
            "Minimum and maximum",
            "Minimum and maximum cover all valid repeats together and have no interval. Every other quantile \
            is the mean over repeats, with its interval. A share of a limit refers to the limit of the cell, \
            not to the host.",
        ),
        Fact::new(
            "Memory",
            "Excludes the page cache of files, which the kernel can reclaim at any time. Network values are \
            n/a for parts without their own network namespace.",
        ),
    ];
    if !summary.capacities.is_empty() {
        facts.push(Fact::new(
            "Capacity",
            "The highest rate that meets the objective, not the rate at saturation. Each trial of a search is \
            evidence for or against a rate, weighted by its number of independent requests. Invalid trials \
            are repeated. The result is the interval over repeats; each search also has the interval of its \
            own trials.",
        ));
    }
    if let Some(share) = thresholds.interval_share {
        facts.push(Fact::new(
            "Noisy",
            format!(
                "In this scenario the interval of a headline may extend at most {} from its mean. A value \
                with a wider interval is no headline.",
                quantity::percent(share)
            ),
        ));
    }
    let mut parts = summary.gateways.iter().flat_map(|gateway| &gateway.parts);
    if parts.any(Part::is_elsewhere) {
        facts.push(Fact::new(
            "Remote",
            "weir did not start the gateways. CPU and memory come from a Prometheus scrape, and each load \
            shows their uncertainty. All repeats use the same processes. Request counts of gateways and \
            upstream are not available.",
        ));
    }
    if summary.points.iter().any(|point| point.direct().is_some()) {
        facts.push(Fact::new(
            "Direct",
            "The direct baseline: the same load sent directly to the upstream, without a gateway, once per \
            repeat. If the rig limits this load, a share of direct is an upper bound (≤). Added latency is the \
            difference of quantiles in the same repeat.",
        ));
    }
    facts
}
