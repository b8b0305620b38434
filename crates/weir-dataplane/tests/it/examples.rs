//! The examples of the manual's page about filters, as they stand there.

use crate::setup::{Answer, Origin, Proxy};

const MANUAL: &str = include_str!("../../../../docs/filters.md");

/// One request of an example: what the client sends, the upstream gets, and the answer begins with.
#[derive(Debug, Default)]
struct Step {
    sent: Vec<&'static str>,
    passed: Vec<&'static str>,
    told: Vec<&'static str>,
}

/// The configurations, each with what happens by it.
fn examples() -> Vec<(&'static str, Vec<Step>)> {
    let blocks = MANUAL.split("```yaml\n").skip(1);
    blocks
        .map(|block| {
            let (routes, rest) = block.split_once("```\n```text\n").expect("what happens by it");
            let (lines, _) = rest.split_once("```").expect("its end");
            (routes, steps(lines))
        })
        .collect()
}

fn steps(lines: &'static str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in lines.lines() {
        let (side, text) = line.split_once(' ').expect("a side and its line");
        if side == ">" && steps.last().is_none_or(|step| !step.told.is_empty()) {
            steps.push(Step::default());
        }
        let step = steps.last_mut().expect("the client begins");
        match side {
            ">" => step.sent.push(text),
            "|" => step.passed.push(text),
            "<" => step.told.push(text),
            _ => panic!("{line}"),
        }
    }
    steps
}

fn check(answer: &Answer, told: &[&str]) {
    let lines: Vec<&str> = answer.head.split("\r\n").collect();
    assert_eq!(lines.first(), told.first());
    for line in told {
        assert!(lines.contains(line), "{line} is not in {}", answer.head);
    }
}

#[test]
fn what_the_manual_shows_is_what_happens() {
    let examples = examples();
    for (routes, steps) in &examples {
        let origin = Origin::answering("HTTP/1.1 200 OK\r\nServer: own\r\nContent-Length: 2\r\n\r\nok");
        let next = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let proxy = Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n{routes}\
             backends: {{ web: {{ endpoints: ['{}'] }}, next: {{ endpoints: ['{}'] }} }}\n",
            origin.address, next.address
        ));
        assert!(!steps.is_empty(), "{routes}");
        let mut client = proxy.connect();
        for step in steps {
            let answer = client.ask(&format!("{}\r\n\r\n", step.sent.join("\r\n")));
            check(&answer, &step.told);
        }
        let passed: Vec<String> = steps
            .iter()
            .filter(|step| !step.passed.is_empty())
            .map(|step| format!("{}\r\n\r\n", step.passed.join("\r\n")))
            .collect();
        assert_eq!(origin.requests(), passed, "{routes}");
    }
}

#[test]
fn every_filter_has_its_example() {
    let shown: String = examples().iter().map(|(routes, _)| *routes).collect();
    for field in [
        "request_headers:",
        "response_headers:",
        "rewrite:",
        "redirect:",
        "respond:",
        "cors:",
        "compress:",
        "mirror:",
        "backends:",
        "timeouts:",
        "retries:",
    ] {
        assert!(shown.contains(field), "{field} has no example");
    }
}
