//! Headroom: curves of latency against throughput, scalability with connections and cores, the cost of routes, and the
//! cost of route changes under load.
//!
//! Curves come from open loads that differ only in their rate, and from closed loads with steps. The knee of a curve is
//! drawn, but not used for sizing. A fit reports its deviation from the points. If there is no fit, the reason is
//! reported.

mod change_cost;
mod conclusions;
mod course;
mod curves;
mod fit;
mod knee;
mod least_squares;
mod route_cost;
mod scalability;

use serde::Serialize;
use weir_results::{ArrivalModel, Run};

use crate::experiments::Experiment;
use crate::points::Point;
use crate::points::grouping::Group;

pub(crate) use conclusions::change_sentence;
pub(crate) use route_cost::ratio;

pub use change_cost::{ChangeCost, ChangesOfKind, Quiet, seen_after};
pub use course::{Course, course};
pub use curves::{CURVE_LATENCIES, Curve, CurveSpot, Knee};
pub use fit::{Fit, fit};
pub use knee::knee;
pub use route_cost::RouteCost;
pub use scalability::{Over, Parameter, Scalability, USL_CORES_MIN, USL_POINTS_MIN, Usl, usl};

/// Headroom of the gateways of a run. Each list is empty if the run has no loads for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headroom {
    /// Latency against throughput, one curve per gateway and combination of axes: gateways in the scenario's order, the
    /// direct baseline last.
    pub curves: Vec<Curve>,
    /// Fits of the Universal Scalability Law: throughput by connections and by cores.
    pub scalability: Vec<Scalability>,
    /// Cost of more routes.
    pub route_costs: Vec<RouteCost>,
    /// Cost of route changes under load.
    pub change_costs: Vec<ChangeCost>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// A fit, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fitted<T> {
    /// The points were fitted.
    Fit(T),
    /// The points could not be fitted; the reason in words.
    Refused(String),
}

impl<T> Fitted<T> {
    /// Returns the fit; `None` if there is none.
    pub fn fit(&self) -> Option<&T> {
        match self {
            Self::Fit(fit) => Some(fit),
            Self::Refused(_) => None,
        }
    }

    /// Returns why there is no fit; `None` if there is one.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Self::Fit(_) => None,
            Self::Refused(why) => Some(why),
        }
    }
}

/// Whether the scenario sets several rates for a load, and `load` is one of these rates. Objectives do not apply to
/// such rates, because the highest ones are beyond any gateway's capacity.
pub(crate) fn is_one_of_several_rates(run: &Run, load: &str) -> bool {
    curves::family(run, load).is_some()
}

/// Computes the headroom of a run.
pub(crate) fn find(
    run: &Run,
    groups: &[Group<'_>],
    points: &[Point],
    experiments: &[Experiment],
) -> Headroom {
    let mut headroom = Headroom {
        curves: curves::curves(run, groups, points),
        scalability: curves::scalability(groups, points, experiments),
        route_costs: route_cost::route_costs(points),
        change_costs: change_cost::change_costs(groups),
        conclusions: Vec::new(),
    };
    headroom.conclusions = conclusions::conclude(&headroom);
    headroom
}

impl Headroom {
    /// Whether the load point belongs to a curve of open loads at several rates.
    pub fn has_point(&self, point: &Point) -> bool {
        let is_of = |curve: &&Curve| {
            curve.model == ArrivalModel::Open
                && curve.axes == point.axes
                && point.load.strip_prefix(&curve.load).is_some_and(|rate| rate.starts_with('-'))
        };
        let mut curves = self.curves.iter().filter(is_of);
        curves.any(|curve| curve.spots.iter().any(|spot| spot.asked_per_s == point.rate_per_s))
    }

    /// Whether there is nothing to report about rates, connections and numbers of routes.
    pub fn is_empty(&self) -> bool {
        self.curves.is_empty() && self.scalability.is_empty() && self.route_costs.is_empty()
    }
}
