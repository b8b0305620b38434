//! Checks that unusual data causes no panic: changes fields of a run at random, with fixed seeds.

use serde_json::Value;
use weir_analysis::capacity::{Bound, TrialSeen};
use weir_analysis::{Evidence, data_usage, judge, summarize};
use weir_results::{Cell, CellOutcome, DIRECT, Run, Thresholds};

use crate::capacity::{found, searched};
use crate::runs::{cell, failed, full, plan, run, tail};

/// A small random number generator, so that a failure is reproducible by its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number above zero and at most one.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Randomly replaces some scalars with null, zero, and huge or negative numbers.
fn change(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| change(field, random)),
        Value::Array(items) => {
            if random.below(40) == 0 {
                items.clear();
            }
            items.iter_mut().for_each(|item| change(item, random));
        }
        Value::Number(_) | Value::Null if random.below(12) == 0 => {
            *value = match random.below(6) {
                0 => Value::Null,
                1 => 0.into(),
                2 => u64::MAX.into(),
                3 => serde_json::json!(-1.5),
                4 => serde_json::json!(1e300),
                _ => 1.into(),
            };
        }
        _ => {}
    }
}

fn base() -> (Run, Vec<Cell>) {
    let mut cells: Vec<Cell> = Vec::new();
    for repeat in 0..3 {
        cells.push(cell("weir", repeat, vec![full(50_000), tail(200_000)]));
        cells.push(cell(DIRECT, repeat, vec![full(90_000), tail(100_000)]));
    }
    cells.push(searched("weir", 3, found(800.0)));
    cells.push(failed("nginx", 0));
    (plan(run(&["weir", "nginx"], None), &cells), cells)
}

#[test]
fn odd_data_never_panics() {
    let (run, cells) = base();
    let mut summarized = 0;
    for seed in 0..800 {
        let mut random = Random(seed);
        let mut odd: Vec<Cell> = Vec::new();
        for cell in &cells {
            let mut value = serde_json::to_value(cell).unwrap();
            change(&mut value, &mut random);
            // Cells that the schema rejects never reach the analysis.
            odd.extend(serde_json::from_value::<Cell>(value));
        }
        summarized += usize::from(!odd.is_empty());
        odd.iter().for_each(judge_again);
        let summary = summarize(&run, &odd);
        serde_json::to_string(&summary).unwrap();
    }
    assert!(summarized > 400, "only {summarized} of the changed runs were readable");
}

fn judge_again(cell: &Cell) {
    let CellOutcome::Measured { measurements } = &cell.outcome else { return };
    for measurement in measurements {
        let data = data_usage(&cell.parts, &measurement.usage);
        let evidence = Evidence {
            record: &measurement.record,
            data: data.as_ref(),
            origin: data.as_ref(),
            generator: data.as_ref(),
            counters: Some(&measurement.counters),
            host: Some(&measurement.host),
            host_cores: 2,
            busiest: &[],
            limits_applied: true,
            loopback_floor_ns: Some(1),
            ceiling: None,
            is_steady: true,
            errors_max: None,
        };
        let judgement = judge(&evidence, &Thresholds::default());
        assert!(!judgement.evidence.is_empty());
        let bounds = Bound::all(&found(800.0).objective);
        TrialSeen::of(&bounds, 800.0, &measurement.record, &judgement, 1, false).says();
    }
}
