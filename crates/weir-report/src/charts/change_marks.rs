//! Marks across a chart: where something happened on its horizontal scale.

use crate::model::plot::{Line, Spot};
use crate::model::scale::Scale;

/// A line from the ground to the top of the scale `y` at each of the places `at`, with gaps between.
pub(crate) fn marks(name: &str, color: &'static str, at: &[f64], y: &Scale) -> Line {
    let mark = |at: &f64| [Spot::at(*at, Some(y.low)), Spot::at(*at, Some(y.high)), Spot::at(*at, None)];
    Line {
        name: name.to_owned(),
        color,
        dashed: true,
        marked: false,
        spots: at.iter().flat_map(mark).collect(),
    }
}
