//! Open loads that differ only in their rate.

use serde::Serialize;
use serde_json::Value;
use weir_results::{ArrivalModel, Run};

use super::authentication;
use crate::points::Point;
use crate::points::axes::{Axes, axes_words};

/// Load points that differ only in their rate, ascending.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AddedCurve {
    /// What these load points have in common: the prefix of the load names, the authentication if an axis selects it,
    /// and the values of all other axes except rates.
    pub title: String,
    /// Indices of the curve's load points in the summary's `points`, by ascending rate.
    pub points: Vec<usize>,
}

/// Assigns each open load point to one curve.
pub(super) fn find(run: &Run, points: &[Point]) -> Vec<AddedCurve> {
    let mut found: Vec<(Value, Axes, Vec<usize>)> = Vec::new();
    for (place, point) in points.iter().enumerate() {
        if point.model != ArrivalModel::Open || point.rate_per_s.is_none() {
            continue;
        }
        let (kind, axes) = (kind(run, &point.load), without_rates(&point.axes));
        match found.iter_mut().find(|(known, of, _)| *known == kind && *of == axes) {
            Some((_, _, places)) => places.push(place),
            None => found.push((kind, axes, vec![place])),
        }
    }
    found
        .into_iter()
        .map(|(_, axes, mut places)| {
            let rate = |place: &usize| points[*place].rate_per_s.unwrap_or_default();
            places.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
            let names: Vec<&str> = places.iter().map(|place| points[*place].load.as_str()).collect();
            let (shown, others) = authentication::apart(run, &axes);
            let words = [common_name(&names), shown.unwrap_or_default(), axes_words(&others)];
            let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
            AddedCurve { title: words.join("; "), points: places }
        })
        .collect()
}

/// A key that is equal for all loads of one curve: the fields of the load without `rate` and `duration`. If the
/// scenario does not define the load, the key is its name, so the load forms its own curve.
fn kind(run: &Run, load: &str) -> Value {
    match run.scenario.get("loads").and_then(|loads| loads.get(load)) {
        Some(Value::Object(written)) => {
            let mut kind = written.clone();
            kind.remove("rate");
            kind.remove("duration");
            Value::Object(kind)
        }
        _ => load.into(),
    }
}

fn without_rates(axes: &Axes) -> Axes {
    let is_rate = |path: &str| path.starts_with("loads.") && path.ends_with(".rate");
    axes.iter()
        .filter(|(path, _)| !is_rate(path))
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect()
}

/// The common prefix of the names, without a trailing separator.
pub(crate) fn common_name(names: &[&str]) -> String {
    let Some((first, others)) = names.split_first() else { return String::new() };
    let alike = |other: &&str| first.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    // Names of loads are ASCII, so every index is a character boundary.
    let length = others.iter().map(alike).min().unwrap_or(first.len());
    first.get(..length).unwrap_or_default().trim_end_matches(['-', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_common_prefix_of_the_names() {
        assert_eq!(common_name(&["get-10", "get-30", "get-50"]), "get");
        assert_eq!(common_name(&["get-10"]), "get-10");
        assert_eq!(common_name(&["low", "high"]), "");
        assert_eq!(common_name(&[]), "");
    }
}
