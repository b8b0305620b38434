//! Tests of the finding that compares one domain with many: throughput at CPU limits, and the costs of starts and
//! configurations.

use serde_json::json;
use weir_analysis::findings::ManyDomains;
use weir_analysis::{Figure, Summary, summarize};
use weir_results::ArrivalModel::Closed;
use weir_results::{
    Cell, CellOutcome, ColdStart, CpuSeconds, FileKind, HostShare, KeptFile, NetworkUsage, Reason, TlsResult,
    Usage,
};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run};

const RATE_PER_S: u64 = 2_000;
const MIB: u64 = 1 << 20;

/// A cell with `cpus` cores. Before any load, it uses 10 MiB of memory, plus 50 KiB per domain, plus `repeat` MiB.
fn at(gateway: &str, domains: u64, cpus: f64, repeat: u32) -> Cell {
    let mut record = record(Closed, RATE_PER_S, 500_000);
    record.result.tls = Some(TlsResult { handshakes: 20_000, resumed: 5_000, ..TlsResult::default() });
    let data = Usage { cpu_cores: 0.99 * cpus, ..usage(0.99) };
    let mut cell = cell(gateway, repeat, vec![Load { name: "resumed", record, data, host: quiet() }]);
    cell.key.axes = [("topology.domains", json!(domains)), ("limits.data.cpus", json!(cpus))]
        .map(|(path, value)| (path.to_owned(), value))
        .into();
    cell.files = ["gateway/weir.yaml", "origin/nginx.conf"]
        .map(|name| KeptFile {
            name: name.into(),
            kind: FileKind::Configuration,
            bytes: 70 * domains,
            text: "x".into(),
        })
        .into();
    cell.cold_start = Some(ColdStart {
        first_answer_ns: 100_000_000 + 1_000_000 * u64::from(repeat),
        cpu_s: Some(CpuSeconds { user: 0.03, system: 0.01 }),
        memory_bytes: Some((10 + u64::from(repeat)) * MIB + domains * 50 * 1024),
        host: Some(quiet()),
    });
    cell
}

/// One domain and 1,024 domains at two limits in three repeats; `change` modifies each cell.
fn summary(change: impl Fn(&mut Cell)) -> Summary {
    let mut cells = Vec::new();
    for repeat in 0..3 {
        for domains in [1, 1_024] {
            for cpus in [1.0, 0.5] {
                for gateway in ["weir", "nginx"] {
                    cells.push(at(gateway, domains, cpus, repeat));
                }
            }
        }
    }
    cells.iter_mut().for_each(change);
    let mut run = run(&["weir", "nginx"], None);
    run.scenario["loads"] = json!({ "resumed": { "model": "closed", "per_connection": 1 } });
    summarize(&plan(run, &cells), &cells)
}

fn domains(change: impl Fn(&mut Cell)) -> ManyDomains {
    summary(change).former.domains.expect("starts were measured")
}

#[track_caller]
fn near(figure: &Figure, expected: f64) {
    let mean = figure.mean.expect("a figure with a mean");
    assert!((mean / expected - 1.0).abs() < 1e-9, "{mean}, not {expected}");
}

#[test]
fn each_load_is_listed_over_the_limits() {
    let summary = summary(|_| ());
    let found = summary.former.domains.as_ref().unwrap();
    assert_eq!(found.loads.len(), 2, "one for each number of domains");
    for load in &found.loads {
        let rows: Vec<_> =
            load.rows.iter().map(|row| (row.gateway.as_str(), row.limit_cpus.unwrap())).collect();
        assert_eq!(rows, [("weir", 0.5), ("weir", 1.0), ("nginx", 0.5), ("nginx", 1.0)]);
        assert_eq!((load.load.as_str(), load.of_interfaces), ("resumed", false));
        for row in &load.rows {
            let point = &summary.points[row.point];
            assert_eq!(point.axes["limits.data.cpus"].as_f64(), row.limit_cpus);
            assert_eq!(point.axes["topology.domains"], load.axes["topology.domains"]);
            let rate_per_s = RATE_PER_S as f64;
            // The gateway receives what the client sends.
            near(&row.received_bytes_per_s, 60.0 * rate_per_s);
            near(&row.sent_bytes_per_s, 200.0 * rate_per_s);
            near(&row.requests_per_day, 86_400.0 * rate_per_s);
            near(row.handshakes_per_cpu_s.as_ref().unwrap(), rate_per_s / (0.99 * row.limit_cpus.unwrap()));
            near(row.resumed_share.as_ref().unwrap(), 0.25);
        }
    }
}

