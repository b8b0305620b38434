//! What slow clients beside a load cost: its latency, its errors and the gateway's memory, against the same load alone.

use serde::Serialize;
use weir_results::{Reason, SlowClients, SlowCounts};

use crate::figure::{Figure, Repeated, Sample};
use crate::grouping::Group;
use crate::measured::{Repeat, Repeats};
use crate::reasons::Metric;
use crate::seconds::{Seconds, of_phase};
use crate::summary::Axes;

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
    /// Greatest working set of the data plane, bytes.
    pub memory_bytes_peak: Figure,
}

/// The same load without slow clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Its name.
    pub load: String,
    /// What it came to.
    pub carried: Carried,
    /// Memory that the gateway had more beside slow clients, for each of them, in the same repeat, bytes.
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
    let alone = |other: &Group<'_>| {
        let repeats = other.repeats(gateway).filter(|repeats| !has_slow(repeats))?;
        let carried = carried(repeats);
        let memory_bytes_per_client =
            per_client(&beside, &carried, clients(group, gateway).total().connections);
        Some(Alone { load: other.load.to_owned(), carried, memory_bytes_per_client })
    };
    SlowCost {
        gateway: gateway.to_owned(),
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        clients: clients(group, gateway),
        alone: groups.iter().filter(|other| group.is_like(other)).find_map(alone),
        beside,
    }
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
fn per_client(beside: &Carried, alone: &Carried, connections: u32) -> Figure {
    let pairs = beside.memory_bytes_peak.repeats.iter().filter_map(|repeated| {
        let of_alone = &alone.memory_bytes_peak.repeats;
        let other = of_alone.iter().find(|other| other.repeat == repeated.repeat)?;
        let more = repeated.value().zip(other.value()).map(|(beside, alone)| beside - alone);
        let each = more.map(|more| more / f64::from(connections.max(1)));
        let mut reasons: Vec<Reason> = repeated.reasons.iter().chain(&other.reasons).copied().collect();
        reasons.sort();
        reasons.dedup();
        Some(Repeated { repeat: repeated.repeat, sample: Sample::from(each), reasons })
    });
    Figure::of_difference(pairs.collect())
}
