//! Headroom: curves of latency over throughput, scalability over connections and cores, the cost of routes, and the
//! cost of route changes under load.
//!
//! Curves come from open loads that differ only in their rate, and from closed loads with steps. The knee is drawn, but
//! not used for sizing. A fit reports its deviation from the points, or why there is none.

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

pub use change_cost::{ChangeCost, InForce, Quiet, seen_after};
pub use course::{Course, course};
pub use curves::{CURVE_LATENCIES, Curve, CurveSpot, Knee};
pub use fit::{Fit, fit};
pub use knee::knee;
pub use route_cost::RouteCost;
pub use scalability::{Over, Parameter, Scalability, USL_CORES_MIN, USL_POINTS_MIN, Usl, usl};

/// Headroom of the gateways of a run; empty if the scenario has no such loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headroom {
    /// Latency over throughput: gateways in the scenario's order at each point of the axes, direct last.
    pub curves: Vec<Curve>,
    /// The Universal Scalability Law over connections and cores.
    pub scalability: Vec<Scalability>,
    /// Cost of more routes.
    pub route_costs: Vec<RouteCost>,
    /// Cost of changes under load.
    pub change_costs: Vec<ChangeCost>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// A fit, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fitted<T> {
    /// The fit.
    Fit(T),
    /// Why there is none, in words.
    Refused(String),
}

impl<T> Fitted<T> {
    /// The fit.
    pub fn fit(&self) -> Option<&T> {
        match self {
            Self::Fit(fit) => Some(fit),
            Self::Refused(_) => None,
        }
    }

    /// Why there is none.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Self::Fit(_) => None,
            Self::Refused(why) => Some(why),
        }
    }
}

/// Whether `load` is one of several rates of a load of the scenario. Objectives do not apply to each rate, because the
/// highest ones are beyond any gateway's capacity.
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
    /// Whether the point is one of a curve over rates.
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
