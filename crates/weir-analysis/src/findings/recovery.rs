//! Recovery time of gateways after a fault of the upstream or of a service.

use weir_results::{FaultAction, FaultEvent, LoadSecond, Measurement};

use super::failover::{P50, disturbed, fault_words};
use super::model::{Column, Finding, KEEP, Place, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::quantity::{counted, time_ns};
use crate::figures::seconds::{Lasts, Seconds, of_phase};
use crate::points::axes::with_axes;
use crate::points::conclusions::with_interval;
use crate::points::grouping::Group;
use crate::points::measured::Repeats;

pub(super) const FINDER: Finder = Finder { key: "recovery", columns: &[&COLUMNS], find };

/// A second is slow if its p50 is more than this factor times the p50 before the first fault, and also more than
/// [`P50_MORE_NS`] above it.
const P50_GROWTH: f64 = 2.0;
/// Minimum increase of a slow second's p50, nanoseconds. Smaller increases do not count, because a busy host can double
/// a p50 of 50 µs for a second.
const P50_MORE_NS: f64 = 1e6;

/// Minimum number of responses in a second whose p50 is checked. With fewer responses, the median can double by chance:
/// with exponential latencies, the probability is 1e-4 for 50 responses and 1e-2 for 20.
const RESPONSES_MIN: u64 = 50;

/// Resolution: errors and latency are counted in whole seconds.
const RESOLUTION_S: f64 = 1.0;

const INTRO: &str = "\
Time from a fault to the end of the last second with an error or a slow p50. A p50 is slow if it is more than twice \
the p50 before the first fault, and more than 1 ms above it. weir checks until the next server or service fails, or \
until the load ends. The time can therefore include the return of the failed server or service. Times are in whole \
seconds, so times below one second count as equal. The time includes the request timeout if requests to the failed \
server time out. *Not recovered*: errors or a slow p50 still occur in the last checked second.";

static COLUMNS: [Column; 4] = [
    Column::of("fault", "Fault", Unit::Text, KEEP),
    Column::of("errors", "Errors", Unit::Share, 6).lower(),
    Column::of("time", "Recovered within", Unit::Seconds, KEEP)
        .lower()
        .judged("recovery.time", 0.25)
        .above(RESOLUTION_S)
        .beyond("not recovered")
        .drawn(),
    Column::of("valid", "Valid repeats", Unit::Text, 7),
];

/// A fault that stops a server or service, with the per-second records of the load from this fault to the next such
/// fault. The server or service may return in between.
struct Stage<'a> {
    fault: &'a FaultEvent,
    seconds: Seconds<'a>,
}

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Recovery after faults", INTRO);
    for group in measured.groups {
        let rows: Vec<Row> =
            group.rows.iter().flat_map(|(gateway, repeats)| rows(group, gateway, repeats)).collect();
        if rows.is_empty() {
            continue;
        }
        let place = Place { axes: group.axes.clone(), load: group.load.to_owned() };
        let caption = format!("Time to recover: {}", place.words());
        finding.sentences.extend(rows.iter().map(|row| sentence(group, row)));
        finding.tables.push(Table { caption, columns: &COLUMNS, rows });
    }
    (!finding.tables.is_empty()).then_some(finding)
}

