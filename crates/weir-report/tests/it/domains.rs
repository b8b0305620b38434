//! The section about limits, TLS handshakes and cold starts.

use serde_json::json;
use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, ColdStart, CpuSeconds, DIRECT, HostShare, Run, TlsResult};

use crate::fixture::{Scene, run};

/// A run with one domain and with a thousand domains. The closed load opens a connection for each request.
fn many_domains() -> (Run, Vec<Cell>) {
    let (mut run, base) = run(Scene::Good, &[0.25, 0.5]);
    let mut cells: Vec<Cell> = Vec::new();
    for domains in [1, 1_000] {
        for cell in &base {
            let mut cell = cell.clone();
            cell.key.index = cells.len() as u32;
            cell.key.axes.insert("topology.domains".into(), domains.into());
            started(&mut cell, domains);
            cells.push(cell);
        }
    }
    run.scenario["cold_start"] = true.into();
    run.scenario["topology"] = json!({ "tls": true, "certificates": "each" });
    run.scenario["cases"] = json!([{ "topology.domains": 1 }, { "topology.domains": 1_000 }]);
    run.scenario["loads"]["full"]["per_connection"] = 1.into();
    run.plan = cells.iter().map(|cell| cell.key.clone()).collect();
    (run, cells)
}

fn started(cell: &mut Cell, domains: u64) {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    let tls = TlsResult { handshakes: 1_000, resumed: 900, ..TlsResult::default() };
    measurements[0].record.result.tls = Some(tls);
    let size = cell.key.gateway.len() as u64;
    let start = ColdStart {
        first_answer_ns: (30 + domains / 4 + u64::from(cell.key.repeat)) * 1_000_000 * size,
        cpu_s: Some(CpuSeconds { user: 0.001 * domains as f64, system: 0.01 }),
        memory_bytes: Some(((5 << 20) + domains * 40_000) * size + u64::from(cell.key.repeat) * 70_000),
        host: Some(HostShare { steal: 0.001, others: 0.004, idle: 0.3 }),
    };
    cell.cold_start = (cell.key.gateway != DIRECT).then_some(start);
}

fn section(text: &str) -> &str {
    let start = text.find("## Throughput per CPU limit").expect("the section");
    let end = text[start + 3..].find("\n## ").expect("the next section");
    text[start..start + 3 + end].trim_end()
}

#[test]
fn limits_and_starts_as_markdown() {
    let (run, cells) = many_domains();
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    insta::assert_snapshot!(section(&text));
}

#[test]
fn no_line_of_limits_and_starts_is_wider_than_the_terminal() {
    let (run, cells) = many_domains();
    let summary = summarize(&run, &cells);
    for width in [80, 120, 200] {
        let text = weir_report::terminal(&run, &cells, &summary, width, false);
        assert!(text.contains("Throughput per CPU limit"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}
