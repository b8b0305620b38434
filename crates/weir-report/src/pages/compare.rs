//! The comparison of two datasets, A and B. One model is drawn for a terminal, as Markdown for a pull request, and
//! as a page.

mod page;
mod tables;

use serde::Serialize;
use weir_analysis::compare::{Comparison, Verdict};

use crate::formats::markdown;
use crate::formats::terminal;
use crate::model::{Banner, Fact, Table, Tone};

pub(crate) use page::draw as page;

/// The content of a comparison before it is drawn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    /// Where the datasets A and B come from.
    pub(crate) sides: Vec<Fact>,
    pub(crate) verdict: Banner,
    /// Metrics for which the comparison has a verdict.
    pub(crate) judged: Table,
    /// Metrics without a verdict.
    pub(crate) others: Table,
    /// How the two datasets differ in conditions, gateways and environment.
    pub(crate) differences: Vec<Table>,
    pub(crate) notes: Vec<String>,
    pub(crate) unmatched: Vec<String>,
    pub(crate) reading: Vec<Fact>,
}

/// Builds the content of a comparison.
pub(crate) fn report(comparison: &Comparison) -> Report {
    let of_side = |name: &str, side: &weir_analysis::compare::Side| {
        Fact::new(
            name,
            if side.label.is_empty() {
                side.source.clone()
            } else {
                format!("{}: {}", side.label, side.source)
            },
        )
    };
    let tone = if comparison.is_worse() {
        Tone::Bad
    } else if comparison.count(Verdict::Better) > 0 {
        Tone::Good
    } else {
        Tone::Plain
    };
    let mut details = Vec::new();
    if !comparison.forced.is_empty() {
        details.push("Forced: A and B were measured under different conditions (below).".to_owned());
    }
    details.extend(comparison.warnings.iter().map(|warning| format!("{warning}.")));
    details.extend(comparison.failed.iter().map(|failed| format!("{failed}.")));
    details.extend(comparison.not_reached.iter().map(|missed| format!("{missed}.")));
    details.extend(comparison.conclusions());
    let differences = [
        ("Different conditions, compared because of --force", &comparison.forced),
        ("Gateways", &comparison.gateways),
        ("Environment", &comparison.environment),
    ];
    let differences = differences.into_iter().filter(|(_, found)| !found.is_empty());
    Report {
        title: format!("{} against {}", comparison.b.label, comparison.a.label),
        sides: vec![of_side("A", &comparison.a), of_side("B", &comparison.b)],
        verdict: Banner { tone, headline: comparison.headline(), details },
        judged: tables::judged(comparison),
        others: tables::others(comparison),
        differences: differences.map(|(caption, found)| tables::differences(caption, found)).collect(),
        notes: comparison.notes.clone(),
        unmatched: comparison.unmatched.clone(),
        reading: reading(comparison),
    }
}

/// Draws a comparison for a terminal that is `width` columns wide.
pub(crate) fn draw_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    terminal::draw_comparison(&report(comparison), width, color)
}

/// Draws a comparison as Markdown.
pub(crate) fn draw_markdown(comparison: &Comparison) -> String {
    markdown::draw_comparison(&report(comparison))
}

fn reading(comparison: &Comparison) -> Vec<Fact> {
    let how = if comparison.is_paired {
        "The interval is Student's t interval of the logarithms of the ratios, one ratio per block."
    } else {
        "The interval is Welch's t interval on logarithms, for two independent samples with different \
        variances."
    };
    let mut facts = vec![
        Fact::new(
            "Ratio",
            format!("B / A, geometric means over valid repeats; without valid repeats, bounds. {how}"),
        ),
        Fact::new(
            "Loads",
            "Latency is compared on open loads, or on closed loads if a run has no others. Throughput is \
            compared on closed loads, and on open loads whose rate one side did not reach. CPU time per \
            request is compared at the same number of connections or the same rate.",
        ),
        Fact::new(
            "Confidence",
            format!(
                "{} for all {} intervals together (Holm's correction), so each single interval is wider.",
                tables::share(comparison.confidence),
                comparison.family
            ),
        ),
        Fact::new(
            "Verdict",
            "Better or worse: the whole interval lies beyond the margin, and each side has at least six valid \
            repeats. Same: the whole interval lies within the margin. Undecided: neither, or the given reason.",
        ),
        Fact::new(
            "Smallest effect",
            "The minimum detectable difference: a true difference of this size is detected with a probability of \
            80 %, at this noise and this number of repeats.",
        ),
        Fact::new(
            "Direct",
            "The direct baseline of B / that of A, with its 95 % interval. Both measure the rig without a \
            gateway. If the interval excludes 1, the rig itself differs, and smaller differences between A and B \
            stay undecided.",
        ),
    ];
    if comparison.points.iter().flat_map(|point| &point.figures).any(|of| of.beyond.is_some()) {
        facts.push(Fact::new(
            "Beyond",
            format!(
                "A repeat beyond the measured range (`> timeout`, `not recovered`) is a lower bound, so \
                there is no ratio. Exact tests of counts and of ranks give the verdict, with a confidence of {} \
                for all of these metrics together.",
                tables::share(comparison.confidence)
            ),
        ));
    }
    if comparison.knows_host_speed() {
        facts.push(Fact::new(
            "Rig",
            "CPU time per request of the rig's own upstream and load generator, B / A, in the same loads. \
            Their work is the same for both sides, so this ratio shows the speed of the host. weir corrects the \
            CPU time per request of the gateways by this ratio. If its interval excludes 1, the rig may have \
            had different work, and a verdict must hold with and without the correction.",
        ));
    }
    facts
}
