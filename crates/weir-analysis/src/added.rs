//! Added latency of gateways at fixed rates, and the cost of authentication.
//!
//! A run may measure the direct baseline (without a gateway) in two cells of each block. The difference between these
//! identical cells is the rig's bias. Added latency below the bias is not significant (`docs/method.md#comparison`).

mod authentication;
mod bias;
mod curves;
mod invalid;
mod repeats;

use serde::Serialize;
use weir_results::{ArrivalModel, Run};

use crate::figures::quantity::rate;
use crate::points::Point;
use crate::points::axes::{Axes, axes_words};
use crate::points::grouping::Group;

pub(crate) use authentication::in_words as authentication_apart;
pub use authentication::{AuthenticationCost, CostRow};
pub use bias::{Claim, RigBias};
pub use curves::AddedCurve;
pub use invalid::Side;
pub use repeats::RepeatRow;

pub(crate) use bias::claims;
pub(crate) use curves::common_name;
pub(crate) use invalid::for_want_of_direct;

/// Added latency in all open loads of a run that measures the direct baseline twice in each block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AddedLatency {
    /// Groups of open loads that differ only in their rate.
    pub curves: Vec<AddedCurve>,
    /// Cost of each authentication method; empty if the run measures only one.
    pub costs: Vec<AuthenticationCost>,
    /// Every repeat of every open load, in the order of loads, gateways and repeats.
    pub repeats: Vec<RepeatRow>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// Collects the added latency of a run; `None` if the run measures the direct baseline only once or not at all.
pub(crate) fn find(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Option<AddedLatency> {
    if points.iter().all(|point| point.bias.is_none()) {
        return None;
    }
    let curves = curves::find(run, points);
    let costs = authentication::costs(run, groups, points);
    let mut conclusions: Vec<String> = bias::conclude(points).into_iter().collect();
    for point in points {
        let said = point.bias.as_ref().and_then(|bias| claims(point, bias));
        conclusions.extend(said.map(|said| format!("{}: {said}", place(point))));
    }
    conclusions.extend(costs.iter().filter_map(|cost| cost.conclusion.clone()));
    let open = groups.iter().filter(|group| group.model == ArrivalModel::Open);
    let repeats = open.flat_map(|group| repeats::rows(run, group)).collect();
    Some(AddedLatency { curves, costs, repeats, conclusions })
}

/// A load point in a few words: `get-low at 890/s, limits.data.cpus = 0.5`.
fn place(point: &Point) -> String {
    at(&point.load, point.rate_per_s, &point.axes)
}

fn at(load: &str, rate_per_s: Option<f64>, axes: &Axes) -> String {
    let rate = rate_per_s.map(|per_s| format!(" at {}", rate(per_s))).unwrap_or_default();
    let axes = if axes.is_empty() { String::new() } else { format!(", {}", axes_words(axes)) };
    format!("{load}{rate}{axes}")
}
