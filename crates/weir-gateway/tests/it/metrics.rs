//! Metrics, checked by promtool.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::process::{Gateway, config, connect, origin, peer, response};

#[test]
fn promtool_finds_no_problem() {
    let more = "access_log: { file: access.log }\nmetrics: { latency: true }\n";
    let gateway = Gateway::start_with(&format!("{}{more}", config(origin().0)), &[]);
    let mut client = connect(gateway.address);
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
        assert!(response(&mut client).is_some());
    }
    gateway.wait_for("the lines", |g| g.stat("lines") == 3);
    let answer = gateway.admin("/metrics");
    let (_, metrics) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(metrics.contains("\nweir_request_duration_seconds_count{"), "{metrics}");
    assert!(metrics.contains("\nweir_access_log_lines_total 3\n"), "{metrics}");
    let version = concat!("\nweir_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    assert!(metrics.contains(version), "{metrics}");
    for name in [
        "cpu_seconds_total",
        "resident_memory_bytes",
        "virtual_memory_bytes",
        "open_fds",
        "max_fds",
        "threads",
        "start_time_seconds",
    ] {
        let sample = metrics.split(&format!("\nprocess_{name} ")).nth(1).and_then(|rest| rest.lines().next());
        assert!(
            sample.and_then(|value| value.parse().ok()).is_some_and(|value: f64| value > 0.0),
            "{name}: {metrics}"
        );
    }
    let mut promtool = Command::new(peer("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    promtool.stdin.take().expect("its input").write_all(metrics.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!((output.status.code(), said), (Some(0), [String::new(), String::new()]));
}
