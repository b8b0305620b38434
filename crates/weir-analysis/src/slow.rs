//! What slow clients beside a load cost: its latency, its errors and the gateway's memory, against the same load alone.

use serde::Serialize;
use weir_results::{SlowClients, SlowCounts};

use crate::conclusions::with_interval;
use crate::figure::{Figure, Sample};
use crate::grouping::Group;
use crate::measured::{Repeat, Repeats};
use crate::quantity::{bytes, count, time_ns};
use crate::reasons::Metric;
use crate::seconds::{Seconds, of_phase};
use crate::summary::{Axes, with_axes};

/// A gateway at a load with slow clients beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowCost {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// The load.
    pub load: String,
    /// What became of the slow clients, over all repeats; their connections at one time are those of a repeat.
    pub clients: SlowClients,
    /// The load beside them.
    pub beside: Carried,
    /// A load that differs in nothing but that there were none, where there is one.
    pub alone: Option<Alone>,
    /// A sentence about it.
    pub conclusion: String,
}

/// What a load came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Carried {
    /// Requests that went wrong, over all repeats.
    pub errors: u64,
    /// Requests sent.
    pub sent: u64,
    /// p99 of the phase, nanoseconds.
    pub p99_ns: Figure,
    /// Greatest memory of the data plane, without page cache, bytes.
    pub memory_bytes_peak: Figure,
}

/// The same load without slow clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Its name.
    pub load: String,
    /// What it came to.
    pub carried: Carried,
    /// Memory that the gateway had more beside slow clients, in the same repeat, for each of them that was there at the end
    /// of a load in the mean, bytes.
    pub memory_bytes_per_client: Figure,
}

/// The costs, in the order of load points.
pub(crate) fn find(groups: &[Group<'_>]) -> Vec<SlowCost> {
    let of = |group: &Group<'_>| -> Vec<SlowCost> {
        let rows = group.rows.iter().filter(|(_, repeats)| has_slow(repeats));
        rows.map(|(gateway, repeats)| cost(groups, group, gateway, repeats)).collect()
    };
    groups.iter().flat_map(of).collect()
}

impl SlowCost {
    /// All slow clients together.
    pub fn total(&self) -> SlowCounts {
        self.clients.total()
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

/// What went wrong beside them, p99 against the same load alone, and the memory of each.
fn conclude(cost: &SlowCost) -> String {
    let who = with_axes(&cost.gateway, &cost.axes);
    let total = cost.total();
    let turned_away = match total.refused + total.broken + total.unexpected {
        0 => String::new(),
        ended => format!(", of which {} ended early or were refused", count(ended)),
    };
    let clients = format!("beside {} slow clients{turned_away}", count(u64::from(total.connections)));
    let wrong = |carried: &Carried| format!("{} of {}", count(carried.errors), count(carried.sent));
    let Some(alone) = &cost.alone else {
        return format!("{who}: {clients}, {} requests of {} failed.", wrong(&cost.beside), cost.load);
    };
    let counts = |figure: &Figure| figure.is_valid() && figure.mean.is_some();
    let (slow_ns, alone_ns) = (&cost.beside.p99_ns, &alone.carried.p99_ns);
    let p99 = match (counts(slow_ns) && counts(alone_ns), slow_ns.overlaps(alone_ns)) {
        (false, _) => "latencies are not compared, because one of them is invalid".to_owned(),
        (true, apart) => {
            let told = if apart == Some(false) { "" } else { ", and the intervals overlap" };
            let (slow, alone) = (with_interval(slow_ns, time_ns), with_interval(alone_ns, time_ns));
            format!("p99 is {slow}, and {alone} without them{told}")
        }
    };
    let each = &alone.memory_bytes_per_client;
    let memory = match counts(each) {
        true => format!("; {} of memory per slow client", with_interval(each, bytes)),
        false => String::new(),
    };
    format!(
        "{who}: {clients}, {} requests failed, and {} without them; {p99}{memory}.",
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
        p99_ns: Figure::of(
            repeats.repeated(Metric::Latency, &|repeat| of_phase(repeat.measurement).latency_ns(0.99)),
        ),
        memory_bytes_peak: Figure::of(repeats.repeated(Metric::Cpu, &|repeat| Sample::from(memory(repeat)))),
    }
}

/// What became of them in all repeats of a gateway.
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

/// The difference of memory in the same repeat, over the number of clients; what does not count of either does not count.
fn per_client(beside: &Carried, alone: &Carried, clients: f64) -> Figure {
    let each = |beside: f64, alone: f64| (beside - alone) / clients.max(1.0);
    Figure::of_difference(beside.memory_bytes_peak.paired(&alone.memory_bytes_peak, each))
}
