//! What changes of routes under load cost: errors and p99 around them against the rest of the same phase.

use serde::Serialize;
use weir_results::{LoadSecond, Measurement, Reason, new_histogram, quantile_ns};

use super::route_cost::ratio;
use crate::figure::{Figure, Repeated, Sample};
use crate::grouping::Group;
use crate::measured::{Repeat, Repeats};
use crate::reasons::Metric;
use crate::summary::Axes;

/// How long after it was in force a change is still near, seconds.
const NEAR_AFTER_S: f64 = 1.0;

/// A gateway whose routes changed while a load ran. Near a change are the seconds from its application to one second
/// after it was in force; all figures are of the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeCost {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// The load.
    pub load: String,
    /// Changes over all measured repeats.
    pub changes: usize,
    /// From the application of a change to a request that found it in force: the mean of each repeat, nanoseconds.
    pub seen_after_ns: Figure,
    /// The longest of these over all repeats, nanoseconds.
    pub seen_after_ns_max: u64,
    /// Requests near changes that went wrong (failed, timed out, dropped, or an unexpected status), over all repeats.
    pub errors_near: u64,
    /// Requests sent near changes.
    pub sent_near: u64,
    /// Requests that went wrong in the rest.
    pub errors_rest: u64,
    /// Requests sent in the rest.
    pub sent_rest: u64,
    /// p99 of the responses near changes, nanoseconds.
    pub p99_near_ns: Figure,
    /// p99 of the responses in the rest, nanoseconds.
    pub p99_rest_ns: Figure,
    /// The former over the latter, in the same repeat.
    pub p99_ratio: Figure,
}

/// Seconds of a phase, near changes or not.
struct Share<'a>(Vec<&'a LoadSecond>);

/// The costs, in the order of load points.
pub(super) fn change_costs(groups: &[Group<'_>]) -> Vec<ChangeCost> {
    let of = |group: &Group<'_>| -> Vec<ChangeCost> {
        let changed = |repeats: &&Repeats<'_>| {
            repeats.iter().any(|repeat| !repeat.measurement.route_changes.is_empty())
        };
        let rows = group.rows.iter().filter(|(_, repeats)| changed(&repeats));
        rows.map(|(gateway, repeats)| cost(group, gateway, repeats)).collect()
    };
    groups.iter().flat_map(of).collect()
}

fn cost(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> ChangeCost {
    let figure = |reasons: &dyn Fn(&Repeat<'_>) -> Vec<Reason>, of: &dyn Fn(&Measurement) -> Option<f64>| {
        let repeated = repeats.iter().map(|repeat| Repeated {
            repeat: repeat.cell.key.repeat,
            sample: Sample::from(of(repeat.measurement)),
            reasons: reasons(repeat),
        });
        Figure::of(repeated.collect())
    };
    let of_latency = |repeat: &Repeat<'_>| repeat.reasons(Metric::Latency).to_vec();
    // How long a change takes is no figure of the load.
    let of_nothing = |_: &Repeat<'_>| Vec::new();
    let p99_near_ns = figure(&of_latency, &|measurement| split(measurement).0.p99_ns());
    let p99_rest_ns = figure(&of_latency, &|measurement| split(measurement).1.p99_ns());
    let mut cost = ChangeCost {
        gateway: gateway.to_owned(),
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        changes: 0,
        seen_after_ns: figure(&of_nothing, &seen_after_ns),
        seen_after_ns_max: 0,
        errors_near: 0,
        sent_near: 0,
        errors_rest: 0,
        sent_rest: 0,
        p99_ratio: ratio(&p99_near_ns, &p99_rest_ns),
        p99_near_ns,
        p99_rest_ns,
    };
    for measurement in repeats.iter().map(|repeat| repeat.measurement) {
        let sustained = measurement.route_changes.iter().filter(|change| change.sustained);
        for change in sustained {
            cost.changes += 1;
            cost.seen_after_ns_max = cost.seen_after_ns_max.max(change.seen_after_ns);
        }
        let (near, rest) = split(measurement);
        cost.errors_near += near.errors();
        cost.sent_near += near.sent();
        cost.errors_rest += rest.errors();
        cost.sent_rest += rest.sent();
    }
    cost
}

fn seen_after_ns(measurement: &Measurement) -> Option<f64> {
    let sustained = measurement.route_changes.iter().filter(|change| change.sustained);
    let times: Vec<f64> = sustained.map(|change| change.seen_after_ns as f64).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

/// The sustained seconds near changes, and the rest. A change of the warm-up reaches into the phase, too.
fn split(measurement: &Measurement) -> (Share<'_>, Share<'_>) {
    let is_near = |second: &&LoadSecond| {
        measurement.route_changes.iter().any(|change| {
            let until_s = change.t_s + change.seen_after_ns as f64 / 1e9 + NEAR_AFTER_S;
            second.t_s < until_s && change.t_s < second.t_s + second.length_s
        })
    };
    let sustained = measurement.record.seconds.iter().filter(|second| second.sustained);
    let (near, rest) = sustained.partition(is_near);
    (Share(near), Share(rest))
}

impl Share<'_> {
    fn sent(&self) -> u64 {
        self.0.iter().map(|second| second.sent).sum()
    }

    fn lost(&self) -> u64 {
        self.0.iter().map(|second| second.lost).sum()
    }

    fn errors(&self) -> u64 {
        self.lost() + self.0.iter().map(|second| second.unexpected).sum::<u64>()
    }

    /// Histograms are added; what was never answered ranks last.
    fn p99_ns(&self) -> Option<f64> {
        let mut merged = new_histogram();
        for second in &self.0 {
            let Ok(histogram) = second.latency.decode() else { continue };
            let _ = merged.add(&histogram);
        }
        if merged.is_empty() {
            return None;
        }
        quantile_ns(&merged, self.lost(), 0.99).map(|ns| ns as f64)
    }
}
