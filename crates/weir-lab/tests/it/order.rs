//! The plan: cells and their order.

use std::collections::{BTreeMap, BTreeSet};

use weir_lab::plan::{self, Plan};
use weir_lab::{Checked, Overrides};
use weir_results::{CONTROL, CellKey, DIRECT, Run};

use crate::{EXAMPLE, known, read, read_with, run_of};

const GATEWAYS: usize = 4;
const POINTS: usize = 2;
const REPEATS: usize = 3;

fn plan(seed: u64) -> Plan {
    plan::plan(&read(EXAMPLE).unwrap(), seed)
}

fn block(key: &CellKey) -> (String, u32) {
    (serde_json::to_string(&key.axes).unwrap(), key.repeat)
}

fn names(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(|key| format!("{} {:?}", key.gateway, block(key))).collect()
}

#[test]
fn every_cell_is_planned_once() {
    for seed in 0..50 {
        let plan = plan(seed);
        assert_eq!(plan.cells.len(), (GATEWAYS + 1) * POINTS * REPEATS);
        assert_eq!(names(&plan).into_iter().collect::<BTreeSet<_>>().len(), plan.cells.len());
        assert!(plan.cells.iter().enumerate().all(|(place, key)| key.index as usize == place));
    }
}

#[test]
fn each_block_is_contiguous_and_has_one_direct_cell() {
    for seed in 0..50 {
        let plan = plan(seed);
        let blocks: Vec<&[CellKey]> = plan.cells.chunks(GATEWAYS + 1).collect();
        for cells in &blocks {
            assert!(cells.iter().all(|key| block(key) == block(&cells[0])));
            assert_eq!(cells.iter().filter(|key| key.gateway == DIRECT).count(), 1);
        }
        // A repeat is complete before the next starts, so that drift affects all points alike.
        let repeats: Vec<u32> = blocks.iter().map(|cells| cells[0].repeat).collect();
        assert!(repeats.is_sorted(), "{repeats:?}");
    }
}

#[test]
fn the_seed_determines_the_order() {
    assert_eq!(plan(7), plan(7));
    assert_ne!(names(&plan(7)), names(&plan(8)));
}

#[test]
fn direct_and_gateway_cells_come_at_every_position_of_a_block() {
    let mut places: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for seed in 0..50 {
        for (place, key) in plan(seed).cells.iter().enumerate() {
            places.entry(key.gateway.clone()).or_default().insert(place % (GATEWAYS + 1));
        }
    }
    assert_eq!(places.len(), GATEWAYS + 1);
    assert!(places.values().all(|places| places.len() == GATEWAYS + 1), "{places:?}");
}

#[test]
fn more_repeats_keep_the_order_of_the_first() {
    let mut checked = read(EXAMPLE).unwrap();
    let three = plan::plan(&checked, 5);
    checked.scenario.repeats = 5;
    let five = plan::plan(&checked, 5);
    assert_eq!(five.cells[..three.cells.len()], three.cells);
}

/// A run with three repeats, and its scenario changed to `repeats` repeats.
fn three_and(repeats: u32) -> (Run, Checked) {
    let run = run_of(&read(EXAMPLE).unwrap(), 5);
    let checked = weir_lab::read_again(&run, Some(repeats), &known()).unwrap();
    (run, checked)
}

#[test]
fn an_extended_run_has_the_same_cells_as_a_long_run() {
    let (three, checked) = three_and(6);
    let extended = weir_lab::extended(&three, &checked).unwrap();
    let mut six = read(EXAMPLE).unwrap();
    six.scenario.repeats = 6;
    assert_eq!(extended.plan, plan::plan(&six, 5).cells);
    assert_eq!(extended.plan.len(), (GATEWAYS + 1) * POINTS * 6);
    assert_eq!(extended.plan[..three.plan.len()], three.plan);
    assert_eq!((extended.ended_unix_ms, &extended.scenario["repeats"]), (None, &6.into()));
    // If the run already has this number of repeats, an extension changes nothing.
    assert_eq!(weir_lab::extended(&extended, &checked).unwrap(), extended);
    let (three, checked) = three_and(3);
    assert_eq!(weir_lab::extended(&three, &checked).unwrap(), three);
}

