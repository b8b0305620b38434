//! Tables, JSON, and summaries in the formats of other tools.

use serde_json::Value;
use weir_results::{Cell, CellOutcome, Histogram, RouteResult, RouteTimes, Run, StepRecord, TimesNs};

use crate::fixture::{self, Scene};

/// A CSV table with access by column. Its fields must not be quoted.
struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    fn of(text: &str) -> Self {
        let mut lines = text.lines().map(fields);
        Self { columns: lines.next().unwrap(), rows: lines.collect() }
    }

    fn get(&self, row: usize, column: &str) -> &str {
        let place = self.columns.iter().position(|known| known == column);
        &self.rows[row][place.unwrap_or_else(|| panic!("no column {column}"))]
    }
}

/// Splits a line of CSV into its fields, which must not contain line breaks.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

/// Adds two steps, and a route with two status classes, to the first load of the first cell. Returns the latency in
/// each class, nanoseconds, as histograms round it.
fn with_steps_and_routes(cells: &mut [Cell]) -> [u64; 2] {
    let CellOutcome::Measured { measurements } = &mut cells[0].outcome else { panic!("cell 0") };
    let record = &mut measurements[0].record;
    let step = |connections, rate_per_s| StepRecord {
        connections,
        rate_per_s,
        result: record.result.clone(),
        latency: record.latency.clone(),
        phase_start_mono_ns: 0,
        phase_end_mono_ns: 1,
        distributions: None,
    };
    record.steps = vec![step(1, None), step(10, Some(250.0))];
    let mut fast = weir_results::new_histogram();
    fast.record_n(1_000, 9).unwrap();
    let mut slow = weir_results::new_histogram();
    slow.record_n(5_000_000, 1).unwrap();
    let times = |histogram: &_| RouteTimes {
        latency_ns: TimesNs::of(histogram, 0),
        latency: Histogram::encode(histogram),
    };
    let requests = weir_results::Requests {
        scheduled: 11,
        sent: 11,
        completed: 10,
        unexpected: 1,
        failed: 1,
        ..Default::default()
    };
    record.routes = vec![RouteResult {
        name: "GET /get/:id".into(),
        requests,
        by_class: [("2xx".to_owned(), times(&fast)), ("5xx".to_owned(), times(&slow))].into(),
    }];
    [fast.max(), slow.max()]
}

fn mixed() -> (Run, Vec<Cell>) {
    fixture::run(Scene::Mixed, &[0.5])
}

#[test]
fn a_mixed_run_as_csv() {
    let (run, cells) = mixed();
    let rows = Rows::of(&weir_export::csv(&run, &cells).unwrap());
    let loads =
        cells.iter().map(|cell| if cell.key.gateway == "haproxy" && cell.key.repeat == 2 { 1 } else { 2 });
    assert_eq!(rows.rows.len(), loads.sum::<usize>(), "a row per load of each cell, and one per failed cell");
    assert!(rows.rows.iter().all(|row| row.len() == rows.columns.len()));
    // Cell 0 is weir; its first load is closed, its second load is open.
    assert_eq!((rows.get(0, "run"), rows.get(0, "gateway")), ("20261121-0210-k3fz", "weir"));
    assert_eq!((rows.get(0, "load"), rows.get(1, "load")), ("full", "tail"));
    assert_eq!((rows.get(0, "asked_rate_per_s"), rows.get(1, "asked_rate_per_s")), ("", "5000.0"));
    assert_eq!(rows.get(0, "lateness_ns_p99"), "", "a closed load has no lateness");
    assert!(rows.get(1, "lateness_ns_p99").parse::<u64>().is_ok());
    assert_eq!((rows.get(0, "verdict_latency"), rows.get(0, "verdict_cpu")), ("throttled", "valid"));
    assert_eq!(rows.get(0, "bound_by"), "gateway");
    assert_eq!((rows.get(0, "data_limit_cpus"), rows.get(0, "control_limit_cpus")), ("0.5", ""));
    assert_eq!(rows.get(0, "status_2xx"), rows.get(0, "requests_completed"));
    assert_eq!((rows.get(0, "status_5xx"), rows.get(0, "tls_handshakes")), ("0", ""));
    // Cell 1 is envoy, which is overloaded: a quantile that falls on a request without a response is empty, not zero.
    assert_eq!((rows.get(3, "gateway"), rows.get(3, "latency_ns_p99")), ("envoy", ""));
    assert_eq!(rows.get(3, "requests_timed_out"), "8200");
    let failed = rows.rows.iter().position(|row| row.contains(&"failed".to_owned())).unwrap();
    assert_eq!((rows.get(failed, "failure_cause"), rows.get(failed, "verdict_cpu")), ("never-ready", ""));
    assert!(rows.get(failed, "failure_remedy").contains("weir render"));
}

