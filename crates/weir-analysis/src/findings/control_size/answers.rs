//! Decides from comparisons of two sizes whether the size of a control plane matters, and states the results in
//! sentences.

use crate::compare::{
    BLOCKS_FORECAST, CLAIM_REPEATS, FigureComparison, Measure, Verdict, smallest_effect_words,
};
use crate::figures::figure::{Figure, HEADLINE_REPEATS, Repeated};
use crate::figures::quantity::percent_short;
use crate::points::conclusions::{by_reason, join};
use crate::verdicts::reasons::reason_name;

/// Whether the size of the control plane matters in one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The whole interval of the ratio lies within the margin.
    Same,
    /// The whole interval of the ratio lies beyond the margin.
    Matters,
    /// The comparison is undecided, for this reason.
    Undecided(String),
}

/// A size compared with the largest one, in one metric at one load.
pub(super) struct Compared<'a> {
    pub(super) load: &'a str,
    pub(super) size: &'a str,
    pub(super) largest: &'a str,
    pub(super) figure: &'a FigureComparison,
    pub(super) answer: Answer,
}

impl Answer {
    pub(super) fn of(figure: &FigureComparison) -> Self {
        let blocks = blocks(figure);
        match figure.verdict {
            Some(Verdict::Better | Verdict::Worse) => Self::Matters,
            // Fewer than three repeats do not show how much they vary.
            _ if blocks < HEADLINE_REPEATS && figure.beyond.is_none() => {
                Self::Undecided(too_few(figure, blocks))
            }
            Some(Verdict::Same) => Self::Same,
            Some(Verdict::Undecided) | None => Self::Undecided(reason(figure)),
        }
    }

    /// The answer in words: `same within 10 %`.
    pub(super) fn words(&self, figure: &FigureComparison) -> String {
        match self {
            Self::Same => figure.verdict_words(),
            Self::Matters => "matters".to_owned(),
            Self::Undecided(_) => "undecided".to_owned(),
        }
    }
}

/// Number of repeats in which the values of both sizes are valid, or have a lower and an upper bound.
fn blocks(figure: &FigureComparison) -> usize {
    let is_known = |of: &&Repeated| {
        let range = of.known();
        let is_valid = of.reasons.is_empty() && of.value().is_some();
        is_valid || range.low.is_some() && range.high.is_some()
    };
    let known = |of: &Figure| of.repeats.iter().filter(is_known).map(|of| of.repeat).collect::<Vec<u32>>();
    let of_a = known(&figure.a);
    known(&figure.b).iter().filter(|repeat| of_a.contains(repeat)).count()
}

fn too_few(figure: &FigureComparison, blocks: usize) -> String {
    let mut why: Vec<&str> = Vec::new();
    for (reason, _) in figure.a.reasons().into_iter().chain(figure.b.reasons()) {
        let name = reason_name(reason);
        if !why.contains(&name) {
            why.push(name);
        }
    }
    let why = if why.is_empty() { String::new() } else { format!("; reasons: {}", why.join(", ")) };
    let are = if blocks == 1 { "is" } else { "are" };
    format!("{HEADLINE_REPEATS} repeats must be valid with both sizes, but only {blocks} {are}{why}")
}

/// Why a metric with enough repeats is undecided.
fn reason(figure: &FigureComparison) -> String {
    let (low, high) = (1.0 / (1.0 + figure.margin), 1.0 + figure.margin);
    match (&figure.beyond, figure.interval) {
        (Some(beyond), _) => beyond.sentence("with the largest size"),
        (None, Some([from, to])) if from > high || to < low => {
            format!(
                "the interval lies beyond the margin, but weir reports a difference only with at least {CLAIM_REPEATS} \
                 valid repeats"
            )
        }
        (None, Some(_)) => format!("the interval crosses the margin of {}", percent_short(figure.margin)),
        (None, None) => figure.why.clone(),
    }
}

