//! The cells of a run, their order, and their duration.

pub(crate) mod estimate;
pub(crate) mod extend;

use std::time::Duration;

use weir_results::{CONTROL, CellKey, DIRECT, DIRECT_TWIN};

use self::estimate::TimeEstimate;
use crate::read::{Checked, Point};
use crate::scenario::{Load, Scenario};

/// Time of a cell beyond its loads: start, readiness, stop. Measured on a host with two cores; a run corrects its
/// estimate as cells finish.
const CELL_OVERHEAD: Duration = Duration::from_millis(250);

/// Time of a load beyond its phases: start of the generator, drain, settling of counters.
const LOAD_OVERHEAD: Duration = Duration::from_millis(100);

/// Pause after the first response of a gateway. During the pause, the gateway can free memory that only its start
/// needed.
pub(crate) const COLD_START_SETTLE: Duration = Duration::from_millis(300);
/// Time over which the memory of the gateway is sampled, after [`COLD_START_SETTLE`].
pub(crate) const COLD_START_SAMPLE: Duration = Duration::from_millis(300);

/// Minimum number of trials of a search; see `docs/decisions/0014-capacity-search.md`.
const TRIALS_MIN: u32 = 10;

/// The cells of a run in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Seed of the order of the cells, and of the arrivals in their loads.
    pub seed: u64,
    /// Every cell, in the order in which the cells run.
    pub cells: Vec<CellKey>,
}

/// Plans the cells of `checked` in a random order that depends only on `seed`.
///
/// Each repeat is complete before the next one begins, so that a slow drift of the host affects all cells alike. Within
/// a repeat, the points of the axes are shuffled. Within a point, its gateways and direct cells are shuffled. A
/// positive control comes after the gateway that it copies, because its delay is a share of that gateway's latency.
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
            block.extend(point.scenario.control.is_some().then_some(CONTROL));
            random.shuffle(&mut block);
            put_control_behind(&mut block, &point.scenario);
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

fn put_control_behind(block: &mut [&str], scenario: &Scenario) {
    let place = |name: &str| block.iter().position(|known| *known == name);
    let gateway = scenario.gateway(CONTROL).and_then(|gateway| place(&gateway.name));
    if let Some((control, gateway)) =
        place(CONTROL).zip(gateway).filter(|(control, gateway)| control < gateway)
    {
        block.swap(control, gateway);
    }
}

/// The time that one cell of `scenario` takes.
pub fn cell_time(scenario: &Scenario) -> TimeEstimate {
    let start = if scenario.cold_start { COLD_START_SETTLE + COLD_START_SAMPLE } else { Duration::ZERO };
    let loads = scenario.loads.iter().map(|(_, load)| load_time(scenario, load));
    TimeEstimate::exactly(CELL_OVERHEAD + start)
        + loads.map(|takes| takes.with_retries(scenario.retries)).sum()
}

/// The time that one attempt at a load of a cell takes.
pub(crate) fn load_time(scenario: &Scenario, load: &Load) -> TimeEstimate {
    let warmup = warmup_time(scenario, load);
    if let Some(search) = &load.search {
        let trials_max = search.trials_max();
        let (trial, trials_min) = (trial_time(load), trials_max.min(TRIALS_MIN));
        return warmup + TimeEstimate { min: trial * trials_min, max: trial * trials_max };
    }
    // The length of a closed load that ends after a number of requests is unknown. The estimate assumes the duration of
    // the scenario.
    let sustained = load.sustained(scenario.duration.0).unwrap_or(scenario.duration.0);
    warmup + TimeEstimate::exactly(sustained + LOAD_OVERHEAD)
}

/// The warm-up of a load. It may grow only if the load is steady. It must not grow if the scenario schedules faults or
/// silent connections, because their times count from the end of the warm-up.
fn warmup_time(scenario: &Scenario, load: &Load) -> TimeEstimate {
    let min = scenario.warmup.0;
    if scenario.has_schedule() || !load.may_warm_up_longer() {
        return TimeEstimate::exactly(min);
    }
    TimeEstimate { min, max: min.mul_f64(scenario.thresholds.warmup_growth) }
}

/// Maximum time for which the load named `load` sends requests; for a search, the maximum of one trial. `None` if
/// unknown.
pub(crate) fn longest(scenario: &Scenario, load: &str) -> Option<Duration> {
    let load = scenario.loads.named(load)?;
    let sustained = match load.search {
        Some(_) => load.trial_length(),
        None => load.sustained(scenario.duration.0)?,
    };
    Some(warmup_time(scenario, load).max + sustained)
}

/// The time that one trial of a search takes.
pub(crate) fn trial_time(load: &Load) -> Duration {
    load.trial_warmup() + load.trial_length() + LOAD_OVERHEAD
}

/// The time that `cells` of `checked` take.
pub fn time<'a>(checked: &Checked, cells: impl IntoIterator<Item = &'a CellKey>) -> TimeEstimate {
    let one = |key: &CellKey| {
        point_of(checked, key).map_or(TimeEstimate::default(), |point| cell_time(&point.scenario))
    };
    cells.into_iter().map(one).sum()
}

/// Finds the combination of axis values that the cell `key` measures.
pub fn point_of<'a>(checked: &'a Checked, key: &CellKey) -> Option<&'a Point> {
    checked.points.iter().find(|point| point.axes == key.axes)
}

/// Seed of a load's arrivals: the same for all gateways of a block, so that they get the same schedule.
pub(crate) fn arrivals_seed(seed: u64, key: &CellKey, load: usize) -> u64 {
    let axes = serde_json::to_string(&key.axes).expect("axes always serialize to JSON");
    let mut state = SplitMix64(seed);
    for word in [u64::from(key.repeat), load as u64].into_iter().chain(axes.bytes().map(u64::from)) {
        state = SplitMix64(state.next() ^ word);
    }
    // 53 bits are exact in every JSON reader.
    state.next() >> 11
}

/// A seed derived from `seed`: for a trial of a search, or for the upstream of a repeat.
pub(crate) fn numbered_seed(seed: u64, number: u32) -> u64 {
    SplitMix64(SplitMix64(seed).next() ^ u64::from(number)).next() >> 11
}

/// The random number generator SplitMix64 (Steele, Lea and Flood). Every seed gives well-mixed numbers, and the same
/// ones on every machine.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fisher-Yates shuffle. It maps random numbers to indexes by multiplication, whose bias is below 2^-50.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let pick = (u128::from(self.next()) * (last as u128 + 1)) >> 64;
            items.swap(last, pick as usize);
        }
    }
}
