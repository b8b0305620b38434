//! Cost of changes under load: errors and p99 near changes, compared with the rest of the phase and with a load without
//! changes.

use serde::Serialize;
use weir_results::{Changed, Measurement, RouteChange};

use super::route_cost::ratio;
use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity::time_ns;
use crate::figures::seconds::{Seconds, of_phase};
use crate::points::axes::Axes;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};

/// Cost of changes to a gateway's routes or other settings during a load. The seconds *near a change*
/// begin when the change is applied, and end one second after it took effect. All values are from the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangeCost {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Name of the load.
    pub load: String,
    /// Number of changes in all measured repeats together.
    pub changes: usize,
    /// Time from applying a change until a request shows its effect, nanoseconds: the mean of each repeat.
    pub seen_after_ns: Figure,
    /// Maximum time from applying a change until a request shows its effect, in all repeats, nanoseconds.
    pub seen_after_ns_max: u64,
    /// Number of errors near changes (failed, timed out, dropped, or an unexpected status), in all repeats together.
    pub errors_near: u64,
    /// Number of requests sent near changes.
    pub sent_near: u64,
    /// Number of errors in the rest of the phase.
    pub errors_rest: u64,
    /// Number of requests sent in the rest of the phase: all seconds that are not near a change.
    pub sent_rest: u64,
    /// p99 of the responses near changes, nanoseconds.
    pub p99_near_ns: Figure,
    /// p99 of the responses in the rest of the phase, nanoseconds.
    pub p99_rest_ns: Figure,
    /// p99 near changes divided by p99 in the rest of the phase, in the same repeat.
    pub p99_ratio: Figure,
    /// Time until changes took effect, for each kind of change.
    // The name in the JSON of reports.
    #[serde(rename = "in_force")]
    pub by_kind: Vec<ChangesOfKind>,
    /// p99 of the whole phase, nanoseconds.
    pub p99_ns: Figure,
    /// The same load without changes; `None` if the scenario has no such load.
    pub quiet: Option<Quiet>,
}

/// Time until changes of one kind took effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangesOfKind {
    /// The kind of change: routes or other settings.
    pub what: Changed,
    /// Number of changes of this kind in all measured repeats together.
    pub changes: usize,
    /// Time from applying a change until a request shows its effect, nanoseconds: the mean of each repeat.
    pub seen_after_ns: Figure,
    /// Maximum time from applying a change until a request shows its effect, in all repeats, nanoseconds.
    pub seen_after_ns_max: u64,
}

/// The same load without changes, in the same repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quiet {
    /// The load's name.
    pub load: String,
    /// Number of errors in all repeats together.
    pub errors: u64,
    /// Number of requests sent in all repeats together.
    pub sent: u64,
    /// p99 of the sustained phase without changes, nanoseconds.
    pub p99_ns: Figure,
    /// p99 of the phase with changes, divided by `p99_ns` of the same repeat.
    pub p99_ratio: Figure,
}

/// Formats the time until a change took effect. Zero means that the first check after applying the change already saw
/// the effect, so the exact time is unknown.
pub fn seen_after(ns: f64) -> String {
    if ns < 0.5 { "at the first check".to_owned() } else { time_ns(ns) }
}

/// The costs, in the order of load points.
pub(super) fn change_costs(groups: &[Group<'_>]) -> Vec<ChangeCost> {
    let of = |group: &Group<'_>| -> Vec<ChangeCost> {
        let changed = |repeats: &&Repeats<'_>| {
            repeats.iter().any(|repeat| !repeat.measurement.route_changes.is_empty())
        };
        let rows = group.rows.iter().filter(|(_, repeats)| changed(&repeats));
        rows.map(|(gateway, repeats)| cost(groups, group, gateway, repeats)).collect()
    };
    groups.iter().flat_map(of).collect()
}

