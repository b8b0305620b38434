//! New connections in synthetic runs: only loads that limit the requests per connection have values.

use serde_json::json;
use weir_analysis::findings::NewConnections;
use weir_analysis::summarize;
use weir_results::ArrivalModel::Closed;
use weir_results::{Cell, TimesNs, TlsResult};

use crate::records::{quiet, record, times, usage};
use crate::runs::{Load, cell, plan, run};

/// A cell with two loads of 2,000 requests per second at half a core: `storm` over short connections, `kept` over
/// persistent connections.
fn at(gateway: &str, repeat: u32) -> Cell {
    let load = |name| {
        let mut record = record(Closed, 2_000, 500_000);
        let handshake_ns = TimesNs { p50: Some(3_000_000), ..times(1_000_000) };
        record.result.tls = Some(TlsResult {
            handshakes: 5_000,
            resumed: 1_000,
            failed: 2,
            handshake_ns,
            ..TlsResult::default()
        });
        record.result.errors.refused = 1;
        Load { name, record, data: usage(0.5), host: quiet() }
    };
    cell(gateway, repeat, vec![load("storm"), load("kept")])
}

fn found(cells: &[Cell]) -> Vec<NewConnections> {
    let mut run = run(&["weir"], None);
    run.scenario["loads"] =
        json!({ "storm": { "model": "closed", "per_connection": 4 }, "kept": { "model": "closed" } });
    summarize(&plan(run, cells), cells).former.new_connections
}

#[test]
fn short_connections_are_counted_by_their_requests() {
    let cells: Vec<Cell> =
        (0..3).flat_map(|repeat| ["weir", "direct"].map(|gateway| at(gateway, repeat))).collect();
    let found = found(&cells);
    let [load] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((load.load.as_str(), load.per_connection), ("storm", 4));
    let names: Vec<&str> = load.rows.iter().map(|row| row.gateway.as_str()).collect();
    assert_eq!(names, ["weir", "direct"]);
    let row = &load.rows[0];
    let near = |value: Option<f64>, expected: f64| {
        assert!((value.unwrap() / expected - 1.0).abs() < 1e-9, "{row:?}")
    };
    near(row.per_s.mean, 500.0);
    // Half a core for 2,000 requests per second is 250 µs per request. Each connection has four requests, so it costs
    // 1,000 µs.
    near(row.cpu_us.mean, 1_000.0);
    // A request over a persistent connection also costs 250 µs, so opening a connection costs nothing.
    assert!(row.connection_cpu_us.as_ref().unwrap().mean.unwrap().abs() < 1e-9, "{row:?}");
    near(row.handshake_p50_ns.as_ref().unwrap().mean, 3_000_000.0);
    near(row.resumed_share.as_ref().unwrap().mean, 0.2);
    assert_eq!(row.failed, 3 * (1 + 2));
}
