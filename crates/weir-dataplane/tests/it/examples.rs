//! Runs the examples of the manual page about filters.

use crate::setup::{Answer, Origin, Proxy};

const MANUAL: &str = include_str!("../../../../docs/filters.md");

/// The response of backends.
const OK: &str = "HTTP/1.1 200 OK\r\nServer: own\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";

/// One request of an example: the request of the client, the upstream request, and the start of the response.
#[derive(Debug, Default)]
struct Step {
    sent: Vec<&'static str>,
    passed: Vec<&'static str>,
    reported: Vec<&'static str>,
}

/// The routes of each example, with its requests and responses. The page's first example is not included: it is a
/// complete configuration, which a test of `weir-gateway` runs.
fn examples() -> Vec<(&'static str, Vec<Step>)> {
    let blocks = MANUAL.split("```yaml\n").skip(1).filter(|block| block.starts_with("routes:"));
    blocks
        .map(|block| {
            let (routes, rest) = block.split_once("```\n").expect("the block must be closed");
            let shown = rest.strip_prefix("```text\n").and_then(|rest| rest.split_once("```"));
            (routes, shown.map_or_else(Vec::new, |(lines, _)| steps(lines)))
        })
        .collect()
}

fn steps(lines: &'static str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut former = "<";
    for line in lines.lines() {
        let (side, text) = line.split_once(' ').expect("a line must start with its side");
        if side == ">" && former != ">" {
            steps.push(Step::default());
        }
        let step = steps.last_mut().expect("an example must start with the client");
        match side {
            ">" => step.sent.push(text),
            "|" => step.passed.push(text),
            "<" => step.reported.push(text),
            _ => panic!("{line}"),
        }
        former = side;
    }
    steps
}

/// Joins `lines` into a request. Adds the default host if the page omits it.
fn request(lines: &[&str]) -> String {
    let mut lines = lines.to_vec();
    if !lines.iter().any(|line| line.starts_with("Host: ")) {
        lines.insert(1, "Host: example.org");
    }
    format!("{}\r\n\r\n", lines.join("\r\n"))
}

fn check(answer: &Answer, reported: &[&str]) {
    let lines: Vec<&str> = answer.head.split("\r\n").collect();
    let is_status = |line: &&&str| line.starts_with("HTTP/");
    // The page omits the default status.
    assert_eq!(lines.first(), Some(reported.first().filter(is_status).unwrap_or(&"HTTP/1.1 200 OK")));
    for line in reported {
        assert!(lines.contains(line), "{line} is not in {}", answer.head);
    }
}

#[test]
fn examples_of_the_manual_are_correct() {
    let mut shown = 0;
    for (routes, steps) in &examples() {
        let (origin, next) = (Origin::answering(OK), Origin::answering(OK));
        let proxy = Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n{routes}\
             backends: {{ web: {{ endpoints: ['{}'] }}, next: {{ endpoints: ['{}'] }} }}\n",
            origin.address, next.address
        ));
        for step in steps {
            // Only the response headers are read, because a compressed body is not text. So each request needs a new
            // connection.
            let mut client = proxy.connect();
            client.send(&request(&step.sent));
            check(&client.head(), &step.reported);
        }
        let passed: Vec<String> =
            steps.iter().filter(|step| !step.passed.is_empty()).map(|step| request(&step.passed)).collect();
        assert_eq!(origin.requests(), passed, "{routes}");
        shown += steps.len();
    }
    assert!(shown >= 5, "{shown}");
}

#[test]
fn every_filter_has_an_example() {
    let blocks = MANUAL.split("```yaml\n").skip(1);
    let shown: String = blocks.filter_map(|block| block.split("```").next()).collect();
    for field in [
        "request_headers:",
        "response_headers:",
        "rewrite:",
        "redirect:",
        "respond:",
        "cors:",
        "compress:",
        "mirror:",
        "backends: [{ backend: ",
        "timeouts:",
        "retries:",
    ] {
        assert!(shown.contains(field), "{field} has no example");
    }
}