/// A row for each fault that stops a server or service.
fn rows(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> Vec<Row> {
    let all: Vec<_> = repeats.iter().map(|repeat| (repeat, stages(repeat.measurement))).collect();
    let most = all.iter().map(|(_, stages)| stages.len()).max().unwrap_or(0);
    let row = |place: usize| {
        let here = || all.iter().filter_map(|(repeat, stages)| Some((*repeat, stages.get(place)?)));
        let fault = here().next()?.1.fault;
        let words = fault_words(&fault.target, fault.action);
        let [wrong, ended] = [Seconds::wrong, Seconds::ended]
            .map(|count| here().map(|(_, stage)| count(&stage.seconds)).sum::<u64>());
        let time = here().map(|(repeat, stage)| {
            // The recovery time is computed from errors and p50. If noise may have changed p50, the recovery time is
            // invalid.
            let p50 = disturbed(repeat, P50, &of_phase(repeat.measurement));
            let sample = stage.recovered_within(p50_before(repeat.measurement));
            Repeated { sample, range: Range::default(), ..p50 }
        });
        let time = Figure::of_difference(time.collect()).headline_if(true).not_below(0.0);
        let mut axes = group.axes.clone();
        axes.insert("fault".to_owned(), format!("{}: {words}", place + 1).into());
        let values = vec![
            Value::text(words),
            Value::Part { part: wrong, of: ended },
            Value::figure(&time),
            Value::valid(&time, false),
        ];
        Some(Row { gateway: gateway.to_owned(), load: group.load.to_owned(), axes, values })
    };
    (0..most).filter_map(row).collect()
}

/// Faults that stop a server or service, each with the seconds until the next one.
fn stages(measurement: &Measurement) -> Vec<Stage<'_>> {
    let takes_away = |fault: &&FaultEvent| fault.action != FaultAction::Return;
    let faults: Vec<&FaultEvent> = measurement.faults.iter().filter(takes_away).collect();
    let ends = faults.iter().skip(1).map(|next| next.t_s).chain([f64::INFINITY]);
    let stages = faults.iter().zip(ends).map(|(fault, end_s)| {
        let is_here = |second: &&LoadSecond| {
            let second_end_s = second.t_s + second.length_s;
            fault.t_s < second_end_s && second_end_s <= end_s
        };
        Stage { fault, seconds: Seconds(of_phase(measurement).0.into_iter().filter(is_here).collect()) }
    });
    stages.collect()
}

/// p50 of the sustained seconds before the first fault, nanoseconds; `None` if there are no such seconds.
fn p50_before(measurement: &Measurement) -> Option<f64> {
    let first = measurement.faults.first()?;
    let is_before = |second: &&LoadSecond| second.t_s + second.length_s <= first.t_s;
    let before = Seconds(of_phase(measurement).0.into_iter().filter(is_before).collect());
    match before.latency_ns(0.5) {
        Sample::Value(ns) => Some(ns),
        Sample::BeyondTimeout | Sample::Missing => None,
    }
}

impl Stage<'_> {
    /// Time from the fault to the end of the last second with errors or a slow p50, seconds. Beyond the measured range
    /// if no normal second follows.
    fn recovered_within(&self, p50_before_ns: Option<f64>) -> Sample {
        let is_slow = |second: &LoadSecond| {
            second.completed >= RESPONSES_MIN
                && match (Seconds(vec![second]).latency_ns(0.5), p50_before_ns) {
                    (Sample::Value(ns), Some(before)) => ns > (before * P50_GROWTH).max(before + P50_MORE_NS),
                    (Sample::BeyondTimeout, _) => true,
                    _ => false,
                }
        };
        match self.seconds.disturbed(is_slow) {
            _ if !self.seconds.0.iter().any(|second| second.sustained) => Sample::Missing,
            Lasts::Never => Sample::Value(0.0),
            Lasts::Until(last) => Sample::Value(last.t_s + last.length_s - self.fault.t_s),
            Lasts::ToTheEnd => Sample::BeyondTimeout,
        }
    }
}

fn sentence(group: &Group<'_>, row: &Row) -> String {
    let who = with_axes(&row.gateway, group.axes);
    let [Value::Text { text: fault }, _, Value::Figure { figure }, ..] = row.values.as_slice() else {
        return String::new();
    };
    let seconds = |s: f64| time_ns(s * 1e9);
    match figure.mean {
        _ if figure.beyond_timeout => {
            let never = figure.repeats.iter().filter(|repeat| repeat.sample == Sample::BeyondTimeout).count();
            let repeats = counted(figure.repeats.len() as u64, "repeat");
            format!("{who}: {fault}: not recovered in {never} of {repeats}.")
        }
        Some(0.0) => format!("{who}: {fault}: no errors and no slow seconds."),
        Some(_) => format!("{who}: {fault}: recovered within {}.", with_interval(figure, seconds)),
        None => format!("{who}: {fault}: not measured."),
    }
}
