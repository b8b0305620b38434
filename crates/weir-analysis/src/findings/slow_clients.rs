//! Cost of slow clients: latency and errors of a load, and the gateway's memory, compared with the same load without
//! slow clients.

use serde::Serialize;
use weir_results::{SlowClients, SlowCounts};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity::{bytes, count, counted, time_ns};
use crate::figures::seconds::{Seconds, of_phase};
use crate::points::axes::{Axes, with_axes};
use crate::points::conclusions::with_interval;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::verdicts::reasons::value;

/// A gateway at a load with slow clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowCost {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Name of the load.
    pub load: String,
    /// Outcomes of the slow clients, summed over all repeats. Only the number of concurrent connections is per repeat.
    pub clients: SlowClients,
    /// Results of the load with slow clients.
    pub beside: Carried,
    /// The same load without slow clients; `None` if the scenario has no such load.
    pub alone: Option<Alone>,
    /// The conclusion in one sentence.
    pub conclusion: String,
}

/// Results of a load with or without slow clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Carried {
    /// Number of errors in all repeats together.
    pub errors: u64,
    /// Number of requests sent in all repeats together.
    pub sent: u64,
    /// p99 of the sustained phase, nanoseconds.
    pub p99_ns: Figure,
    /// Peak memory of the data plane, without page cache, bytes.
    pub memory_bytes_peak: Figure,
}

/// The same load without slow clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Name of the load without slow clients.
    pub load: String,
    /// Results of the load without slow clients.
    pub carried: Carried,
    /// Memory per slow client, bytes. In each repeat, the peak without slow clients is subtracted from the peak with
    /// them. The difference is divided by the mean number of slow clients that are still connected at the end.
    pub memory_bytes_per_client: Figure,
}

/// Finds the cost of slow clients; see [`SlowCost`].
pub(super) const FINDER: Finder = Finder { key: "slow-clients", columns: &[&COST, &CLIENTS], find };

const INTRO: &str = "\
Slow clients send request headers or bodies, or read responses, in small pieces while weir measures a load. The table \
compares this load with the same load without slow clients, on the same processes: errors, p99, and peak memory of the \
data plane. Memory per client is the difference of the peaks, divided by the number of slow clients. Direct cells have \
no slow clients.";

static COST: [Column; 9] = [
    Column::of("load", "Load", Unit::Load, 5),
    Column::of("clients", "Slow clients", Unit::Count, KEEP),
    Column::of("errors", "Errors", Unit::Share, KEEP).lower(),
    Column::of("errors_alone", "Errors without", Unit::Share, 4).lower(),
    Column::of("p99", "p99", Unit::Nanoseconds, KEEP).lower().compared("slow-clients.p99", 0.25),
    Column::of("p99_alone", "p99 without", Unit::Nanoseconds, 7)
        .lower()
        .compared("slow-clients.p99_alone", 0.25),
    Column::of("memory", "Memory", Unit::Bytes, 6).lower().compared("slow-clients.memory", 0.10),
    Column::of("memory_alone", "Memory without", Unit::Bytes, 6)
        .lower()
        .compared("slow-clients.memory_alone", 0.10),
    Column::of("memory_per_client", "Memory per client", Unit::Bytes, KEEP)
        .lower()
        .judged("slow-clients.memory_per_client", 0.10)
        .drawn(),
];

static CLIENTS: [Column; 9] = [
    Column::of("load", "Load", Unit::Load, 5),
    Column::of("slow", "Slow", Unit::Text, KEEP),
    Column::of("concurrent", "Concurrent", Unit::Count, KEEP),
    Column::of("connections", "Connections", Unit::Count, 6),
    Column::of("answered", "Answered", Unit::Count, KEEP),
    Column::of("unexpected", "Unexpected status", Unit::Count, 7),
    Column::of("disconnected", "Disconnected", Unit::Count, 7),
    Column::of("refused", "Refused", Unit::Count, 7),
    Column::of("open_at_end", "Open at the end", Unit::Count, 5),
];

