//! Files of other programs: real files of Locust and k6, files in the format of the Gorouter rig, and invalid files.

use weir_analysis::compare::{Dataset, Measure, Series, Source};
use weir_export::{ForeignError, ForeignFile, read_foreign};

const PERF: &str = include_str!("../fixtures/gorouter/perf.csv");
const PERF_AGAIN: &str = include_str!("../fixtures/gorouter/perfAgain.csv");
const CPU: &str = include_str!("../fixtures/gorouter/cpuStats.csv");
const CPU_OF_EACH: &str = include_str!("../fixtures/gorouter/perCpuStats.csv");
/// Real files, measured against `weir origin --delay const:5ms`: Locust 2.47.0 ran for eight seconds, k6 1.8.1 for two.
const LOCUST: &str = include_str!("../fixtures/locust_stats.csv");
const K6_EXPORTED: &str = include_str!("../fixtures/k6_summary_export.json");
const K6_HANDLED: &str = include_str!("../fixtures/k6_handle_summary.json");

fn file(name: &str, text: &str) -> ForeignFile {
    ForeignFile { name: name.into(), text: text.into() }
}

fn read(files: &[(&str, &str)], cores: Option<f64>) -> Result<Dataset, ForeignError> {
    let files: Vec<ForeignFile> = files.iter().map(|(name, text)| file(name, text)).collect();
    read_foreign(&files, cores)
}

/// The values of a metric, one per repeat.
fn values(series: &Series, measure: &str) -> Vec<Option<f64>> {
    let figure = series.figure(Measure::named(measure).unwrap());
    figure.map(|figure| figure.repeats.iter().map(|of| of.value()).collect()).unwrap_or_default()
}

#[track_caller]
fn near(values: &[Option<f64>], expected: &[f64]) {
    assert_eq!(values.len(), expected.len(), "{values:?}");
    for (value, expected) in values.iter().zip(expected) {
        let value = value.unwrap_or_else(|| panic!("no value where {expected} is expected"));
        assert!((value - expected).abs() < 2e-3 * expected, "{value} is not {expected}");
    }
}

fn notes(dataset: &Dataset) -> String {
    let Source::Foreign { notes, .. } = &dataset.source else { panic!("it is foreign") };
    notes.join("\n")
}

#[test]
fn steps_of_the_gorouter_rig_are_loads_and_its_files_repeats() {
    let dataset = read(&[("perf.csv", PERF), ("perfAgain.csv", PERF_AGAIN)], None).unwrap();
    let loads: Vec<&str> = dataset.series.iter().map(|series| series.load.as_str()).collect();
    assert_eq!(loads, ["step 1", "step 2"]);
    // Four requests start at 33.000 s or later. The last one ends at 33.100 s in the first file, and at 33.102 s in the
    // second. Seconds are converted to nanoseconds.
    near(&values(&dataset.series[0], "throughput"), &[40.0, 4.0 / 0.102]);
    near(&values(&dataset.series[0], "p50"), &[10e6, 11e6]);
    near(&values(&dataset.series[0], "p99"), &[70e6, 72e6]);
    near(&values(&dataset.series[1], "mean"), &[22.25e6, 23e6]);
    assert!(dataset.series[0].curve.len() > 3);
    assert_eq!(values(&dataset.series[0], "cpu"), [None, None]);
}

#[test]
fn cpu_of_the_gorouter_rig_is_assigned_to_steps() {
    let dataset = read(&[("perf.csv", PERF), ("cpuStats.csv", CPU)], Some(4.0)).unwrap();
    // CPU time per request in microseconds. First step: a quarter of four cores for 100 ms, divided by four requests.
    // Second step: half of the cores for 50 ms, divided by four requests.
    near(&values(&dataset.series[0], "cpu"), &[25_000.0]);
    near(&values(&dataset.series[1], "cpu"), &[25_000.0]);
    let unknown = read(&[("perf.csv", PERF), ("cpuStats.csv", CPU)], None).unwrap();
    assert_eq!(values(&unknown.series[0], "cpu"), [None]);
    assert!(notes(&unknown).contains("--cores"), "{}", notes(&unknown));
    // With a column per core, `cores` is not needed.
    let each = read(&[("perf.csv", PERF), ("perCpuStats.csv", CPU_OF_EACH)], None).unwrap();
    near(&values(&each.series[0], "cpu"), &[10_000.0]);
    near(&values(&each.series[1], "cpu"), &[12_500.0]);
}

