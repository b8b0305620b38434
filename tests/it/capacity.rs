//! Capacity searches: trials are stored, request counts balance, and the result states why the search stopped.

use std::path::Path;

use serde_json::Value;

use crate::program::{finish, json, text, the_host, until, weir};
use crate::yard::Yard;

/// A search with short trials. Thresholds ignore host noise.
fn write_scenario(folder: &Path) -> String {
    let path = folder.join("scenario.yaml");
    let scenario = "\
name: searching
question: How much at 50 ms?
gateways: [weir]
limits: { data: { cpus: 0.5, memory: 256MiB } }
topology: { domains: 1, paths: [/ping] }
origin: { body: 64B, service: \"const:2ms\" }
loads:
  capacity: { model: open, rate: 150/s, connections: 64, duration: 300ms, search: { p99: 50ms, trials: 10 } }
warmup: 100ms
timeout: 1s
thresholds: { disturbed_share: 1, upstream_delay_share: 1, lateness_ns: 10000000000 }
";
    std::fs::write(&path, scenario).unwrap();
    path.to_str().unwrap().to_owned()
}

fn cells(result: &Value) -> &Vec<Value> {
    result["cells"].as_array().unwrap()
}

/// Checks the trials of one cell. Returns the result of the search.
#[track_caller]
fn check_search(cell: &Value) -> &Value {
    let trials = cell["outcome"]["measurements"].as_array().unwrap();
    for (place, measurement) in trials.iter().enumerate() {
        let trial = &measurement["trial"];
        assert_eq!(
            (&measurement["load"], &trial["number"]),
            (&"capacity".into(), &(place as u64 + 1).into())
        );
        assert_eq!(
            trial["found"].is_null(),
            place + 1 < trials.len(),
            "only the last trial has the result: {trial}"
        );
        assert!(!trial["why"].as_str().unwrap().is_empty(), "{trial}");
        let books = &measurement["record"]["result"]["requests"];
        let ends = ["completed", "failed", "timed_out", "dropped", "in_flight"];
        let sum: u64 = ends.iter().map(|end| books[end].as_u64().unwrap()).sum();
        assert_eq!(books["scheduled"], sum, "{books}");
        assert!(measurement["rate_per_s"].as_f64().unwrap() >= 20.0 / 0.3 - 1e-6);
    }
    let found = &trials.last().unwrap()["trial"]["found"];
    assert_eq!(found["trials"], trials.len());
    assert!(trials.len() <= 10 && found["stopped"].is_string(), "{found}");
    let void = trials.iter().filter(|measurement| measurement["trial"]["says"] == "void").count();
    assert_eq!(found["void"], void);
    found
}

#[test]
fn a_search_stores_its_trials_and_reports_why_it_stopped() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path());
    let arguments = ["run", &path, "--repeats", "1", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir(folder.path(), &arguments));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(cells(&result).len(), 2);
    for cell in cells(&result) {
        check_search(cell);
    }
    let summary = &result["summary"];
    assert_eq!(summary["points"], Value::Array(vec![]), "a trial is no load point");
    let rows = summary["capacities"][0]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["gateway"].as_str().unwrap()).collect();
    assert_eq!(names, ["weir", "direct"]);
    for row in rows {
        assert_eq!(row["searches"].as_array().unwrap().len(), 1, "{row}");
    }

    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(report.contains("Capacity: capacity (p99 at most 50.0 ms)"), "{report}");
    let page = std::fs::read_dir(folder.path().join("out/cells")).unwrap().next().unwrap().unwrap().path();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Trials of the search capacity") && page.contains("capacity, trial 1"), "{page}");
    let csv = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    let trials: usize =
        cells(&result).iter().map(|cell| cell["outcome"]["measurements"].as_array().unwrap().len()).sum();
    let names = csv.lines().next().unwrap();
    assert!(names.split(',').any(|name| name == "trial"), "{names}");
    assert_eq!(csv.lines().skip(1).filter(|line| line.contains(",load,")).count(), trials);
}

#[test]
fn a_killed_search_restarts_and_finished_searches_are_kept() {
    let _host = the_host();
    let yard = Yard::new();
    let path = write_scenario(yard.path());
    let arguments = ["run", &path, "--repeats", "2", "--db", "weir.db", "--out", "out"];
    let mut child = yard.start(yard.weir(&arguments));
    until("a finished cell", || yard.latest().is_some_and(|(_, done)| done >= 1));
    child.kill().unwrap();
    child.wait().unwrap();
    yard.await_nothing_left();
    let before = yard.cells("weir.db");
    let output = yard.run(&["run", "--resume", "last", "--db", "weir.db", "--out", "out", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(cells(&result).len(), 4);
    for cell in cells(&result) {
        check_search(cell);
    }
    let after = yard.cells("weir.db");
    for cell in &before {
        assert!(after.contains(cell), "{cell:?} was searched again");
    }
}

#[test]
fn the_plan_includes_search_time_and_quick_shortens_only_unset_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_scenario(folder.path());
    let text = std::fs::read_to_string(&path).unwrap();
    let long = text.replace("duration: 300ms", "duration: 4s").replace("trials: 10", "trials: 40");
    assert_ne!(text, long);
    std::fs::write(&path, long).unwrap();
    let seconds = |more: &[&str]| {
        let all = [&["run", &path, "--plan", "--json", "--repeats", "1"][..], more].concat();
        let plan = json(&finish(weir(folder.path(), &all)));
        ["duration_s", "duration_max_s"].map(|field| plan[field].as_f64().unwrap())
    };
    let (whole, quick) = (seconds(&[]), seconds(&["--quick"]));
    assert!(whole[0] > 2.0 * 10.0 * 4.0 && whole[1] > 2.0 * 40.0 * 4.0, "{whole:?}");
    assert!(quick[0] < whole[0] / 3.0 && quick[1] < whole[1] / 4.0, "{whole:?} {quick:?}");
    let set = ["--set", "loads.capacity.duration=4s", "--set", "loads.capacity.search.trials=40"];
    let kept = ["--set", "warmup=100ms", "--set", "retries=2"];
    let both = seconds(&[&["--quick"][..], &set, &kept].concat());
    for (both, whole) in both.into_iter().zip(whole) {
        assert!((both - whole).abs() < 1e-9, "{whole} {both}");
    }
}