fn find(measured: &Measured<'_>, former: &mut Former) -> Option<Finding> {
    let costs = costs(measured.groups);
    if costs.is_empty() {
        return None;
    }
    let mut finding = Finding::new(FINDER.key, "Slow clients", INTRO);
    finding.sentences = costs.iter().map(|cost| cost.conclusion.clone()).collect();
    finding.tables = vec![
        Table {
            caption: "Cost of slow clients".to_owned(),
            columns: &COST,
            rows: costs.iter().map(SlowCost::row).collect(),
        },
        Table {
            caption: "Outcomes of slow clients, all repeats".to_owned(),
            columns: &CLIENTS,
            rows: costs.iter().flat_map(SlowCost::rows_by_kind).collect(),
        },
    ];
    former.slow = costs;
    Some(finding)
}

/// The costs, in the order of load points.
fn costs(groups: &[Group<'_>]) -> Vec<SlowCost> {
    let of = |group: &Group<'_>| -> Vec<SlowCost> {
        let rows = group.rows.iter().filter(|(_, repeats)| has_slow(repeats));
        rows.map(|(gateway, repeats)| cost(groups, group, gateway, repeats)).collect()
    };
    groups.iter().flat_map(of).collect()
}

impl Carried {
    fn errors_of_sent(&self) -> Value {
        Value::Part { part: self.errors, of: self.sent }
    }
}

impl SlowCost {
    /// Outcomes of slow clients of all kinds together.
    pub fn total(&self) -> SlowCounts {
        self.clients.total()
    }

    fn row(&self) -> Row {
        let alone = self.alone.as_ref();
        let without = |of: fn(&Alone) -> &Figure| Value::optional(alone.map(of));
        let values = vec![
            Value::Missing,
            Value::count(u64::from(self.total().connections)),
            self.beside.errors_of_sent(),
            alone.map_or(Value::Missing, |alone| alone.carried.errors_of_sent()),
            Value::figure(&self.beside.p99_ns),
            without(|alone| &alone.carried.p99_ns),
            Value::figure(&self.beside.memory_bytes_peak),
            without(|alone| &alone.carried.memory_bytes_peak),
            without(|alone| &alone.memory_bytes_per_client),
        ];
        Row { gateway: self.gateway.clone(), load: self.load.clone(), axes: self.axes.clone(), values }
    }

    fn rows_by_kind(&self) -> Vec<Row> {
        let SlowClients { heads, bodies, responses } = self.clients;
        let kinds = [("heads", heads), ("bodies", bodies), ("responses", responses)];
        let row = |(kind, counts): (&str, SlowCounts)| {
            let counts = [
                u64::from(counts.connections),
                counts.opened,
                counts.answered,
                counts.unexpected,
                counts.broken,
                counts.refused,
                counts.open_at_end,
            ];
            let values = [Value::Missing, Value::text(kind)].into_iter().chain(counts.map(Value::count));
            let (gateway, load, mut axes) = (self.gateway.clone(), self.load.clone(), self.axes.clone());
            axes.insert("slow".to_owned(), kind.into());
            Row { gateway, load, axes, values: values.collect() }
        };
        kinds.into_iter().filter(|(_, counts)| counts.connections > 0).map(row).collect()
    }
}

fn has_slow(repeats: &Repeats<'_>) -> bool {
    repeats.iter().any(|repeat| repeat.measurement.slow.is_some())
}

fn cost(groups: &[Group<'_>], group: &Group<'_>, gateway: &str, repeats: &Repeats<'_>) -> SlowCost {
    let beside = carried(repeats);
    let repeated = repeats.iter().count().max(1) as f64;
    let alone = |other: &Group<'_>| {
        let repeats = other.repeats(gateway).filter(|repeats| !has_slow(repeats))?;
        let carried = carried(repeats);
        let there = clients(group, gateway).total().open_at_end as f64 / repeated;
        let memory_bytes_per_client = per_client(&beside, &carried, there);
        Some(Alone { load: other.load.to_owned(), carried, memory_bytes_per_client })
    };
    let mut cost = SlowCost {
        gateway: gateway.to_owned(),
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        clients: clients(group, gateway),
        alone: groups.iter().filter(|other| group.is_like(other)).find_map(alone),
        beside,
        conclusion: String::new(),
    };
    cost.conclusion = conclude(&cost);
    cost
}

