//! Timeouts of rules.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread::{scope, sleep};
use std::time::Duration;

use super::served::{Served, ask, backend, free_port, gateway, origin, route, to};

/// Pause before each part of a late response: longer than the response timeout in the gateway's own settings.
const PAUSE: Duration = Duration::from_millis(700);

/// Responds late and in pieces.
fn answer_late(stream: &mut TcpStream) {
    for piece in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", "cd"] {
        sleep(PAUSE);
        let _ = stream.write_all(piece.as_bytes());
    }
}

#[test]
fn timeouts_of_rules_override_and_zero_means_none() {
    let ip = "127.7.11.1";
    let silent = origin(|_, _| {});
    let late = origin(|_, stream| answer_late(stream));
    // Each case: the backend, the timeouts of the rule, and the cause of the error or the body of the response.
    let cases = [
        ("silent", "request: 100ms", "request_timeout"),
        ("silent", "backendRequest: 100ms", "backend_timeout"),
        ("silent", "request: 10m, backendRequest: 100ms", "backend_timeout"),
        ("silent", "request: 0s, backendRequest: 100ms", "backend_timeout"),
        ("silent", "", "upstream_response_timeout"),
        ("late", "", "upstream_response_timeout"),
        ("late", "request: 10m", "abcd"),
        ("late", "request: 0s", "abcd"),
        ("late", "backendRequest: 10m", "abcd"),
        ("late", "backendRequest: 0s", "abcd"),
        ("late", "request: 10m, backendRequest: 0s", "abcd"),
    ];
    let rules = cases.iter().enumerate().map(|(number, (name, timeouts, _))| {
        format!(
            "    - {{ matches: [{{ path: {{ value: /{number} }} }}], timeouts: {{ {timeouts} }}, backendRefs: [{}] }}\n",
            to(name)
        )
    });
    let spec = format!("  rules:\n{}", rules.collect::<String>());
    let listener = format!("    - {{ name: http, port: {}, protocol: HTTP }}", free_port(ip));
    let all =
        [gateway(ip, &listener), backend("silent", silent), backend("late", late), route("r", "", &spec)];
    let settings = "timeouts: { response: 100ms, body: 100ms }\n";
    let served = Served::start(&[("all.yaml", &all.concat()), ("settings.yaml", settings)]);
    let address = served.gateway.addresses()[0];
    scope(|scope| {
        for (number, (name, timeouts, expected)) in cases.into_iter().enumerate() {
            scope.spawn(move || {
                let answer = ask(address, &format!("GET /{number}\r\nHost: h\r\n"));
                let (status, end) = match expected {
                    "abcd" => ("200", "\n\nabcd".to_owned()),
                    cause => ("504", format!("\nX-Weir-Error: {cause}\n")),
                };
                let is_right = answer.split(' ').nth(1) == Some(status) && answer.contains(&end);
                assert!(is_right, "{name}, {timeouts}: {answer}");
            });
        }
    });
}
