//! Conclusions about a load point, derived from its values (`docs/method.md#conclusions`).
//!
//! The verdicts *better* and *worse* need six repeats and never appear here. A sentence states values, and whether
//! their intervals overlap.

use weir_results::{ArrivalModel, BoundBy};

use crate::added::claims;
use crate::figures::figure::{Figure, Range};
use crate::figures::latencies::title;
use crate::figures::quantity::{bytes, counted, number, percent, range, rate, time_ns};
use crate::points::objective::{Met, ObjectiveResult};
use crate::points::tails::{SECONDS_MIN, ShortTail};
use crate::points::{Point, Row};
use crate::verdicts::reasons::reason_name;

/// A value that ranks gateways, and the wording of the conclusion about it.
struct Comparison {
    /// What the sentence states about the first gateway: `had the highest throughput`.
    verb: &'static str,
    figure: fn(&Row) -> Option<&Figure>,
    most: bool,
    format: fn(f64) -> String,
}

const THROUGHPUT: Comparison = Comparison {
    verb: "had the highest throughput",
    figure: |row| Some(&row.throughput_per_s),
    most: true,
    format: rate,
};
const CPU: Comparison = Comparison {
    verb: "used the least CPU time per request",
    figure: |row| Some(&row.cpu_us_per_request),
    most: false,
    format: |us| time_ns(us * 1e3),
};
const P99: Comparison = Comparison {
    verb: "had the lowest p99 latency",
    figure: |row| row.latency("p99"),
    most: false,
    format: time_ns,
};
const MEMORY: Comparison = Comparison {
    verb: "had the lowest peak memory",
    figure: |row| Some(&row.memory_bytes_peak),
    most: false,
    format: bytes,
};

/// Draws the conclusions of a point.
pub(crate) fn conclude(point: &Point) -> Vec<String> {
    let comparisons: &[Comparison] = match point.model {
        ArrivalModel::Closed => &[THROUGHPUT, CPU, MEMORY],
        ArrivalModel::Open => &[P99, CPU],
    };
    let mut sentences: Vec<String> =
        comparisons.iter().filter_map(|comparison| compare(point, comparison)).collect();
    sentences.extend(not_at_limit(point));
    sentences.extend(against_direct(point));
    sentences.extend(match &point.bias {
        Some(bias) => claims(point, bias),
        None => added(point),
    });
    sentences.extend(objectives(point));
    sentences.extend(bounded(point));
    sentences.extend(short_tails(point));
    sentences.extend(left_out(point));
    sentences.extend(too_wide(point));
    sentences
}

/// Ranks the gateways whose value is a headline; `None` if there are fewer than two such gateways.
fn compare(point: &Point, comparison: &Comparison) -> Option<String> {
    let figures = point
        .gateways()
        .filter_map(|row| Some((row.gateway.as_str(), (comparison.figure)(row)?)))
        .filter(|(_, figure)| figure.headline);
    ranked(figures.collect(), comparison.verb, comparison.most, comparison.format)
}

/// Ranks named values in one sentence; `None` for fewer than two. If `most` is true, the largest comes first, else the
/// smallest.
pub(crate) fn ranked(
    figures: Vec<(&str, &Figure)>,
    verb: &str,
    most: bool,
    format: fn(f64) -> String,
) -> Option<String> {
    let mut ranked: Vec<(&str, &Figure, f64)> =
        figures.into_iter().filter_map(|(name, figure)| Some((name, figure, figure.mean?))).collect();
    if ranked.len() < 2 {
        return None;
    }
    ranked.sort_by(|a, b| if most { b.2.total_cmp(&a.2) } else { a.2.total_cmp(&b.2) });
    let (first, rest) = ranked.split_first()?;
    let said =
        |(name, figure, _): &(&str, &Figure, f64)| format!("{name} ({})", with_interval(figure, format));
    let overlapping = |other: &&(&str, &Figure, f64)| first.1.overlaps(other.1) != Some(false);
    let (alike, apart): (Vec<_>, Vec<_>) = rest.iter().partition(overlapping);
    let mut sentence = if alike.is_empty() {
        format!("{} {verb}: {}", first.0, with_interval(first.1, format))
    } else {
        let names: Vec<String> =
            std::iter::once(said(first)).chain(alike.iter().copied().map(said)).collect();
        format!("{} {verb}; their intervals overlap, so this run cannot rank them", join(&names))
    };
    if !apart.is_empty() {
        let others: Vec<String> =
            apart.iter().map(|other| format!("{} {}", other.0, ratio(other.2, first.2))).collect();
        let their = if apart.len() == 1 { "its interval does" } else { "their intervals do" };
        let of = first.0;
        sentence
            .push_str(&format!(". Relative to {of}: {}; {their} not overlap with {of}'s", others.join(", ")));
    }
    sentence.push('.');
    Some(sentence)
}