/// States errors and p99 with and without slow clients, and the memory per client.
fn conclude(cost: &SlowCost) -> String {
    let who = with_axes(&cost.gateway, &cost.axes);
    let total = cost.total();
    let ended_early = match total.refused + total.broken + total.unexpected {
        0 => String::new(),
        ended => format!(" ({} of their connections ended early or were refused)", count(ended)),
    };
    let clients = format!("with {}{ended_early}", counted(u64::from(total.connections), "slow client"));
    let wrong = |carried: &Carried| format!("{} of {}", count(carried.errors), count(carried.sent));
    let Some(alone) = &cost.alone else {
        return format!("{who}: {} requests of load `{}` failed {clients}.", wrong(&cost.beside), cost.load);
    };
    let counts = |figure: &Figure| figure.is_valid() && figure.mean.is_some();
    let (slow_ns, alone_ns) = (&cost.beside.p99_ns, &alone.carried.p99_ns);
    let p99 = match (counts(slow_ns) && counts(alone_ns), slow_ns.overlaps(alone_ns)) {
        (false, _) => "latencies are not compared, because one is invalid".to_owned(),
        (true, apart) => {
            let overlap = if apart == Some(false) { "" } else { "; the intervals overlap" };
            let (slow, alone) = (with_interval(slow_ns, time_ns), with_interval(alone_ns, time_ns));
            format!("p99 is {slow} (without slow clients: {alone}{overlap})")
        }
    };
    let each = &alone.memory_bytes_per_client;
    let memory = match counts(each) {
        true => format!("; {} of memory per slow client", with_interval(each, bytes)),
        false => String::new(),
    };
    format!(
        "{who}: {clients}, {} requests failed (without slow clients: {}); {p99}{memory}.",
        wrong(&cost.beside),
        wrong(&alone.carried)
    )
}

fn carried(repeats: &Repeats<'_>) -> Carried {
    let total = |of: fn(&Seconds<'_>) -> u64| {
        repeats.iter().map(|repeat| of(&of_phase(repeat.measurement))).sum::<u64>()
    };
    let memory = |repeat: &Repeat<'_>| repeat.data()?.memory_bytes_peak.map(|bytes| bytes as f64);
    Carried {
        errors: total(|seconds| seconds.wrong()),
        sent: total(|seconds| seconds.sent()),
        p99_ns: Figure::of(repeats.judged("p99", &|repeat| of_phase(repeat.measurement).latency_ns(0.99))),
        memory_bytes_peak: Figure::of(repeats.judged(value::MEMORY, &|repeat| Sample::from(memory(repeat)))),
    }
}

/// Outcomes of slow clients, summed over all repeats of a gateway.
fn clients(group: &Group<'_>, gateway: &str) -> SlowClients {
    let repeats = group.repeats(gateway).into_iter().flat_map(Repeats::iter);
    let all = repeats.filter_map(|repeat| repeat.measurement.slow);
    all.fold(SlowClients::default(), |sum, next| SlowClients {
        heads: added(sum.heads, next.heads),
        bodies: added(sum.bodies, next.bodies),
        responses: added(sum.responses, next.responses),
    })
}

fn added(sum: SlowCounts, next: SlowCounts) -> SlowCounts {
    SlowCounts {
        connections: sum.connections.max(next.connections),
        opened: sum.opened + next.opened,
        open_at_end: sum.open_at_end + next.open_at_end,
        answered: sum.answered + next.answered,
        unexpected: sum.unexpected + next.unexpected,
        broken: sum.broken + next.broken,
        refused: sum.refused + next.refused,
    }
}

/// Memory per slow client. In each repeat, the peak without slow clients is subtracted from the peak with them. The
/// difference is divided by `clients`. Invalid if one of the two peaks is invalid.
fn per_client(beside: &Carried, alone: &Carried, clients: f64) -> Figure {
    let each = |beside: f64, alone: f64| (beside - alone) / clients.max(1.0);
    Figure::of_difference(beside.memory_bytes_peak.paired(&alone.memory_bytes_peak, each))
}