#[test]
fn repeats_cannot_be_removed() {
    let (three, checked) = three_and(2);
    let error = weir_lab::extended(&three, &checked).unwrap_err();
    assert!(error.is_wrong_use());
    assert_eq!(
        format!("{error} | {}", error.remedy()),
        "--repeats 2: run 20261121-0210-aaaa already has 3 repeats, and weir does not remove repeats | use at \
         least 3 repeats, or start a new run"
    );
}

#[test]
fn a_run_with_another_order_cannot_be_extended() {
    let (mut three, checked) = three_and(6);
    three.plan.swap(0, 1);
    let error = weir_lab::extended(&three, &checked).unwrap_err();
    assert!(error.to_string().contains("in a different order"), "{error}");
}

#[test]
fn the_time_of_a_plan_is_the_sum_of_its_cells() {
    let checked = read(EXAMPLE).unwrap();
    let plan = plan(1);
    let one = plan::cell_time(&checked.scenario);
    // Two loads, each with a warm-up of 5 s and a phase of 60 s.
    assert!(one.min.as_secs() >= 130, "{one:?}");
    assert_eq!(plan::time(&checked, &plan.cells), one * plan.cells.len() as u32);
    assert_eq!(plan::time(&checked, &plan.cells[..3]), one * 3);
}

/// Minimum and maximum time of a cell, rounded down to whole seconds to hide the fixed overheads. The cell has one load
/// of 20 s after a warm-up of 4 s.
fn cell_seconds(more: &str, load: &str) -> (u64, u64) {
    let text = format!(
        "name: x\ngateways: [weir]\nwarmup: 4s\nduration: 20s\n{more}\nloads: {{ full: {{ {load} }} }}\n"
    );
    let takes = plan::cell_time(&read(&text).unwrap().points[0].scenario);
    (takes.min.as_secs(), takes.max.as_secs())
}

#[test]
fn the_time_of_a_plan_ignored_retries() {
    let (kept, closed) = ("thresholds: { warmup_growth: 1 }", "model: closed");
    let check =
        |more: &str, load: &str, expected| assert_eq!(cell_seconds(more, load), expected, "{more} {load}");
    check(&format!("retries: 0\n{kept}"), closed, (24, 24));
    check(&format!("retries: 1\n{kept}"), closed, (24, 36));
    check(&format!("retries: 2\n{kept}"), closed, (24, 36));
    // The warm-up of a steady load can grow to three times its length, in each attempt.
    check("retries: 0", closed, (24, 32));
    check("retries: 2", closed, (24, 44));
    check("retries: 0", "model: closed, connections: 1..60", (24, 24));
    check("retries: 0", "model: closed, requests: 500", (24, 24));
    check("retries: 0", "model: open, rate: 100/s, burst: '500/s:200ms/1s'", (24, 24));
    check("retries: 0", "model: open, rate: 100/s, steps: [{ rate: 100/s }, { rate: 200/s }]", (44, 44));
    // A search has at least 10 trials of 2.6 s each.
    check("retries: 0", "model: open, duration: 2s, search: { p99: 20ms, trials: 40 }", (30, 116));
    check("retries: 1", "model: open, duration: 2s, search: { p99: 20ms, trials: 40 }", (30, 131));
}

#[test]
fn a_positive_control_comes_after_its_gateway_in_every_block() {
    let overrides = Overrides { control: Some("nginx=10%".into()), ..Overrides::default() };
    let checked = read_with(EXAMPLE, &overrides).unwrap();
    let mut others = BTreeSet::new();
    for seed in 0..50 {
        let plan = plan::plan(&checked, seed);
        assert_eq!(plan.cells.len(), (GATEWAYS + 2) * POINTS * REPEATS);
        for cells in plan.cells.chunks(GATEWAYS + 2) {
            let place = |name: &str| cells.iter().position(|key| key.gateway == name).unwrap();
            assert!(place("nginx") < place(CONTROL), "{cells:?}");
            others.insert((place(CONTROL), place(DIRECT)));
        }
    }
    assert!(others.len() > GATEWAYS, "the rest is in random order: {others:?}");
}