/// Names the gateways that stayed below their CPU limit: their throughput is only a lower bound of their maximum.
fn not_at_limit(point: &Point) -> Option<String> {
    if point.model != ArrivalModel::Closed {
        return None;
    }
    let free = |row: &&Row| {
        row.throughput_per_s.headline && row.bound_by.iter().all(|(_, bound)| *bound == BoundBy::Concurrency)
    };
    let names: Vec<String> = point.gateways().filter(free).map(|row| row.gateway.clone()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} stayed below {} CPU limit in every repeat: {} throughput is limited by the {} and is not \
            the maximum.",
            join(&names),
            if names.len() == 1 { "its" } else { "their" },
            if names.len() == 1 { "its" } else { "their" },
            counted(point.connections.into(), "connection")
        )
    })
}

fn against_direct(point: &Point) -> Option<String> {
    let mut limited = false;
    let said: Vec<String> = point
        .gateways()
        .filter_map(|row| {
            let to_direct = row.ratio_to_direct.as_ref().filter(|to_direct| to_direct.ratio.headline)?;
            limited |= to_direct.at_most;
            let known = to_direct.known();
            Some(format!("{} {}", row.gateway, percent(known.bounds.high.or(known.mean)?)))
        })
        .collect();
    if said.is_empty() {
        return None;
    }
    Some(if limited {
        format!(
            "Throughput relative to the direct baseline, at most: {}. The rig limited the direct load, so \
             the shares are upper bounds.",
            said.join(", ")
        )
    } else {
        format!("Throughput relative to the direct baseline: {}.", said.join(", "))
    })
}

fn added(point: &Point) -> Option<String> {
    let of = |row: &Row, name: &str| {
        let figure = row.added_latency(name)?;
        figure.headline.then(|| with_interval(figure, time_ns))
    };
    let said: Vec<String> = point
        .gateways()
        .filter_map(|row| {
            Some(format!("{} {} at p50 and {} at p99", row.gateway, of(row, "p50")?, of(row, "p99")?))
        })
        .collect();
    (!said.is_empty()).then(|| format!("Added latency: {}.", said.join("; ")))
}

fn objectives(point: &Point) -> Vec<String> {
    // Limits of an objective may differ between gateways, so each distinct limit gets its own sentence.
    let mut bounds: Vec<&str> = Vec::new();
    for bound in point.gateways().flat_map(|row| &row.objective).map(ObjectiveResult::bound) {
        if !bounds.contains(&bound) {
            bounds.push(bound);
        }
    }
    bounds.iter().filter_map(|bound| objective(point, bound)).collect()
}

fn objective(point: &Point, bound: &str) -> Option<String> {
    let results = || {
        point
            .gateways()
            .filter_map(|row| Some((row, row.objective.iter().find(|result| result.bound() == bound)?)))
    };
    let who = |met: Met| {
        let names: Vec<String> =
            results().filter(|(_, result)| result.met == met).map(|(row, _)| row.gateway.clone()).collect();
        (!names.is_empty()).then(|| join(&names))
    };
    let said: Vec<String> =
        [(Met::Met, "met by"), (Met::Missed, "missed by"), (Met::Unknown, "undecided for")]
            .into_iter()
            .filter_map(|(met, words)| Some(format!("{words} {}", who(met)?)))
            .collect();
    Some(format!("Objective {bound}: {}.", said.join(", ")))
}

/// The main value of a load: throughput in a closed loop, p99 in an open loop.
fn main(point: &Point, row: &Row) -> Figure {
    match point.model {
        ArrivalModel::Closed => row.throughput_per_s.clone(),
        ArrivalModel::Open => row.latency("p99").cloned().unwrap_or_default(),
    }
}

/// Names the gateways whose main value is bounded, with the reasons.
fn bounded(point: &Point) -> Option<String> {
    let (name, format): (_, fn(f64) -> String) = match point.model {
        ArrivalModel::Closed => ("throughput", rate),
        ArrivalModel::Open => ("p99", time_ns),
    };
    let rows = point.gateways().map(|row| (row, main(point, row)));
    let said: Vec<(String, String)> = rows
        .filter(|(_, figure)| figure.is_bounded())
        .map(|(row, figure)| {
            let reasons: Vec<&str> =
                figure.reasons().into_iter().map(|(reason, _)| reason_name(reason)).collect();
            (reasons.join(", "), format!("{} {}", row.gateway, bounds_words(&figure.bounds, format)))
        })
        .collect();
    let said: Vec<String> =
        by_reason(said).iter().map(|(why, values)| format!("{} ({why})", join(values))).collect();
    (!said.is_empty()).then(|| format!("For {name}, only bounds are known: {}.", said.join(", ")))
}