#[test]
fn each_axis_is_a_column() {
    let (mut run, mut cells) = fixture::run(Scene::Good, &[0.25, 1.0]);
    let rows = Rows::of(&weir_export::csv(&run, &cells).unwrap());
    assert_eq!(
        (rows.get(0, "axis.limits.data.cpus"), rows.get(30, "axis.limits.data.cpus")),
        ("0.25", "1.0")
    );
    // One value that is not a number turns the whole column into text.
    run.plan[0].axes.insert("limits.data.cpus".into(), "unlimited".into());
    cells[0].key = run.plan[0].clone();
    let rows = Rows::of(&weir_export::csv(&run, &cells).unwrap());
    assert_eq!(
        (rows.get(0, "axis.limits.data.cpus"), rows.get(2, "axis.limits.data.cpus")),
        ("unlimited", "0.25")
    );
}

#[test]
fn rows_of_steps_and_routes_repeat_no_total_of_the_load() {
    let (run, mut cells) = mixed();
    let [fast_ns, slow_ns] = with_steps_and_routes(&mut cells);
    let rows = Rows::of(&weir_export::csv(&run, &cells).unwrap());
    let sets: Vec<&str> = (0..5).map(|row| rows.get(row, "set")).collect();
    assert_eq!(sets, ["load", "step", "step", "route", "load"]);
    assert_eq!((rows.get(2, "step"), rows.get(2, "connections")), ("1", "10"));
    assert_eq!((rows.get(1, "asked_rate_per_s"), rows.get(2, "asked_rate_per_s")), ("", "250.0"));
    assert_eq!((rows.get(3, "route"), rows.get(3, "requests_completed")), ("GET /get/:id", "10"));
    assert_eq!(
        (rows.get(3, "latency_ns_p50"), rows.get(3, "latency_ns_max")),
        (fast_ns.to_string().as_str(), "")
    );
    assert_eq!(rows.get(3, "latency_ns_p90"), slow_ns.to_string());
    for row in 1..4 {
        assert_eq!(rows.get(row, "verdict_latency"), "throttled", "of the load");
        for column in ["data_cpu_s_user", "counted_origin", "cpu_us_per_request", "whole_sent"] {
            assert_eq!(rows.get(row, column), "", "{column}");
        }
    }
}

#[test]
fn the_json_document_has_the_whole_run() {
    let (run, mut cells) = mixed();
    with_steps_and_routes(&mut cells);
    let document: Value = serde_json::from_str(&weir_export::json(&run, &cells).unwrap()).unwrap();
    assert_eq!(document["run"], serde_json::to_value(&run).unwrap());
    assert_eq!(document["cells"].as_array().unwrap().len(), cells.len());
    // In the JSON, an object with count and quantiles replaces each histogram. Once the histograms are put back, the
    // cells equal the original ones.
    let mut reported = document["cells"].clone();
    let described = put_back(&mut reported);
    assert!(described > cells.len() * 20, "{described} histograms");
    assert_eq!(reported, serde_json::to_value(&cells).unwrap());
    let latency = &document["cells"][0]["outcome"]["measurements"][0]["record"]["latency"];
    let CellOutcome::Measured { measurements } = &cells[0].outcome else { panic!("cell 0") };
    let record = &measurements[0].record;
    assert_eq!(latency["count"], record.result.requests.completed);
    assert_eq!(latency["quantiles_ns"]["p99"], record.result.latency_ns.p99.unwrap());
}

/// Replaces each object that contains a histogram, its count and its quantiles with the histogram itself. Returns the
/// number of histograms.
fn put_back(value: &mut Value) -> usize {
    if let Some(histogram) = value.get("hdr_v2_base64") {
        assert!(value["quantiles_ns"].get("p9999").is_some() && value["count"].is_u64(), "{value}");
        *value = histogram.clone();
        return 1;
    }
    match value {
        Value::Object(fields) => fields.values_mut().map(put_back).sum(),
        Value::Array(items) => items.iter_mut().map(put_back).sum(),
        _ => 0,
    }
}

#[test]
fn summaries_of_k6() {
    let (run, cells) = mixed();
    let text = weir_export::k6(&run, &cells);
    let summaries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(summaries.len(), 28, "a line per measured load");
    insta::assert_snapshot!(serde_json::to_string_pretty(&summaries[1]).unwrap());
    // Envoy is overloaded in the open load. The p99 falls on a request without a response, so the p99 is null.
    assert_eq!(summaries[3]["metrics"]["http_req_duration"]["p(99)"], Value::Null);
    assert_eq!(summaries[3]["metrics"]["http_req_failed"]["passes"], 8200);
}

#[test]
fn statistics_of_locust() {
    let (run, mut cells) = mixed();
    let [fast_ns, _] = with_steps_and_routes(&mut cells);
    let text = weir_export::locust(&run, &cells).unwrap();
    let head: Vec<&str> = text.lines().take(4).collect();
    insta::assert_snapshot!(head.join("\n"));
    let rows = Rows::of(&text);
    assert_eq!((rows.get(0, "Type"), rows.get(0, "Name")), ("GET", "/get/:id"));
    assert_eq!((rows.get(0, "Request Count"), rows.get(0, "Failure Count")), ("11", "2"));
    assert_eq!(
        (rows.get(0, "50%"), rows.get(0, "100%")),
        ((fast_ns as f64 / 1e6).to_string().as_str(), "N/A")
    );
    assert_eq!(rows.rows.iter().filter(|row| row[1] == "Aggregated").count(), 28);
}
