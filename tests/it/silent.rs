//! Measures a burst of silent connections: they are opened, held and closed, and the concurrent load is not affected.

use serde_json::Value;

use crate::program::{finish, json, the_host, weir};
use crate::run::measurements;

const SCENARIO: &str = "\
name: it-silent
question: Who minds connections without a request?
gateways: [weir, nginx]
limits: { data: { cpus: 0.5, memory: 512MiB } }
loads:
  alone: { model: open, rate: 100/s, connections: 8 }
  beside: { model: open, rate: 100/s, connections: 8 }
silent: { connections: 200, at: 300ms, hold: 700ms, loads: [beside] }
warmup: 300ms
duration: 1500ms
timeout: 10s
repeats: 1
retries: 0
";

#[test]
fn silent_connections_are_opened_held_and_closed() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("silent.yaml"), SCENARIO).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "silent.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    // Host noise may make values invalid. This does not mean that the burst failed.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 4)), "{code:?}");
    let result = json(&output);
    for gateway in ["weir", "nginx"] {
        let all = measurements(&result, gateway);
        let [alone, beside] = all.as_slice() else { panic!("two loads of {gateway}: {all:?}") };
        assert!(alone["events"].is_null(), "{gateway}: {alone}");
        let events = beside["events"].as_array().unwrap_or_else(|| panic!("no events: {beside}"));
        let [event] = events.as_slice() else { panic!("one event of {gateway}: {events:?}") };
        assert_eq!((event["kind"].as_str(), event["sustained"].as_bool()), (Some(KIND), Some(true)));
        let count = |name: &str| event["details"][name].as_u64().unwrap_or_else(|| panic!("{name}: {event}"));
        let ends = ["opened", "refused", "unanswered", "closed_by_gateway"].map(count);
        assert_eq!((count("connections"), ends), (200, [200, 0, 0, 0]), "{gateway}: {event}");
        assert!(count("held_ns") >= 700_000_000, "{gateway}: {event}");
        assert!(beside["counters"]["gateway_requests"].is_null(), "{gateway}: {beside}");
        let whole = &beside["record"]["whole"];
        let wrong =
            ["failed", "timed_out", "dropped", "unexpected"].map(|name| whole[name].as_u64().unwrap());
        assert_eq!(wrong, [0; 4], "{gateway}: {whole}");
    }
    let direct = measurements(&result, "direct");
    assert!(direct.iter().all(|measurement: &&Value| measurement["events"].is_null()));
    // The stored run equals the measured run.
    let report = json(&finish(weir(folder.path(), &["report", "last", "--db", "weir.db", "--json"])));
    let stored = measurements(&report, "weir");
    assert_eq!(stored[1]["events"], measurements(&result, "weir")[1]["events"]);
}

const KIND: &str = "silent-connections";
