//! How much load a gateway carries before its latency breaks: curves of latency over throughput, what more
//! connections get, what routes cost, and what changes of routes under load cost.
//!
//! Curves are of open loads that differ in nothing but their rate; those of closed loads that climb in steps stand
//! beside them, since the original's did. The knee is drawn and sizes nothing; a fit says how far points lie off it, or why
//! there is none.

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

/// Everything about headroom that a run says; empty where it asks nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Headroom {
    /// Latency over throughput: gateways in the scenario's order at each point of the axes, direct last.
    pub curves: Vec<Curve>,
    /// The Universal Scalability Law over connections and cores.
    pub scalability: Vec<Scalability>,
    /// What more routes cost.
    pub route_costs: Vec<RouteCost>,
    /// What changes under load cost.
    pub change_costs: Vec<ChangeCost>,
    /// Sentences that all of this implies.
    pub conclusions: Vec<String>,
}

/// Something fitted, or why nothing is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fitted<T> {
    /// What fits.
    Fit(T),
    /// Why nothing does, in words.
    Refused(String),
}

impl<T> Fitted<T> {
    /// What fits.
    pub fn fit(&self) -> Option<&T> {
        match self {
            Self::Fit(fit) => Some(fit),
            Self::Refused(_) => None,
        }
    }

    /// Why nothing does.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Self::Fit(_) => None,
            Self::Refused(why) => Some(why),
        }
    }
}

/// Whether `load` is one of several rates of a load of the scenario. An objective is not asked of each of them: the
/// greatest are beyond what any gateway carries.
pub(crate) fn is_one_of_several_rates(run: &Run, load: &str) -> bool {
    curves::family(run, load).is_some()
}

/// What the run says of headroom.
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