/// The conclusion from all comparisons of a gateway.
pub(super) fn conclude(subject: &str, all: &[Compared<'_>]) -> String {
    let that =
        |is: fn(&Answer) -> bool| -> Vec<&Compared<'_>> { all.iter().filter(|of| is(&of.answer)).collect() };
    let matters = that(|answer| *answer == Answer::Matters);
    let same = that(|answer| *answer == Answer::Same);
    let undecided = that(|answer| matches!(answer, Answer::Undecided(_)));
    let is_cost = |of: &&Compared<'_>| of.figure.measure == Measure::CpuPerRequest;
    // The main metrics suffice for an answer. CPU time has a narrower margin and is often undecided.
    let has_answer = !same.is_empty() && undecided.iter().all(is_cost);
    let mut sentences = Vec::new();
    if !matters.is_empty() {
        let words = different(&matters);
        sentences.push(format!("The size of the control plane matters for {subject}: {words}."));
        sentences.extend(alike(&same).map(|words| format!("Otherwise, {words}.")));
        sentences.extend(open(&undecided).map(|words| format!("Undecided: {words}.")));
    } else if has_answer {
        let is_whole = undecided.is_empty() && !same.iter().all(is_cost);
        let of = if is_whole { String::new() } else { format!("{} of ", decided(&same, &undecided)) };
        let words = alike(&same).unwrap_or_default();
        sentences.push(format!("The size of the control plane does not matter for {of}{subject}: {words}."));
        sentences.extend(open(&undecided).map(|words| format!("Undecided: {words}.")));
    } else {
        let words = open(&undecided).unwrap_or_default();
        sentences.push(format!(
            "It is undecided whether the size of the control plane matters for {subject}: {words}."
        ));
        sentences.extend(alike(&same).map(|words| format!("Decided: {words}.")));
    }
    sentences.extend(forecast(&undecided));
    sentences.join(" ")
}

/// Joins the metrics that are the same in all comparisons: `throughput and p50 latency`.
fn decided(same: &[&Compared<'_>], undecided: &[&Compared<'_>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for of in same {
        let name = noun(of.figure.measure);
        let is_open = undecided.iter().any(|other| other.figure.measure == of.figure.measure);
        if !is_open && !names.contains(&name) {
            names.push(name);
        }
    }
    join(&names)
}

fn noun(measure: Measure) -> String {
    match measure {
        Measure::CpuPerRequest => "CPU time per request".to_owned(),
        other => other.title(),
    }
}

/// Comparisons that one clause of a sentence covers.
struct Clause<'a> {
    of: &'a Compared<'a>,
    sizes: Vec<String>,
    loads: Vec<String>,
}

/// Groups comparisons that differ only in size and load. All sizes in a group have the same loads.
fn clauses<'a>(all: &[&'a Compared<'a>]) -> Vec<Clause<'a>> {
    let is_alike = |a: &Compared<'_>, b: &Compared<'_>| {
        a.figure.measure == b.figure.measure && a.largest == b.largest && a.answer == b.answer
    };
    let mut kinds: Vec<&'a Compared<'a>> = Vec::new();
    for of in all {
        if !kinds.iter().any(|known| is_alike(known, of)) {
            kinds.push(of);
        }
    }
    let of_kind = |kind: &&'a Compared<'a>| -> Vec<Clause<'a>> {
        let alike = all.iter().filter(|of| is_alike(kind, of));
        let loads = by_reason(alike.map(|of| (of.size, of.load.to_owned())).collect());
        let sizes = by_reason(loads.into_iter().map(|(size, loads)| (loads, size.to_owned())).collect());
        sizes.into_iter().map(|(loads, sizes)| Clause { of: kind, sizes, loads }).collect()
    };
    kinds.iter().flat_map(of_kind).collect()
}

/// States which metrics are the same:
/// `with 0.1 cores and 0.5 cores, throughput at users-4 is the same as with 1 core (within 10 %)`. `None` if `same` is
/// empty.
fn alike(same: &[&Compared<'_>]) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<Clause<'_>> = None;
    for clause in clauses(same) {
        let of = clause.of;
        let (noun, loads) = (noun(of.figure.measure), join(&clause.loads));
        let margin = percent_short(of.figure.margin);
        let continued =
            before.as_ref().filter(|last| last.sizes == clause.sizes && last.of.largest == of.largest);
        words.push(match continued {
            Some(last) if last.loads == clause.loads => format!("{noun} is the same (within {margin})"),
            Some(_) => format!("{noun} at {loads} is the same (within {margin})"),
            None => format!(
                "with {}, {noun} at {loads} is the same as with {} (within {margin})",
                join(&clause.sizes),
                of.largest
            ),
        });
        before = Some(clause);
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// States how much metrics differ:
/// `with 0.1 cores, throughput at users-4 is 0.700 (0.689 .. 0.711) times the value with 1 core`.
fn different(matters: &[&Compared<'_>]) -> String {
    let words = |of: &&Compared<'_>| {
        let Compared { load, size, largest, figure, .. } = of;
        let noun = noun(figure.measure);
        match &figure.beyond {
            Some(beyond) => {
                let with = format!("with {largest}");
                format!("with {size}, {noun} at {load} is {}", beyond.sentence(&with))
            }
            None => {
                format!(
                    "with {size}, {noun} at {load} is {} times the value with {largest}",
                    figure.ratio_words()
                )
            }
        }
    };
    matters.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// States which metrics are undecided, and why:
/// `throughput at users-4 with 0.1 cores (the interval crosses the margin of 10 %)`. `None` if `undecided` is empty.
fn open(undecided: &[&Compared<'_>]) -> Option<String> {
    let words = |clause: Clause<'_>| {
        let noun = noun(clause.of.figure.measure);
        let Answer::Undecided(why) = &clause.of.answer else { return String::new() };
        format!("{noun} at {} with {} ({why})", join(&clause.loads), join(&clause.sizes))
    };
    let words: Vec<String> = clauses(undecided).into_iter().map(words).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// States which difference this run can detect, and how many repeats a decision needs; `None` if the noise is unknown.
fn forecast(undecided: &[&Compared<'_>]) -> Option<String> {
    let known = || undecided.iter().filter(|of| of.figure.smallest_effect.is_some());
    let smallest = known().filter_map(|of| of.figure.smallest_effect).reduce(f64::max)?;
    let repeats: Option<Vec<usize>> = known().map(|of| of.figure.blocks_to_decide()).collect();
    let needed = match repeats.and_then(|all| all.into_iter().max()) {
        Some(repeats) => format!("about {repeats} repeats"),
        None => format!("more than {BLOCKS_FORECAST} repeats"),
    };
    let detectable = match smallest_effect_words(smallest) {
        beyond if beyond.starts_with('>') => String::new(),
        share => format!("This run can detect differences of {share} or more. "),
    };
    Some(format!("{detectable}With the same noise, a decision needs {needed}."))
}
