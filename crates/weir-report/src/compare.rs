//! Two datasets compared: one model, drawn for a terminal, as Markdown for a pull request, and as a page.

mod page;
mod tables;

use serde::Serialize;
use weir_analysis::compare::{Comparison, Verdict};

use crate::model::{Banner, Fact, Table, Tone};
use crate::{markdown, terminal};

pub(crate) use page::draw as page;

/// A comparison before it is drawn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    /// What A and B are.
    pub(crate) sides: Vec<Fact>,
    pub(crate) verdict: Banner,
    /// Figures with a verdict.
    pub(crate) judged: Table,
    /// Figures without.
    pub(crate) others: Table,
    /// What differs, by what it is of.
    pub(crate) differences: Vec<Table>,
    pub(crate) notes: Vec<String>,
    pub(crate) unmatched: Vec<String>,
    pub(crate) reading: Vec<Fact>,
}

/// Builds the model.
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
    details.extend(comparison.conclusions());
    let differences = [
        ("Conditions that differ, compared all the same (--force)", &comparison.forced),
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

/// For a terminal of `width` columns.
pub(crate) fn draw_terminal(comparison: &Comparison, width: usize, color: bool) -> String {
    terminal::draw_comparison(&report(comparison), width, color)
}

/// As Markdown.
pub(crate) fn draw_markdown(comparison: &Comparison) -> String {
    markdown::draw_comparison(&report(comparison))
}

fn reading(comparison: &Comparison) -> Vec<Fact> {
    let how = if comparison.is_paired {
        "A t interval over the logarithms of the ratios, block by block."
    } else {
        "Welch's t interval on logarithms: the two samples are independent, each with its own variance."
    };
    let mut facts = vec![
        Fact::new("Ratio", format!("B over A, geometric means over valid repeats. {how}")),
        Fact::new(
            "Loads",
            "Latency is compared on open loads where a run has some; throughput on closed ones, and on open ones whose rate \
             a side did not carry; CPU time per request at equal connections or an equal rate.",
        ),
        Fact::new(
            "Confidence",
            format!(
                "{} for all {} intervals together (Holm), so each alone is wider than that.",
                tables::share(comparison.confidence),
                comparison.family
            ),
        ),
        Fact::new(
            "Verdict",
            "Better or worse: the interval lies wholly beyond the margin, with six valid repeats of each or more. Same: \
             wholly within it. Undecided: neither, or for the reason that is given.",
        ),
        Fact::new(
            "Smallest effect",
            "The smallest true difference that such a comparison, with as many repeats and as much noise, calls better or \
             worse in four cases of five.",
        ),
        Fact::new(
            "Direct",
            "The direct baseline of B over that of A with its 95 % interval: the same thing measured twice. Where it leaves \
             out 1, the rig itself differs, and smaller differences are not claimed.",
        ),
    ];
    if comparison.knows_host_speed() {
        facts.push(Fact::new(
            "Rig",
            "CPU time per request of the rig's own upstream and load generator, B over A, in the same loads: their work is \
             the same with both, so it tells how fast the host was. CPU time per request of the gateways is compared at \
             equal speed: where that ratio is 1. Where its interval leaves out 1, the rig may have had other work, and a \
             verdict has to hold with that correction and without.",
        ));
    }
    facts
}
