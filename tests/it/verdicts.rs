//! Verdicts that hold on every machine: counters that differ, an interval threshold that no run meets, a generator that
//! sends late, and a failing upstream.

use crate::program::{finish, json, scenario, text, the_host, weir};
use crate::run::measurements;

#[test]
fn a_gateway_that_responds_without_its_upstream_is_implausible() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let drivers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/drivers");
    let path = scenario(folder.path(), "[answers-itself]", "");
    let arguments = ["run", path.to_str().unwrap(), "--drivers", drivers, "--db", "weir.db", "--json"];
    let output = finish(weir(folder.path(), &arguments));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let result = json(&output);
    let measured = measurements(&result, "answers-itself");
    assert_eq!(measured.len(), 4, "two loads in two repeats");
    for measurement in measured {
        let counters = &measurement["counters"];
        let sent = counters["generator_sent"].as_u64().unwrap();
        assert!(sent > 0 && counters["origin_requests"] == 0, "{counters}");
        let judgement = &measurement["judgement"];
        for metric in ["throughput", "latency", "cpu"] {
            let reasons = judgement["verdicts"][metric].as_array().unwrap();
            assert!(reasons.contains(&"implausible".into()), "{metric}: {reasons:?}");
        }
        let said = judgement["evidence"].to_string();
        assert!(said.contains("the upstream counted 0 "), "{said}");
    }
    for measurement in measurements(&result, "direct") {
        let reasons = measurement["judgement"]["verdicts"]["throughput"].to_string();
        assert!(!reasons.contains("implausible"), "only the origin responds: {reasons}");
    }
}

#[test]
fn repeats_that_differ_more_than_the_threshold_are_noisy() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    // `interval_share` allows an uncertainty of one millionth, which three real repeats always exceed. The other
    // thresholds turn off checks that host noise could fail.
    let thresholds = "thresholds: { interval_share: 0.000001, disturbed_share: 1, worker_busy_share: 1, error_share: 1 }\n";
    let path = scenario(folder.path(), "[weir]", thresholds);
    let arguments =
        ["run", path.to_str().unwrap(), "--repeats", "3", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir(folder.path(), &arguments));
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let result = json(&output);
    let full = &result["summary"]["points"][0]["rows"][0];
    assert_eq!((&full["gateway"], &full["throughput_per_s"]["valid"]), (&"weir".into(), &3.into()), "{full}");
    assert_eq!(full["throughput_per_s"]["headline"], false);
    assert!(full["throughput_per_s"]["noise"]["reach"].as_f64().unwrap() > 0.000_001, "{full}");
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(report.contains("noisy: throughput") && report.contains("is uncertain by"), "{report}");
    assert!(full["latency_ns"][0][1]["noise"].is_null(), "the latency of a closed load is no headline");
}

#[test]
fn an_open_load_with_late_sends_is_re_measured_and_a_closed_load_is_not() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "[weir]", "thresholds: { disturbed_share: 1 }\n");
    let squeezed = ["limits.generator.cpus=0.02", "loads.tail.connections=500", "retries=2", "repeats=1"];
    let mut arguments = vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--json"];
    arguments.extend(squeezed.iter().flat_map(|set| ["--set", set]));
    let output = finish(weir(folder.path(), &arguments));
    let error = text(&output.stderr);
    // The closed load has a headline only if the generator stayed below its quota.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{error}");
    // The plan has four loads: two in each of two cells. Retries may take half of the planned time, so weir re-measures
    // at most two loads.
    assert!(
        error.contains(", loads re-measured after noise: 2)")
            || error.contains("(loads re-measured after noise: 2)"),
        "{error}"
    );
    let result = json(&output);
    let attempts =
        result["cells"].as_array().unwrap().iter().map(|cell| cell["attempts"].as_u64().unwrap_or(1));
    assert_eq!(attempts.sum::<u64>(), 4, "{error}");
    for cell in result["cells"].as_array().unwrap() {
        let [_, tail] = cell["outcome"]["measurements"].as_array().unwrap().as_slice() else {
            panic!("two loads: {cell}")
        };
        let reasons = tail["judgement"]["verdicts"]["latency"].to_string();
        assert!(reasons.contains("generator-limited"), "{reasons}");
    }
}

#[test]
fn only_an_error_share_above_the_limit_makes_a_load_invalid() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "[weir]", "");
    // Each of at least 300 requests fails with probability 10 %: the observed share is between 2 % and 30 %.
    let failing = ["--set", "origin.errors=10%", "--set", "duration=1s", "--set", "repeats=1"];
    for (allowed, is_invalid) in [("2%", true), ("30%", false)] {
        let allowed = format!("objective.errors={allowed}");
        let mut arguments =
            vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--json", "--set", &allowed];
        arguments.extend(failing);
        let result = json(&finish(weir(folder.path(), &arguments)));
        for measurement in [measurements(&result, "weir"), measurements(&result, "direct")].concat() {
            let requests = &measurement["record"]["result"]["requests"];
            let judgement = &measurement["judgement"];
            for metric in ["throughput", "latency", "cpu"] {
                let reasons = judgement["verdicts"][metric].as_array().unwrap();
                assert_eq!(
                    reasons.contains(&"errors".into()),
                    is_invalid,
                    "{allowed}, {metric}: {reasons:?}, {requests}"
                );
            }
            let said = judgement["evidence"].to_string();
            assert_eq!(said.contains("scheduled requests are errors"), is_invalid, "{said}");
        }
    }
}