fn cost(groups: &[Group<'_>], group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> ChangeCost {
    let p99_near_ns = p99(repeats, |measurement| split(measurement).0);
    let p99_rest_ns = p99(repeats, |measurement| split(measurement).1);
    let p99_ns = of_the_phase(repeats);
    let mut cost = ChangeCost {
        gateway: gateway.to_owned(),
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        changes: 0,
        seen_after_ns: mean_delay(repeats, |_| true),
        seen_after_ns_max: 0,
        errors_near: 0,
        sent_near: 0,
        errors_rest: 0,
        sent_rest: 0,
        p99_ratio: ratio(&p99_near_ns, &p99_rest_ns),
        p99_near_ns,
        p99_rest_ns,
        by_kind: by_kind(repeats),
        quiet: quiet(groups, group, gateway, &p99_ns),
        p99_ns,
    };
    for measurement in repeats.iter().map(|repeat| repeat.measurement) {
        let sustained = measurement.route_changes.iter().filter(|change| change.sustained);
        for change in sustained {
            cost.changes += 1;
            cost.seen_after_ns_max = cost.seen_after_ns_max.max(change.seen_after_ns);
        }
        let (near, rest) = split(measurement);
        cost.errors_near += near.wrong();
        cost.sent_near += near.sent();
        cost.errors_rest += rest.wrong();
        cost.sent_rest += rest.sent();
    }
    cost
}

/// p99 in a part of the phase: the seconds that `part` selects.
fn p99(repeats: &Repeats<'_>, part: impl Fn(&Measurement) -> Seconds<'_>) -> Figure {
    let of = |repeat: &Repeat<'_>| repeat.judged_part("p99", 0.99, &part(repeat.measurement), &[]);
    Figure::of(repeats.iter().map(of).collect())
}

/// p99 of the whole phase.
fn of_the_phase(repeats: &Repeats<'_>) -> Figure {
    Figure::of(repeats.judged("p99", &|repeat| of_phase(repeat.measurement).latency_ns(0.99)))
}

/// Time until the changes selected by `is_counted` took effect.
fn mean_delay(repeats: &Repeats<'_>, is_counted: impl Fn(&RouteChange) -> bool) -> Figure {
    let of = |repeat: &Repeat<'_>| repeat.judged_time(seen_after_ns(repeat.measurement, &is_counted));
    Figure::of(repeats.iter().map(of).collect())
}

/// Time until changes took effect, by kind of change.
fn by_kind(repeats: &Repeats<'_>) -> Vec<ChangesOfKind> {
    let all = || {
        let changes = repeats.iter().flat_map(|repeat| &repeat.measurement.route_changes);
        changes.filter(|change| change.sustained)
    };
    let mut kinds: Vec<Changed> = all().map(|change| change.what).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |what: Changed| {
        let of_kind = move |change: &RouteChange| change.what == what;
        ChangesOfKind {
            what,
            changes: all().filter(|change| of_kind(change)).count(),
            seen_after_ns: mean_delay(repeats, of_kind),
            seen_after_ns_max: all()
                .filter(|change| of_kind(change))
                .map(|change| change.seen_after_ns)
                .max()
                .unwrap_or(0),
        }
    };
    kinds.into_iter().map(of).collect()
}

/// Finds the same load without changes; `None` if the scenario has no such load.
fn quiet(groups: &[Group<'_>], group: &Group<'_>, gateway: &str, p99_ns: &Figure) -> Option<Quiet> {
    let of_gateway = |other: &Group<'_>| {
        let (_, repeats) = other.rows.iter().find(|(name, _)| *name == gateway)?;
        let is_quiet = repeats.iter().all(|repeat| repeat.measurement.route_changes.is_empty());
        is_quiet.then(|| {
            let quiet_ns = of_the_phase(repeats);
            let total = |of: fn(&Seconds<'_>) -> u64| {
                repeats.iter().map(|repeat| of(&of_phase(repeat.measurement))).sum::<u64>()
            };
            Quiet {
                load: other.load.to_owned(),
                errors: total(|seconds| seconds.wrong()),
                sent: total(|seconds| seconds.sent()),
                p99_ratio: ratio(p99_ns, &quiet_ns),
                p99_ns: quiet_ns,
            }
        })
    };
    groups.iter().filter(|other| group.is_like(other)).find_map(of_gateway)
}

fn seen_after_ns(measurement: &Measurement, of: impl Fn(&RouteChange) -> bool) -> Sample {
    let sustained = measurement.route_changes.iter().filter(|change| change.sustained && of(change));
    let times: Vec<f64> = sustained.map(|change| change.seen_after_ns as f64).collect();
    let mean = (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64);
    mean.into()
}

/// Splits the seconds of the phase into those near changes and the rest. Changes during the warm-up count too, because
/// their effect may extend into the phase.
fn split(measurement: &Measurement) -> (Seconds<'_>, Seconds<'_>) {
    let moments = measurement.route_changes.iter();
    let moments = moments.map(|change| (change.t_s, change.seen_after_ns as f64 / 1e9));
    of_phase(measurement).split_near(&moments.collect::<Vec<_>>())
}
