//! Vertical marks across a chart, at events on its horizontal scale.

use crate::model::plot::{Line, Spot};
use crate::model::scale::Scale;

/// A vertical line over the whole scale `y` at each position of `at`, with gaps between them.
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
