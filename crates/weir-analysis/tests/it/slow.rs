//! Slow clients during loads of synthetic runs: the gateway's memory per slow client.

use weir_analysis::findings::SlowCost;
use weir_analysis::summarize;
use weir_results::ArrivalModel::Open;
use weir_results::{Cell, CellOutcome, SlowClients, SlowCounts, Usage};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run};

const MIB: u64 = 1 << 20;

/// A load without slow clients, in which the gateway uses 10 MiB of memory, and one with 100 slow clients, in which it
/// uses 30 MiB. `repeat` MiB are added to both values.
fn at(repeat: u32) -> Cell {
    let load = |name, mib: u64| {
        let memory_bytes_peak = Some((mib + u64::from(repeat)) * MIB);
        let data = Usage { memory_bytes_peak, ..usage(0.5) };
        Load { name, record: record(Open, 100, 1_000_000), data, host: quiet() }
    };
    let mut cell = cell("weir", repeat, vec![load("alone", 10), load("beside", 30)]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    let counts = |connections| SlowCounts {
        connections,
        opened: 60,
        answered: 20,
        open_at_end: 40,
        ..SlowCounts::default()
    };
    let slow = SlowClients { heads: counts(40), bodies: counts(60), ..SlowClients::default() };
    measurements[1].slow = Some(slow);
    cell
}

fn costs(cells: &[Cell]) -> Vec<SlowCost> {
    summarize(&plan(run(&["weir"], None), cells), cells).former.slow
}

#[test]
fn memory_with_slow_clients_is_divided_by_their_number() {
    let cells: Vec<Cell> = (0..3).map(at).collect();
    let costs = costs(&cells);
    let [cost] = costs.as_slice() else { panic!("{costs:?}") };
    assert_eq!((cost.gateway.as_str(), cost.load.as_str()), ("weir", "beside"));
    let total = cost.total();
    assert_eq!(
        (total.connections, total.opened, total.answered),
        (100, 360, 120),
        "of one repeat, and of all"
    );
    let alone = cost.alone.as_ref().unwrap();
    assert_eq!(alone.load, "alone");
    let each = alone.memory_bytes_per_client.mean.unwrap();
    assert!((each - 20.0 * MIB as f64 / 80.0).abs() < 1e-6, "{each}: eighty were connected at the end");
    assert!(cost.conclusion.starts_with("weir: with 100 slow clients, 0 of "), "{}", cost.conclusion);
    assert!(cost.conclusion.ends_with(" of memory per slow client."), "{}", cost.conclusion);
}

#[test]
fn a_run_without_slow_clients_has_no_finding() {
    let mut cell = at(0);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements[1].slow = None;
    assert!(costs(&[cell]).is_empty());
}
