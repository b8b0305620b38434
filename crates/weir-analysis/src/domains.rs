//! What gateways carry at each limit with what they are configured for, and what their start and their configuration take
//! (report R5). Runs that measure starts have it.

mod carried;
mod starts;

use serde::Serialize;
use weir_results::{Cell, Role, Run};

use crate::conclusions::with_interval;
use crate::grouping::Group;
use crate::quantity::bytes;
use crate::summary::{Axes, Point, axes_words};

pub use carried::{CarriedLoad, CarriedRow};
pub use starts::{StartRow, Starts};

/// The axis of the data plane's CPU limit.
const LIMIT: &str = "limits.data.cpus";

/// Loads over the limits of the data plane, and starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ManyDomains {
    /// Each load at each value of the other axes.
    pub loads: Vec<CarriedLoad>,
    /// How gateways start, at each value of the other axes.
    pub starts: Vec<Starts>,
    /// Sentences that the figures imply.
    pub conclusions: Vec<String>,
}

/// Collects them; `None` where no start was measured.
pub(crate) fn find(run: &Run, cells: &[Cell], groups: &[Group<'_>], points: &[Point]) -> Option<ManyDomains> {
    if cells.iter().all(|cell| cell.cold_start.is_none()) {
        return None;
    }
    let starts = starts::find(run, cells);
    let conclusions = starts.iter().flat_map(conclude).collect();
    Some(ManyDomains { loads: carried::find(run, groups, points), starts, conclusions })
}

/// What the configuration holds, of each gateway at its greatest limit.
fn conclude(starts: &Starts) -> Vec<String> {
    let is_last = |(place, row): &(usize, &StartRow)| {
        starts.rows.get(place + 1).is_none_or(|next| next.gateway != row.gateway)
    };
    let said = |(_, row): (usize, &StartRow)| {
        let more = row.configuration_memory_bytes.as_ref().filter(|more| more.headline)?;
        Some(format!(
            "{} uses {} more memory with {} than with one domain, before any load.",
            row.gateway,
            with_interval(more, bytes),
            axes_words(&starts.axes)
        ))
    };
    starts.rows.iter().enumerate().filter(is_last).filter_map(said).collect()
}

/// The CPU limit of a cell's data plane: of its axis, else that with which it was started.
fn limit_cpus(cell: &Cell) -> Option<f64> {
    let axis = cell.key.axes.get(LIMIT).and_then(serde_json::Value::as_f64);
    let data = cell.parts.iter().filter(|part| part.role == Role::Data);
    axis.or_else(|| data.map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cpus| *cpus > 0.0))
}

/// The order of limits: from the least, and none at all last.
fn by_limit(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY))
}

fn without_limit(axes: &Axes) -> Axes {
    axes.iter()
        .filter(|(path, _)| *path != LIMIT)
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect()
}
