//! Measures a positive control: a second cell of one gateway, with a CPU burner and a slower upstream.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{measurements, run};

#[test]
fn a_control_burns_cpu_adds_delay_and_is_excluded_from_the_gateways() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, "[weir, nginx]", "", &["--control", "nginx=100%"]);
    let (result, error) = (json(&output), text(&output.stderr));
    assert_eq!(
        result["run"]["scenario"]["control"],
        serde_json::json!({ "share": "100%", "gateway": "nginx" })
    );
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "two repeats of weir, nginx, control and direct: {error}");
    for cell in cells.iter().filter(|cell| cell["key"]["gateway"] == "control") {
        let part = &cell["parts"].as_array().unwrap().iter().find(|part| part["role"] == "data").unwrap();
        let command: Vec<&str> =
            part["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        assert!(
            command[1..5] == ["burn", "--share", "1", "--record"] && command[7].contains("nginx"),
            "{command:?}"
        );
    }
    // The added delay is 100 % of nginx's p50 in the same block, and applies only to the open load.
    let p50s: Vec<u64> = of_tail(&result, "nginx", "/record/result/latency_ns/p50");
    let delays: Vec<u64> = of_tail(&result, "control", "/counters/origin_delay_ns_mean");
    assert_eq!((p50s.len(), delays.len()), (2, 2));
    assert!(delays.iter().zip(&p50s).all(|(delay, p50)| delay >= p50), "{delays:?} {p50s:?}");
    let full = measurements(&result, "control");
    assert!(full[0]["counters"]["origin_delay_ns_mean"].is_null(), "{}", full[0]["counters"]);
    // The burner counts as one more process of the part.
    let processes = |gateway: &str| {
        let of_all = measurements(&result, gateway);
        of_all.iter().map(|of| of["usage"]["nginx"]["pids_max"].as_u64().unwrap()).max()
    };
    assert_eq!(processes("control"), processes("nginx").map(|count| count + 1));

    let summary = &result["summary"];
    let gateways: Vec<&str> = summary["gateways"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gateway| gateway["name"].as_str().unwrap())
        .collect();
    assert_eq!(gateways, ["weir", "nginx", "direct"]);
    let findings = summary["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["key"] == "control").expect("the run has a control");
    assert!(!finding["tables"][0]["rows"].as_array().unwrap().is_empty(), "{finding}");
    let compared = finish(weir(folder, &["compare", "last:nginx", "last:control", "--db", "weir.db"]));
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
}

/// The number at `pointer` in the second load of each cell of a gateway.
fn of_tail(result: &Value, gateway: &str, pointer: &str) -> Vec<u64> {
    let cells = result["cells"].as_array().unwrap();
    let of_gateway = cells.iter().filter(|cell| cell["key"]["gateway"] == gateway);
    of_gateway.filter_map(|cell| cell["outcome"]["measurements"][1].pointer(pointer)?.as_u64()).collect()
}