#[test]
fn statistics_of_the_real_locust() {
    let again = LOCUST.replace("531.77", "532.77");
    let dataset = read(&[("a_stats.csv", LOCUST), ("b_stats.csv", &again)], None).unwrap();
    let [series] = dataset.series.as_slice() else { panic!("one load") };
    let row: Vec<&str> =
        LOCUST.lines().find(|line| line.starts_with(",Aggregated")).unwrap().split(',').collect();
    let number = |place: usize| row[place].parse::<f64>().unwrap();
    near(&values(series, "throughput"), &[number(9), number(9)]);
    near(&values(series, "mean"), &[number(5) * 1e6; 2]);
    near(&values(series, "p50"), &[number(11) * 1e6; 2]);
    near(&values(series, "p99"), &[number(18) * 1e6; 2]);
    assert!((5e6..50e6).contains(&values(series, "p50")[0].unwrap()), "5 ms were given");
    assert!(notes(&dataset).contains("Locust rounds"), "{}", notes(&dataset));
    // Like weir's own export in Locust's format, this file has values that are not rounded.
    let exact = read(&[("a_stats.csv", &LOCUST.replace(",6,6,6,", ",5.937,6,6,"))], None).unwrap();
    assert!(!notes(&exact).contains("Locust rounds"), "{}", notes(&exact));
    assert!(notes(&exact).contains("throughput includes failed requests"), "{}", notes(&exact));
}

/// Returns the warnings, and how many repeats are valid for throughput and for the median.
fn what_counts(dataset: &Dataset) -> (String, [usize; 2]) {
    let Source::Foreign { warnings, .. } = &dataset.source else { panic!("it is foreign") };
    let valid = |measure| dataset.series[0].figure(Measure::named(measure).unwrap()).unwrap().valid;
    (warnings.join("\n"), [valid("throughput"), valid("p50")])
}

#[test]
fn repeats_with_failed_requests_are_excluded() {
    let failed = |failures: &str| LOCUST.replace(",3195,0,", &format!(",3195,{failures},"));
    let check = |failures: &str, expected: &str, valid: usize| {
        let files = [("a_stats.csv", LOCUST), ("b_stats.csv", &failed(failures))];
        let (said, counted) = what_counts(&read(&files, None).unwrap());
        assert_eq!((said.as_str(), counted), (expected, [valid; 2]));
    };
    check("3", "3 of 6,390 requests failed", 2);
    check(
        "3195",
        "1 of 2 repeats excluded: more than 0.1 % of the requests failed\n3,195 of 6,390 requests failed",
        1,
    );
    let rate = |share: f64| {
        let mut document: serde_json::Value = serde_json::from_str(K6_EXPORTED).unwrap();
        document["metrics"]["http_req_failed"] = serde_json::json!({ "value": share });
        what_counts(&read(&[("summary.json", &document.to_string())], None).unwrap())
    };
    assert_eq!(rate(0.0), (String::new(), [1, 1]));
    let (said, counted) = rate(0.25);
    assert!(said.starts_with("1 of 1 repeat excluded") && said.contains("25.0 %"), "{said}");
    assert_eq!(counted, [0, 0]);
}

#[test]
fn a_file_given_twice_is_not_a_repeat() {
    let once = "give each file once";
    refused(&[("a.csv", PERF), ("b.csv", PERF_AGAIN), ("a.csv", PERF)], &["a.csv is given twice", once]);
    refused(&[("a.csv", LOCUST), ("copy.csv", LOCUST)], &["a.csv and copy.csv have the same content", once]);
    refused(&[("a.json", K6_EXPORTED), ("b.json", &format!("{K6_EXPORTED}\n"))], &["a.json and b.json"]);
}

#[test]
fn both_summaries_of_the_real_k6() {
    for text in [K6_EXPORTED, K6_HANDLED] {
        let document: serde_json::Value = serde_json::from_str(text).unwrap();
        let at = |metric: &str, figure: &str| {
            let metric = &document["metrics"][metric];
            metric.get("values").unwrap_or(metric)[figure].as_f64().unwrap()
        };
        let dataset = read(&[("summary.json", text)], None).unwrap();
        near(&values(&dataset.series[0], "throughput"), &[at("http_reqs", "rate")]);
        near(&values(&dataset.series[0], "p50"), &[at("http_req_duration", "med") * 1e6]);
        near(&values(&dataset.series[0], "p99"), &[at("http_req_duration", "p(99)") * 1e6]);
        assert!((5e6..50e6).contains(&values(&dataset.series[0], "p50")[0].unwrap()), "5 ms were given");
    }
    let without = read(&[("summary.json", &K6_EXPORTED.replace("p(99)", "p(98)"))], None).unwrap();
    assert!(notes(&without).contains("--summary-trend-stats"), "{}", notes(&without));
}

