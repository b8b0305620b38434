//! Effect of a burst of connections that never send a request.

use weir_results::{Event, LoadSecond, Measurement, SilentBurst};

use super::failover::{P99, disturbed};
use super::model::{Column, Finding, KEEP, Place, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity::{count, percent};
use crate::figures::seconds::{Seconds, of_phase};
use crate::points::axes::with_axes;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};

pub(super) const FINDER: Finder = Finder { key: SilentBurst::KIND, columns: &[&COLUMNS], find };

const INTRO: &str = "\
weir opens TCP connections to the gateway in one burst, sends nothing, and closes them after the configured time. \
Counts of connections cover all repeats. *Refused*: the attempt failed. *Unanswered*: the attempt was neither accepted \
nor refused before the burst ended. *Closed*: the gateway closed the connection before weir did. Errors and p99 are \
from the load, in the seconds during and before the burst.";

static COLUMNS: [Column; 11] = [
    Column::of("load", "Load", Unit::Load, 7),
    Column::of("connections", "Connections", Unit::Count, KEEP),
    Column::of("refused", "Refused", Unit::Count, 6).lower(),
    Column::of("unanswered", "Unanswered", Unit::Count, 6).lower(),
    Column::of("closed", "Closed", Unit::Count, 8),
    Column::of("opened_after", "All opened after", Unit::Nanoseconds, 5)
        .lower()
        .compared("silent-connections.opened_after", 0.25),
    Column::of("errors", "Errors during", Unit::Share, KEEP).lower(),
    Column::of("errors_before", "Errors before", Unit::Share, 4).lower(),
    Column::of("p99", "p99 during", Unit::Nanoseconds, KEEP)
        .lower()
        .judged("silent-connections.p99", 0.25)
        .drawn(),
    Column::of("p99_before", "p99 before", Unit::Nanoseconds, 7).lower(),
    Column::of("valid", "Valid repeats", Unit::Text, 6),
];

/// The burst in one repeat.
struct Burst<'a> {
    repeat: &'a Repeat<'a>,
    outcome: SilentBurst,
    during: Seconds<'a>,
    before: Seconds<'a>,
}

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Silent connections", INTRO);
    for group in measured.groups {
        let rows = group.rows.iter().filter_map(|(gateway, repeats)| row(group, gateway, repeats));
        let (rows, sentences): (Vec<Row>, Vec<String>) = rows.unzip();
        if rows.is_empty() {
            continue;
        }
        let place = Place { axes: group.axes.clone(), load: group.load.to_owned() };
        let caption = format!("Burst of silent connections: {}", place.words());
        finding.tables.push(Table { caption, columns: &COLUMNS, rows });
        finding.sentences.extend(sentences);
        finding.breaks.push(place);
    }
    (!finding.tables.is_empty()).then_some(finding)
}

/// The table row of a gateway, and a sentence with its results; `None` without a burst.
fn row(group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> Option<(Row, String)> {
    let bursts: Vec<Burst<'_>> = repeats.iter().filter_map(burst).collect();
    if bursts.is_empty() {
        return None;
    }
    let total =
        |of: fn(&SilentBurst) -> u32| bursts.iter().map(|burst| u64::from(of(&burst.outcome))).sum::<u64>();
    let p99 = |part: for<'a, 'b> fn(&'a Burst<'b>) -> &'a Seconds<'b>| {
        let repeated = bursts.iter().map(|burst| disturbed(burst.repeat, P99, part(burst)));
        Figure::of(repeated.collect()).headline_if(true)
    };
    let errors = |of: fn(&Burst<'_>) -> [u64; 2]| {
        let [part, of] = bursts.iter().map(of).fold([0, 0], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
        Value::Part { part, of }
    };
    let opened_after = |burst: &Burst<'_>| {
        burst.repeat.judged_time(match burst.outcome.opened_after_ns {
            0 => Sample::Missing,
            ns => Sample::Value(ns as f64),
        })
    };
    let opened_after = Figure::of(bursts.iter().map(opened_after).collect());
    let [p99, p99_before] = [p99(|burst| &burst.during), p99(|burst| &burst.before)];
    let during = errors(|burst| [burst.during.wrong(), burst.during.sent()]);
    let before = errors(|burst| [burst.before.wrong(), burst.before.sent()]);
    let [connections, opened, closed] =
        [total(|of| of.connections), total(|of| of.opened), total(|of| of.closed_by_gateway)];
    let shares = [&during, &before].map(|share| share.as_number().map_or("n/a".to_owned(), percent));
    let sentence = format!(
        "{}: {} of {} silent connections were opened, and the gateway closed {} of them; {} of the requests failed \
         during the burst, {} before.",
        with_axes(gateway, group.axes),
        count(opened),
        count(connections),
        count(closed),
        shares[0],
        shares[1],
    );
    let values = vec![
        Value::Missing,
        Value::count(connections),
        Value::count(total(|of| of.refused)),
        Value::count(total(|of| of.unanswered)),
        Value::count(closed),
        Value::figure(&opened_after),
        during,
        before,
        Value::figure(&p99),
        Value::figure(&p99_before),
        Value::valid(&p99, false),
    ];
    let row =
        Row { gateway: gateway.to_owned(), load: group.load.to_owned(), axes: group.axes.clone(), values };
    Some((row, sentence))
}

fn burst<'a>(repeat: &'a Repeat<'a>) -> Option<Burst<'a>> {
    let event = repeat.measurement.events.iter().find(|event| event.kind == SilentBurst::KIND)?;
    let outcome: SilentBurst = serde_json::from_value(event.details.clone()).ok()?;
    let end_s = event.t_s + outcome.held_ns as f64 / 1e9;
    let [during, before] = split(repeat.measurement, event, end_s);
    Some(Burst { repeat, outcome, during, before })
}

/// Returns two lists of sustained seconds: those during the burst, and those before it.
fn split<'a>(measurement: &'a Measurement, event: &Event, end_s: f64) -> [Seconds<'a>; 2] {
    let sustained = || of_phase(measurement).0.into_iter().filter(|second| second.sustained);
    let is_before = |second: &&LoadSecond| second.t_s + second.length_s <= event.t_s;
    let is_during = |second: &&LoadSecond| !is_before(second) && second.t_s < end_s;
    [Seconds(sustained().filter(is_during).collect()), Seconds(sustained().filter(is_before).collect())]
}
