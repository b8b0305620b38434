//! The section about added latency: the rig itself, the gateways, the cost of authentication, and every repeat.

use serde_json::{Value, json};
use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, DIRECT, DIRECT_TWIN, Reason, Run};

use crate::fixture::{Scene, run};

/// A run with a second direct baseline, and with another open load at twice the rate. Each cell exists once with TLS
/// and once without.
fn added() -> (Run, Vec<Cell>) {
    let (mut run, base) = run(Scene::Good, &[0.5]);
    let mut cells: Vec<Cell> = Vec::new();
    for tls in [false, true] {
        for cell in &base {
            let twin = (cell.key.gateway == DIRECT).then(|| {
                let mut twin = cell.clone();
                twin.key.gateway = DIRECT_TWIN.into();
                later(&mut twin, 300 + 100 * u64::from(cell.key.repeat));
                twin
            });
            for mut cell in [Some(cell.clone()), twin].into_iter().flatten() {
                cell.key.index = cells.len() as u32;
                cell.key.axes.insert("topology.tls".into(), Value::Bool(tls));
                if tls && cell.key.gateway == "nginx" {
                    later(&mut cell, 12_000);
                }
                twice(&mut cell);
                cells.push(cell);
            }
        }
    }
    run.scenario["twin"] = true.into();
    run.scenario["vary"] = json!({ "topology.tls": [false, true] });
    run.scenario["loads"]["tail-high"] = json!({ "model": "open", "rate": "10000/s" });
    run.plan = cells.iter().map(|cell| cell.key.clone()).collect();
    (run, cells)
}

/// Increases all latencies of the open load by `more_ns`.
fn later(cell: &mut Cell, more_ns: u64) {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { return };
    let times = &mut measurements[1].record.result.latency_ns;
    for time in [
        &mut times.min,
        &mut times.p50,
        &mut times.p90,
        &mut times.p95,
        &mut times.p99,
        &mut times.p999,
        &mut times.max,
    ] {
        *time = time.map(|ns| ns + more_ns);
    }
    times.mean = times.mean.map(|ns| ns + more_ns as f64);
}

/// Adds a copy of the open load with twice the rate.
fn twice(cell: &mut Cell) {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { return };
    let mut more = measurements[1].clone();
    more.load = "tail-high".into();
    more.rate_per_s = Some(10_000.0);
    measurements.push(more);
}

fn section(text: &str) -> &str {
    let start = text.find("## Added latency").expect("the section");
    let end = text[start..].find("\n## Results by axis").or_else(|| text[start..].find("\n## full: "));
    text[start..start + end.expect("the next section")].trim_end()
}

#[test]
fn added_latency_as_markdown() {
    let (run, cells) = added();
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    insta::assert_snapshot!(section(&text));
}

