//! Extreme values are exported without a panic. Selections that match nothing list what exists.

use weir_export::Selection;
use weir_results::{Cell, CellOutcome};

use crate::fixture::{self, Scene};

/// Sets one number after another to its maximum, because an imported archive may contain such values.
#[test]
fn numbers_at_the_end_of_their_range_never_panic() {
    let (mut run, mut cells) = fixture::run(Scene::Single, &[0.5]);
    cells.truncate(2);
    let last = serde_json::json!(u64::MAX);
    for pointer in [
        "/started_unix_ms",
        "/outcome/measurements/1/record/result/requests/scheduled",
        "/outcome/measurements/1/record/result/requests/completed",
        "/outcome/measurements/1/record/result/requests/unexpected",
        "/outcome/measurements/1/record/result/requests/failed",
        "/outcome/measurements/1/record/result/bytes/sent",
        "/outcome/measurements/1/record/phase_start_mono_ns",
        "/outcome/measurements/0/record/phase_start_mono_ns",
        "/outcome/measurements/1/record/result/status/200",
        "/parts/0/limit_memory_bytes",
    ] {
        let mut value = serde_json::to_value(&cells).unwrap();
        for cell in value.as_array_mut().unwrap() {
            *cell.pointer_mut(pointer).unwrap() = last.clone();
        }
        let odd: Vec<Cell> = serde_json::from_value(value).unwrap();
        all_forms(&run, &odd);
    }
    for t_s in [-1.0, 1e300] {
        let mut value = serde_json::to_value(&cells).unwrap();
        value[0]["outcome"]["measurements"][0]["record"]["seconds"][2]["t_s"] = t_s.into();
        value[0]["outcome"]["measurements"][0]["record"]["seconds"][2]["length_s"] = t_s.into();
        value[0]["outcome"]["measurements"][0]["record"]["result"]["duration_s"] = 0.0.into();
        all_forms(&run, &serde_json::from_value::<Vec<Cell>>(value).unwrap());
    }
    run.started_unix_ms = u64::MAX;
    all_forms(&run, &cells);
    all_forms(&run, &[]);
}

fn all_forms(run: &weir_results::Run, cells: &[Cell]) {
    let rows = weir_export::csv(run, cells).unwrap().lines().count();
    assert!(rows > cells.len());
    assert!(weir_export::parquet(run, cells).unwrap().ends_with(b"PAR1"));
    assert!(weir_export::json(run, cells).unwrap().contains("\"weir-json\""));
    assert!(weir_export::hdr(run, cells).unwrap().starts_with("#[Histogram log format version 1.3]\n"));
    assert_eq!(weir_export::k6(run, cells).lines().count(), rows - 1);
    assert_eq!(weir_export::locust(run, cells).unwrap().lines().count(), rows);
}

#[test]
fn a_selection_keeps_its_matches_or_lists_what_exists() {
    let (_, cells) = fixture::run(Scene::Single, &[0.5]);
    let select = |cell: Option<u32>, load: Option<&str>| {
        let kept = Selection { cell, load: load.map(str::to_owned) }.of(cells.clone());
        kept.map(|kept| kept.iter().map(loads_of).collect::<Vec<_>>())
    };
    assert_eq!(select(None, None).unwrap(), [2; 5]);
    assert_eq!(select(Some(3), None).unwrap(), [2]);
    assert_eq!(select(None, Some("tail")).unwrap(), [1; 5]);
    assert_eq!(select(Some(3), Some("full")).unwrap(), [1]);
    let error = select(Some(9), None).unwrap_err();
    assert_eq!(
        (error.to_string(), error.remedy()),
        ("the run has no finished cell 10".into(), "use one of 1, 2, 3, 4, 5".into())
    );
    let error = select(Some(0), Some("tial")).unwrap_err();
    assert_eq!(
        (error.to_string(), error.remedy()),
        ("the run has no load `tial`".into(), "use one of full, tail".into())
    );
}

fn loads_of(cell: &Cell) -> usize {
    match &cell.outcome {
        CellOutcome::Measured { measurements } => measurements.len(),
        CellOutcome::Failed { .. } => 0,
    }
}
