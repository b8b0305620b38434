//! Seeded changes to the numbers of a run: unusual data must not cause a panic.

use serde_json::Value;
use weir_analysis::summarize;
use weir_results::Cell;

use crate::fixture::{self, Scene};

/// Changes some numbers in a value. The seed decides which ones.
fn change(value: &mut Value, state: &mut u64) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| change(field, state)),
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, state)),
        Value::Number(_) | Value::Null => {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (*state >> 33).is_multiple_of(9) {
                let odd = [
                    Value::Null,
                    0.into(),
                    u32::MAX.into(),
                    serde_json::json!(-2.5),
                    serde_json::json!(1e290),
                ];
                *value = odd[(*state >> 40) as usize % odd.len()].clone();
            }
        }
        Value::Bool(_) | Value::String(_) => {}
    }
}

#[test]
fn odd_data_never_panics() {
    let (run, cells) = fixture::run(Scene::Single, &[0.5]);
    let plain: Vec<Value> =
        cells.iter().map(|cell| serde_json::to_value(cell).expect("cells are plain values")).collect();
    let mut drawn = 0;
    for seed in 0..90 {
        let mut state = seed;
        let odd: Vec<Cell> = plain
            .iter()
            .filter_map(|cell| {
                let mut cell = cell.clone();
                // Only some parts of a cell are changed, so that most cells can still be read.
                change(cell.pointer_mut("/outcome/measurements/1/record/result/latency_ns")?, &mut state);
                change(cell.pointer_mut("/outcome/measurements/0/usage")?, &mut state);
                change(cell.pointer_mut("/outcome/measurements/0/cpu_us_per_request")?, &mut state);
                change(cell.pointer_mut("/key")?, &mut state);
                serde_json::from_value(cell).ok()
            })
            .collect();
        drawn += odd.len();
        let summary = summarize(&run, &odd);
        let text = weir_report::terminal(&run, &odd, &summary, 100, false);
        assert!(text.starts_with("side-by-side"));
        assert!(weir_report::markdown(&run, &odd, &summary).starts_with("# side-by-side"));
    }
    assert!(drawn > 20, "only {drawn} of the changed cells were readable");
}