#[test]
fn handshakes_come_from_connections_with_a_request_limit() {
    let mut summarized = summary(|_| ());
    let weir = |summary: &Summary| summary.former.domains.as_ref().unwrap().loads[0].rows[0].clone();
    assert!(weir(&summarized).handshakes_per_cpu_s.is_some());
    let cells: Vec<Cell> = (0..3).map(|repeat| at("weir", 1, 1.0, repeat)).collect();
    let mut run = plan(run(&["weir"], None), &cells);
    run.scenario["loads"] = json!({ "resumed": { "model": "closed" } });
    summarized = summarize(&run, &cells);
    assert!(weir(&summarized).handshakes_per_cpu_s.is_none(), "connections are kept");
    run.scenario["loads"] = json!({ "resumed": { "model": "closed", "per_connection": 4 } });
    summarized = summarize(&run, &cells);
    near(weir(&summarized).handshakes_per_cpu_s.as_ref().unwrap(), RATE_PER_S as f64 / 0.99 / 4.0);
    let plain: Vec<Cell> = cells.into_iter().map(without_tls).collect();
    let row = weir(&summarize(&run, &plain));
    assert!(row.handshakes_per_cpu_s.is_none() && row.resumed_share.is_none());
}

fn without_tls(mut cell: Cell) -> Cell {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    measurements[0].record.result.tls = None;
    cell
}

#[test]
fn bytes_come_from_the_interfaces_if_all_gateways_have_one() {
    let crossed = |cell: &mut Cell| {
        let gateway = cell.key.gateway.clone();
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
        let network =
            NetworkUsage { received_bytes: 5_000_000, sent_bytes: 7_000_000, ..NetworkUsage::default() };
        measurements[0].usage.get_mut(&gateway).unwrap().network = Some(network);
    };
    let all = domains(crossed);
    assert!(all.loads.iter().all(|load| load.of_interfaces));
    near(&all.loads[1].rows[2].received_bytes_per_s, 500_000.0);
    near(&all.loads[1].rows[2].sent_bytes_per_s, 700_000.0);
    // If one gateway lacks interface counters, the bytes counted by clients are used for all gateways, so that a column
    // never mixes the two.
    let some = domains(|cell| {
        if cell.key.gateway == "weir" {
            crossed(cell)
        }
    });
    assert!(some.loads.iter().all(|load| !load.of_interfaces));
    near(&some.loads[1].rows[0].received_bytes_per_s, 60.0 * RATE_PER_S as f64);
}

#[test]
fn starts_measure_the_memory_of_the_configuration() {
    let found = domains(|_| ());
    let [one, many] = found.starts.as_slice() else { panic!("{:?}", found.starts) };
    assert!(one.rows.iter().all(|row| row.configuration_memory_bytes.is_none()));
    let row = &many.rows[0];
    assert_eq!((row.gateway.as_str(), row.limit_cpus), ("weir", Some(0.5)));
    near(&row.cpu_s, 0.04);
    let more = row.configuration_memory_bytes.as_ref().unwrap();
    near(more, 1_023.0 * 50.0 * 1024.0);
    assert!(more.headline && row.first_answer_ns.headline && row.memory_bytes.headline);
    assert_eq!(row.configuration_bytes, Some(70 * 1_024), "without that of the upstream");
    assert_eq!(
        found.conclusions,
        ["weir", "nginx"].map(|gateway| format!(
            "{gateway} uses 50.0 MiB [50.0 .. 50.0] more memory with topology.domains = 1024 than with one domain, before any load."
        ))
    );
}

#[test]
fn starts_with_host_noise_or_without_limits_are_excluded() {
    let disturbed = domains(|cell| {
        if cell.key.repeat == 1 {
            cell.cold_start.as_mut().unwrap().host = Some(HostShare { steal: 0.1, others: 0.0, idle: 0.2 });
        }
    });
    let row = &disturbed.starts[1].rows[0];
    assert_eq!((row.first_answer_ns.valid, row.memory_bytes.valid), (2, 2));
    assert_eq!(row.first_answer_ns.reasons(), [(Reason::HostNoise, 1)]);
    assert!(!row.configuration_memory_bytes.as_ref().unwrap().headline && disturbed.conclusions.is_empty());
    let unlimited = domains(|cell| cell.parts.iter_mut().for_each(|part| part.limits_applied = false));
    assert_eq!(unlimited.starts[0].rows[0].cpu_s.reasons(), [(Reason::LimitNotApplied, 3)]);
}

#[test]
fn without_starts_there_is_no_finding() {
    assert_eq!(summary(|cell| cell.cold_start = None).former.domains, None);
}
