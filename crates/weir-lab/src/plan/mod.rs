//! Which cells a run has, and in which order.

pub(crate) mod extend;
pub(crate) mod takes;

use std::time::Duration;

use weir_results::{CellKey, DIRECT, DIRECT_TWIN};

use self::takes::Takes;
use crate::read::{Checked, Point};
use crate::scenario::{Load, Scenario};

/// What a cell takes beyond its loads: starting, getting ready, stopping. Measured on a host with two cores;
/// a run corrects its own estimate as cells finish.
const CELL_OVERHEAD: Duration = Duration::from_millis(250);

/// What a load takes beyond its phases: starting the generator, draining, settling of counters.
const LOAD_OVERHEAD: Duration = Duration::from_millis(100);

/// Time in which a gateway can free what its start needed, and time over which its memory is sampled then.
pub(crate) const COLD_START_SETTLE: Duration = Duration::from_millis(300);
pub(crate) const COLD_START_SAMPLE: Duration = Duration::from_millis(300);

/// Trials that a search takes at least: in virtual time a step takes 12, one queue 10 to 45 (decision 0014).
const TRIALS_LEAST: u32 = 10;

/// The cells of a run in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Seed of order and arrivals.
    pub seed: u64,
    /// Every cell.
    pub cells: Vec<CellKey>,
}

/// Orders the cells of `checked` by `seed`.
///
/// Repeats follow each other, so that a slow drift touches every cell alike; within a repeat the points come
/// in a shuffled order, and within the block of one point and repeat the gateways and the direct cells do.
pub fn plan(checked: &Checked, seed: u64) -> Plan {
    let mut random = SplitMix64(seed);
    let mut cells = Vec::new();
    for repeat in 0..checked.scenario.repeats {
        let mut points: Vec<&Point> = checked.points.iter().collect();
        random.shuffle(&mut points);
        for point in points {
            let mut block: Vec<&str> = point.scenario.gateways.iter().map(|g| g.name.as_str()).collect();
            block.extend(point.scenario.has_direct().then_some(DIRECT));
            block.extend(point.scenario.twin.then_some(DIRECT_TWIN));
            random.shuffle(&mut block);
            cells.extend(block.into_iter().map(|gateway| CellKey {
                index: 0,
                gateway: gateway.to_owned(),
                axes: point.axes.clone(),
                repeat,
            }));
        }
    }
    for (place, cell) in cells.iter_mut().enumerate() {
        cell.index = place as u32;
    }
    Plan { seed, cells }
}

/// The time that one cell of `scenario` takes.
pub fn cell_time(scenario: &Scenario) -> Takes {
    let start = if scenario.cold_start { COLD_START_SETTLE + COLD_START_SAMPLE } else { Duration::ZERO };
    let loads = scenario.loads.iter().map(|(_, load)| load_time(scenario, load));
    Takes::exactly(CELL_OVERHEAD + start) + loads.map(|takes| takes.with_retries(scenario.retries)).sum()
}

/// The time that one attempt at a load of a cell takes.
pub(crate) fn load_time(scenario: &Scenario, load: &Load) -> Takes {
    let warmup = warmup_time(scenario, load);
    if let Some(search) = &load.search {
        let trials_max = search.trials_max();
        let (trial, trials_least) = (trial_time(load), trials_max.min(TRIALS_LEAST));
        return warmup + Takes { least: trial * trials_least, most: trial * trials_max };
    }
    // A count of a closed load takes what it takes; the scenario's duration is as good a guess as any.
    let sustained = load.sustained(scenario.duration.0).unwrap_or(scenario.duration.0);
    warmup + Takes::exactly(sustained + LOAD_OVERHEAD)
}

/// The warm-up of a load, which may grow if the load is steady. Scheduled disturbances count from its end.
fn warmup_time(scenario: &Scenario, load: &Load) -> Takes {
    let least = scenario.warmup.0;
    if scenario.has_schedule() || !load.may_warm_up_longer() {
        return Takes::exactly(least);
    }
    Takes { least, most: least.mul_f64(scenario.thresholds.warmup_growth) }
}

/// The time that one trial of a search takes.
pub(crate) fn trial_time(load: &Load) -> Duration {
    load.trial_warmup() + load.trial_length() + LOAD_OVERHEAD
}

/// The time that `cells` take, each at its point of `checked`.
pub fn time<'a>(checked: &Checked, cells: impl IntoIterator<Item = &'a CellKey>) -> Takes {
    let one =
        |key: &CellKey| point_of(checked, key).map_or(Takes::default(), |point| cell_time(&point.scenario));
    cells.into_iter().map(one).sum()
}

/// The point that a cell stands at.
pub fn point_of<'a>(checked: &'a Checked, key: &CellKey) -> Option<&'a Point> {
    checked.points.iter().find(|point| point.axes == key.axes)
}

/// Seed of a load's arrivals: the same for every gateway of a block, so that all are put to the same schedule.
pub(crate) fn arrivals_seed(seed: u64, key: &CellKey, load: usize) -> u64 {
    let axes = serde_json::to_string(&key.axes).expect("axes are plain values");
    let mut state = SplitMix64(seed);
    for word in [u64::from(key.repeat), load as u64].into_iter().chain(axes.bytes().map(u64::from)) {
        state = SplitMix64(state.next() ^ word);
    }
    // Fits any JSON reader's integers.
    state.next() >> 11
}

/// One seed of many that come from `seed`: of a trial of a search, or of a repeat's upstream.
pub(crate) fn numbered_seed(seed: u64, number: u32) -> u64 {
    SplitMix64(SplitMix64(seed).next() ^ u64::from(number)).next() >> 11
}

/// Steele, Lea and Flood's generator: a few lines, well mixed from any seed, the same on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fisher and Yates; the high half of a product picks below `n` with a bias that no plan can see.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = (u128::from(self.next()) * (last as u128 + 1)) >> 64;
            items.swap(last, pick as usize);
        }
    }
}
