//! Vertical lines in a chart, which mark events on the horizontal scale.

use crate::model::plot::{Line, Spot};
use crate::model::scale::Scale;

/// A chart [`Line`] that consists of vertical strokes, one at each position in `at`.
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
