//! Conclusions about the capacity at an objective (`docs/method.md#conclusions`).

use weir_results::Stopped;

use super::answer::{Capacity, CapacityRow, border_words, stopped_words};
use crate::figures::quantity::rate;
use crate::points::conclusions::{join, ranked, with_interval};

/// Draws the conclusions of a search.
pub(crate) fn conclude(capacity: &Capacity) -> Vec<String> {
    let objective = capacity.objective_words();
    let mut sentences = Vec::new();
    let counting: Vec<&CapacityRow> = capacity.gateways().filter(|row| row.per_s.headline).collect();
    if !counting.is_empty() {
        let said: Vec<String> = counting
            .iter()
            .map(|row| format!("{} {}", row.gateway, with_interval(&row.per_s, rate)))
            .collect();
        sentences.push(format!("Capacity at {objective}: {}.", said.join(", ")));
    }
    let figures = counting.iter().map(|row| (row.gateway.as_str(), &row.per_s)).collect();
    sentences.extend(ranked(figures, "had the highest capacity", true, rate));
    for row in capacity.gateways().filter(|row| !row.per_s.headline) {
        sentences.extend(of_a_border(row));
    }
    let without: Vec<String> = capacity
        .gateways()
        .filter(|row| !row.per_s.headline && of_a_border(row).is_none())
        .map(|row| format!("{} ({} of {} repeats valid)", row.gateway, row.per_s.valid, row.planned))
        .collect();
    if !without.is_empty() {
        sentences.push(format!(
            "No conclusion about the capacity of {}: three valid repeats are required.",
            join(&without)
        ));
    }
    sentences
}

/// States a bound on the capacity instead of the capacity, if all repeats stopped for the same reason. Only these
/// reasons give a bound: a saturated load generator, a saturated upstream, and an objective missed at the lowest rate.
fn of_a_border(row: &CapacityRow) -> Option<String> {
    let [(stopped, _)] = row.stopped()[..] else { return None };
    let borders = matches!(stopped, Stopped::GeneratorLimited | Stopped::UpstreamLimited | Stopped::NeverMet);
    let first = row.searches.iter().filter(|_| borders).min_by(|a, b| {
        let border =
            |found: &weir_results::Found| found.at_least_per_s.or(found.below_per_s).unwrap_or(f64::MAX);
        border(&a.found).total_cmp(&border(&b.found))
    })?;
    let border = border_words(&first.found)?;
    let repeats = if row.searches.len() == 1 { "the only repeat" } else { "every repeat" };
    let why = stopped_words(stopped);
    Some(format!("The capacity of {} is {border} in {repeats}: {why}.", row.gateway))
}
