//! Differences between two configurations of the same driver.

use weir_analysis::summarize;
use weir_results::{Cell, FileKind, Run};

use crate::fixture::{self, Scene};

/// A run in which the gateways named haproxy and envoy are nginx with two configuration files that differ in one line.
fn two_configurations(own_line: &str) -> (Run, Vec<Cell>) {
    let (mut run, mut cells) = fixture::run(Scene::Good, &[0.5]);
    let (old, new) = ("haproxy", "envoy");
    run.scenario["gateways"] = serde_json::json!([
        "weir",
        { "name": new, "driver": "nginx" },
        { "name": "nginx", "driver": "other" },
        { "name": old, "driver": "nginx" },
    ]);
    for cell in &mut cells {
        let name = cell.key.gateway.clone();
        if name != old && name != new {
            continue;
        }
        cell.unequal = vec!["no retries: nginx has none".into(), format!("{name} alone")];
        for file in cell.files.iter_mut().filter(|file| file.kind == FileKind::Configuration) {
            file.name = "gateway/nginx.conf".into();
            let port = 20_000 + cell.key.index;
            let own = if name == old { "keepalive 4;" } else { own_line };
            file.text = format!("events {{}}\nlisten 127.0.0.1:{port};\n{own}\nserver;\n");
        }
    }
    (run, cells)
}

#[test]
fn lines_of_two_configurations_are_listed_once() {
    let (run, cells) = two_configurations("keepalive 64;");
    let summary = summarize(&run, &cells);
    let said = [
        weir_report::terminal(&run, &cells, &summary, 200, false),
        weir_report::markdown(&run, &cells, &summary),
        weir_report::html(&run, &cells, &summary).unwrap(),
    ];
    for text in &said {
        assert_eq!(text.matches("no retries: nginx has none").count(), 1, "{text}");
        for part in ["envoy alone", "haproxy alone", "gateway/nginx.conf: ", "keepalive 4;", "keepalive 64;"]
        {
            let plain = text.replace('\\', "").replace("&#x2f;", "/");
            assert!(plain.contains(part), "no `{part}` in {text}");
        }
        assert!(!text.contains("127.0.0.1:200"), "ports that weir chooses are masked");
    }
    let (terminal, page) = (&said[0], &said[2]);
    let shown = |text: &str, indent: &str| {
        ["  listen ADDRESS;", "- keepalive 64;", "+ keepalive 4;", "  server;"]
            .map(|line| format!("{indent}{line}\n"))
            .concat()
            .lines()
            .all(|line| text.contains(line))
    };
    assert!(shown(terminal, "      ") && shown(page, ""), "{terminal}");
    assert!(!terminal.contains("events {}"), "distant lines are not shown");

    let (run, cells) = two_configurations("keepalive 4;");
    let said = weir_report::terminal(&run, &cells, &summarize(&run, &cells), 200, false);
    assert!(said.contains("envoy, haproxy: same configuration files"), "{said}");
}
