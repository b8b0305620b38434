//! The plan: which cells, in which order.

use std::collections::{BTreeMap, BTreeSet};

use weir_lab::plan::{self, Plan};
use weir_results::{CellKey, DIRECT};

use crate::{EXAMPLE, read};

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
fn every_cell_is_there_once_and_in_its_place() {
    for seed in 0..50 {
        let plan = plan(seed);
        assert_eq!(plan.cells.len(), (GATEWAYS + 1) * POINTS * REPEATS);
        assert_eq!(names(&plan).into_iter().collect::<BTreeSet<_>>().len(), plan.cells.len());
        assert!(plan.cells.iter().enumerate().all(|(place, key)| key.index as usize == place));
    }
}

#[test]
fn each_block_is_together_and_has_one_direct_cell() {
    for seed in 0..50 {
        let plan = plan(seed);
        let blocks: Vec<&[CellKey]> = plan.cells.chunks(GATEWAYS + 1).collect();
        for cells in &blocks {
            assert!(cells.iter().all(|key| block(key) == block(&cells[0])));
            assert_eq!(cells.iter().filter(|key| key.gateway == DIRECT).count(), 1);
        }
        // A repeat is over before the next begins, so that drift touches every point alike.
        let repeats: Vec<u32> = blocks.iter().map(|cells| cells[0].repeat).collect();
        assert!(repeats.is_sorted(), "{repeats:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_order_and_another_another() {
    assert_eq!(plan(7), plan(7));
    assert_ne!(names(&plan(7)), names(&plan(8)));
}

#[test]
fn the_direct_cell_and_every_gateway_stand_at_every_place_of_a_block() {
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

#[test]
fn the_time_of_a_plan_is_the_sum_of_its_cells() {
    let checked = read(EXAMPLE).unwrap();
    let plan = plan(1);
    let one = plan::cell_time(&checked.scenario);
    // Two loads, each with 5 s of warm-up and 60 s of phase.
    assert!(one.as_secs() >= 130, "{one:?}");
    assert_eq!(plan::time(&checked, &plan.cells), one * plan.cells.len() as u32);
    assert_eq!(plan::time(&checked, &plan.cells[..3]), one * 3);
}
