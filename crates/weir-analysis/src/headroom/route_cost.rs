//! Cost of more routes: CPU time per request with many routes, divided by CPU time per request with few routes, at the
//! same load.

use serde::Serialize;
use serde_json::Value;
use weir_results::{ArrivalModel, Reason};

use crate::figures::figure::Figure;
use crate::points::axes::Axes;
use crate::points::{Point, Row};

/// Axes that set the number of routes.
const ROUTE_PATHS: [&str; 2] = ["topology.paths", "topology.domains"];

/// A gateway with many routes compared with few, at the same offered rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouteCost {
    /// The gateway's name.
    pub gateway: String,
    /// Values of all axes except the number of routes.
    pub axes: Axes,
    /// The axis that sets the number of routes: `topology.paths` or `topology.domains`.
    pub path: String,
    /// The lowest measured number of routes.
    pub few: u64,
    /// The number of routes that is compared with `few`.
    pub many: u64,
    /// Name of the load.
    pub load: String,
    /// Offered rate of the load, requests per second.
    pub rate_per_s: f64,
    /// CPU time per request with `few` routes, microseconds.
    pub few_cpu_us: Figure,
    /// CPU time per request with `many` routes, microseconds.
    pub many_cpu_us: Figure,
    /// `many_cpu_us` divided by `few_cpu_us`, in the same repeat.
    pub ratio: Figure,
}

/// The route costs of every gateway, at every rate that the gateway carries both with few and with many routes.
pub(super) fn route_costs(points: &[Point]) -> Vec<RouteCost> {
    ROUTE_PATHS.iter().flat_map(|path| over(points, path)).collect()
}

fn over(points: &[Point], path: &str) -> Vec<RouteCost> {
    let open = || points.iter().filter(|point| point.model == ArrivalModel::Open);
    let counted = |point: &&Point| point.axes.get(path).and_then(Value::as_u64);
    let mut costs = Vec::new();
    for point in open() {
        let Some(many) = counted(&point) else { continue };
        let others = rest(&point.axes, path);
        let alike = open().filter(|other| other.load == point.load && rest(&other.axes, path) == others);
        let Some(base) = alike.filter(|other| counted(other).is_some()).min_by_key(counted) else { continue };
        let Some((few, rate_per_s)) = counted(&base).zip(point.rate_per_s) else { continue };
        // If rates are shares of the capacity, they may differ by number of routes. Loads whose rates differ are not
        // compared.
        if few == many || base.rate_per_s != point.rate_per_s {
            continue;
        }
        for row in point.gateways().filter(|row| is_carried(row)) {
            let same = base.gateways().find(|other| other.gateway == row.gateway);
            let Some(with_few) = same.filter(|row| is_carried(row)) else { continue };
            costs.push(RouteCost {
                gateway: row.gateway.clone(),
                axes: others.clone(),
                path: path.to_owned(),
                few,
                many,
                load: point.load.clone(),
                rate_per_s,
                few_cpu_us: with_few.cpu_us_per_request.clone(),
                many_cpu_us: row.cpu_us_per_request.clone(),
                ratio: ratio(&row.cpu_us_per_request, &with_few.cpu_us_per_request),
            });
        }
    }
    costs
}

fn rest(axes: &Axes, path: &str) -> Axes {
    let others = axes.iter().filter(|(known, _)| *known != path);
    others.map(|(path, value)| (path.clone(), value.clone())).collect()
}

/// Whether the gateway carried the offered load. CPU time of an overloaded gateway is not comparable.
fn is_carried(row: &Row) -> bool {
    !row.reasons().iter().any(|(reason, _)| *reason == Reason::Overloaded)
}

/// `figure` divided by `base` in the same repeat. Invalid if one of the two values is invalid.
pub(crate) fn ratio(figure: &Figure, base: &Figure) -> Figure {
    Figure::of(figure.paired(base, |value, base| value / base))
}