/// Names the p99 and p99.9 values that are not headlines because fewer than `SECONDS_MIN` seconds contain slower
/// requests.
fn short_tails(point: &Point) -> Option<String> {
    let is_quoted = |tail: &&ShortTail| ["p99", "p999"].contains(&tail.name.as_str());
    let of = |row: &Row| {
        let words = |tail: &ShortTail| {
            format!("{} of {} ({} of {} seconds)", title(&tail.name), row.gateway, tail.seconds, tail.of)
        };
        row.short_tails.iter().filter(is_quoted).map(words).collect::<Vec<_>>()
    };
    let said: Vec<String> = point.gateways().flat_map(of).collect();
    (!said.is_empty()).then(|| {
        format!(
            "These quantiles are no headlines, because fewer than {SECONDS_MIN} seconds contain slower requests: {}. \
             Use a longer phase or more repeats.",
            said.join(", ")
        )
    })
}

/// Names the gateways whose main value is not a headline, with the reasons. Leaves out values that `short_tails`,
/// `too_wide` or `bounded` report.
fn left_out(point: &Point) -> Option<String> {
    let is_short = |row: &Row| {
        point.model == ArrivalModel::Open && row.short_tails.iter().any(|tail| tail.name == "p99")
    };
    let said: Vec<(String, String)> = point
        .gateways()
        .filter(|row| !is_short(row))
        .map(|row| (row, main(point, row)))
        .filter(|(_, figure)| !figure.headline && figure.noise.is_none() && !figure.is_bounded())
        .map(|(row, figure)| (why_no_headline(&figure), row.gateway.clone()))
        .collect();
    let said: Vec<String> =
        by_reason(said).iter().map(|(why, names)| format!("{} ({why})", join(names))).collect();
    let what = match point.model {
        ArrivalModel::Closed => "throughput",
        ArrivalModel::Open => "latency",
    };
    (!said.is_empty()).then(|| {
        format!("No conclusion about the {what} of {}: three valid repeats are required.", join(&said))
    })
}

/// Why a main value is not a headline.
pub(crate) fn why_no_headline(figure: &Figure) -> String {
    let reasons: Vec<&str> = figure.reasons().into_iter().map(|(reason, _)| reason_name(reason)).collect();
    if figure.beyond_timeout && reasons.is_empty() {
        "beyond the timeout".to_owned()
    } else if reasons.is_empty() {
        counted(figure.valid as u64, "valid repeat")
    } else {
        let repeats = counted(figure.repeats.len() as u64, "repeat");
        format!("{}; {} of {repeats} valid", reasons.join(", "), figure.valid)
    }
}

/// Names the gateways whose values are more uncertain than the scenario allows.
fn too_wide(point: &Point) -> Option<String> {
    let said: Vec<String> = point
        .gateways()
        .filter(|row| !row.noisy.is_empty())
        .map(|row| format!("{}: {}", row.gateway, row.noisy.join(", ")))
        .collect();
    (!said.is_empty()).then(|| format!("No conclusion from noisy values. {}.", said.join("; ")))
}

/// Formats the mean with its interval, or the bounds of a bounded value.
pub fn with_interval(figure: &Figure, format: impl Fn(f64) -> String) -> String {
    if figure.is_bounded() {
        return bounds_words(&figure.bounds, format);
    }
    let mean = figure.mean.map_or_else(|| "n/a".to_owned(), &format);
    match figure.interval {
        Some([low, high]) => format!("{mean} [{}]", range(&mean, &format(low), &format(high))),
        None => mean,
    }
}

/// Bounds in words: `≤ 1.50 ms`, `≥ 23,000/s`, `0.400–1.50 ms`; empty without bounds.
pub fn bounds_words(bounds: &Range, format: impl Fn(f64) -> String) -> String {
    match (bounds.low, bounds.high) {
        (None, None) => String::new(),
        (None, Some(high)) => format!("≤ {}", format(high)),
        (Some(low), None) => format!("≥ {}", format(low)),
        (Some(low), Some(high)) => {
            let (low, high) = (format(low), format(high));
            let is_number = |c: char| c.is_ascii_digit() || " ,.-".contains(c);
            let unit = |text: &str| text.trim_start_matches(is_number).to_owned();
            match low.strip_suffix(&unit(&high)) {
                _ if low.starts_with('-') => format!("{low} to {high}"),
                Some(number) if unit(&low) == unit(&high) => format!("{}–{high}", number.trim_end()),
                _ => format!("{low}–{high}"),
            }
        }
    }
}

/// Formats `value` relative to `of`: `83.1 %`, `2.40 times`.
fn ratio(value: f64, of: f64) -> String {
    let ratio = value / of;
    if ratio >= 1.0 { format!("{} times", number(ratio)) } else { percent(ratio) }
}

/// Groups names by their reason, in the order of first appearance.
pub(crate) fn by_reason<T: PartialEq>(said: Vec<(T, String)>) -> Vec<(T, Vec<String>)> {
    let mut grouped: Vec<(T, Vec<String>)> = Vec::new();
    for (why, name) in said {
        match grouped.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => grouped.push((why, vec![name])),
        }
    }
    grouped
}

/// Joins names: `a, b and c`.
pub fn join(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