#[test]
fn an_invalid_direct_cell_is_reported_as_the_reason() {
    let (run, mut cells) = added();
    let direct = cells.iter_mut().find(|cell| cell.key.gateway == DIRECT).unwrap();
    let CellOutcome::Measured { measurements } = &mut direct.outcome else { panic!("it was measured") };
    let judgement = &mut measurements[1].judgement;
    judgement.verdicts.latency = vec![Reason::GeneratorLimited];
    judgement.bounds = None;
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    let rows: Vec<&str> =
        section(&text).lines().filter(|line| line.contains("direct: generator-limited 1×")).collect();
    assert_eq!(rows.len(), 5, "four gateways and the rig: {rows:?}");
    assert!(rows.iter().all(|row| row.ends_with("2 of 3 direct: generator-limited 1× |")), "{rows:?}");
    let missing = "- because the direct baseline is invalid (generator-limited), added latency has no headline at tail (open, ";
    assert!(text.contains(missing), "{text}");
    let narrow = weir_report::terminal(&run, &cells, &summarize(&run, &cells), 80, false);
    let below: Vec<&str> = narrow.lines().skip_while(|line| !line.contains("direct:")).skip(1).collect();
    assert!(below[0].trim_end().ends_with(" generator-limited"), "a word is broken: {narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn a_long_page_has_contents_and_folds_long_tables() {
    let (run, mut cells) = added();
    for (at, cell) in cells.iter_mut().enumerate() {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        let reason = if at % 2 == 0 { Reason::GeneratorLimited } else { Reason::HostNoise };
        // The number of invalid repeats differs by load and gateway, so that no two lines of the verdict are equal.
        let of_repeats = |place: usize| (at % 6 + 2 * place + at / 18) % 4;
        for (place, measurement) in measurements.iter_mut().enumerate() {
            if (cell.key.repeat as usize) < of_repeats(place) {
                measurement.judgement.bounds = None;
                let verdicts = &mut measurement.judgement.verdicts;
                (verdicts.latency, verdicts.throughput) = (vec![reason], vec![reason]);
            }
        }
    }
    let summary = summarize(&run, &cells);
    assert!(summary.problems().len() > 8, "{:?}", summary.problems());
    let page = weir_report::html(&run, &cells, &summary).unwrap();
    let (_, contents) = page.split_once("<nav class=\"contents\"").unwrap();
    let (contents, _) = contents.split_once("</nav>").unwrap();
    for link in contents.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert!(page.contains(&format!(" id=\"{id}\"")), "no section {id}");
    }
    for id in ["glance", "added-latency", "sizing", "point-0", "time", "cells", "reading"] {
        assert!(contents.contains(&format!("\"#{id}\"")), "{contents}");
    }
    // The first table has the 2 open loads: 2 loads × 2 TLS values × 6 gateways (with both direct baselines) × 3
    // repeats = 72 rows. The second table has all 3 loads: 108 rows.
    for (heading, rows) in [("<h3>All repeats</h3>", 72), ("<h2>All loads of all cells</h2>", 108)] {
        let (_, below) = page.split_once(heading).unwrap();
        let fold = format!("<details class=\"fold rows\"><summary>{rows} rows</summary>");
        assert!(below.find(&fold).is_some_and(|at| at < 300), "{heading}");
    }
    let (_, verdict) = page.split_once("id=\"verdict\"").unwrap();
    let (verdict, _) = verdict.split_once("</section>").unwrap();
    assert!(verdict.contains("<details><summary>generator-limited: "), "{verdict}");
    let lines = verdict.matches("<li>").count() - verdict.matches("<details>").count();
    let notes =
        [summary.missing_added_latency(), weir_analysis::host_noise(&cells, run.thresholds.disturbed_share)];
    assert_eq!(lines, summary.problems().len() + notes.iter().flatten().count());
}

#[test]
fn no_line_of_added_latency_is_wider_than_the_terminal() {
    let (run, cells) = added();
    let summary = summarize(&run, &cells);
    for width in [80, 120, 200] {
        let text = weir_report::terminal(&run, &cells, &summary, width, false);
        let is_head = |line: &&str| line.contains("Client QPS") && line.contains("Added p50");
        let heads: Vec<&str> = text.lines().filter(is_head).collect();
        assert!(!heads.is_empty() && heads.iter().all(|head| head.contains("Valid repeats")), "{heads:?}");
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}

#[test]
fn files_have_the_charts_and_every_repeat() {
    let (run, cells) = added();
    let folder = tempfile::tempdir().unwrap();
    weir_report::write(&run, &cells, &summarize(&run, &cells), folder.path()).unwrap();
    for name in ["p50", "p99"] {
        let path = folder.path().join(format!("charts/added-{name}-over-asked-rate.svg"));
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.contains("the rig (A/A)") && svg.contains("haproxy at 10,000/s"), "{name}");
    }
    let table = std::fs::read_to_string(folder.path().join("findings.csv")).unwrap();
    let is_p50 = |line: &&str| line.starts_with("added-latency,") && line.contains(",latency_p50,ns,");
    let rows: Vec<&str> = table.lines().filter(is_p50).collect();
    // 2 open loads × 2 TLS values × 6 gateways (with both direct baselines) × 3 repeats.
    assert_eq!(rows.len(), 72);
    let bias = table.lines().filter(|line| line.contains("the rig (A/A)") && line.contains(",p50,ns,"));
    assert_eq!(bias.count(), 4, "{table}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("id=\"added-latency\"") && page.contains("the rig (A/A)"));
}