#[track_caller]
fn refused(files: &[(&str, &str)], words: &[&str]) {
    let error = read(files, None).expect_err("it is wrong");
    let said = format!("{error}; {}", error.remedy());
    for word in words {
        assert!(said.contains(word), "{word:?} is missing in: {said}");
    }
}

#[test]
fn invalid_files_are_reported_with_the_problem() {
    refused(&[("x.csv", "")], &["x.csv", "empty", "docs/compare.md"]);
    refused(&[("x.csv", " \n\n")], &["x.csv", "empty"]);
    refused(&[("x.csv", "a,b\n1,2\n")], &["x.csv", "unknown file format", "a,b"]);
    refused(&[("x.csv", "start-time,latency\n")], &["x.csv", "the Gorouter rig: `response-time`"]);
    refused(&[("x.csv", "timestamp,usage\n")], &["`percentage`"]);
    refused(
        &[("x.csv", "Type,Name,Request Count,50%\n")],
        &["Locust", "`Failure Count`", "`Requests/s`", "`99%`"],
    );
    refused(&[("x.csv", "start-time,response-time\n")], &["no requests"]);
    let wrong =
        |from: &str, to: &str, words: &[&str]| refused(&[("x.csv", &PERF.replacen(from, to, 1))], words);
    wrong("0.0120", "12ms", &["x.csv:3", "response-time is `12ms`", "0.0775"]);
    wrong("0.0120", "-1", &["x.csv:3", "`-1`"]);
    wrong("0.0120", "", &["x.csv:3", "``"]);
    wrong("2017-08-25T21:07:33.01", "yesterday", &["x.csv:3", "start-time is `yesterday"]);
    refused(&[("cpu.csv", CPU)], &["cpu.csv", "only CPU samples"]);
    refused(&[("a.csv", PERF_AGAIN), ("cpu.csv", CPU)], &["cpu.csv", "no CPU sample", "a.csv"]);
    let one_step = PERF.rsplit_once("start-time").unwrap().0;
    refused(&[("a.csv", PERF), ("b.csv", one_step)], &["b.csv", "1 step, but a.csv has 2"]);
    refused(
        &[("a.csv", PERF), ("b_stats.csv", LOCUST)],
        &["b_stats.csv is a file of Locust", "a.csv is a file of the Gorouter rig"],
    );
    refused(&[("x.csv", &LOCUST.replace(",Aggregated", ",Sum"))], &["no row `Aggregated`"]);
    refused(
        &[("x.csv", &LOCUST.replace("GET,/", ",Aggregated"))],
        &["several `Aggregated` rows", "--format weir"],
    );
    refused(&[("x.json", "{\"metrics\": {}}")], &["x.json", "metrics.http_reqs.rate", "--summary-export"]);
    refused(&[("x.json", "{\"metrics\": ")], &["x.json", "not JSON"]);
    refused(&[("x.json", "{}\n{}\n")], &["several summaries"]);
    let k6 = |value: &str, words: &[&str]| {
        let mut document: serde_json::Value = serde_json::from_str(K6_EXPORTED).unwrap();
        document["metrics"]["http_req_duration"]["med"] = serde_json::from_str(value).unwrap();
        refused(&[("x.json", &document.to_string())], words);
    };
    k6("-1.5", &["metrics.http_req_duration.med is `-1.5`, which is not a number of at least 0"]);
    k6("\"5ms\"", &["metrics.http_req_duration.med is `\"5ms\"`, which is not a number"]);
    k6("null", &["the file has no metrics.http_req_duration.med"]);
    let header = (0..500).map(|at| format!("column {at}")).collect::<Vec<_>>().join(",");
    let error = read(&[("x.csv", &header)], None).unwrap_err().to_string();
    assert!(error.contains("begins with `column 0,") && error.chars().count() < 200, "{error}");
}
