//! The program's log: levels, formats, changes at run time, and that it blocks no thread.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::admin::{body, post};
use crate::process::{Gateway, ask, config, connect, origin, run};

/// Starts a gateway with additional configuration and arguments.
fn start(more: &str, arguments: &[&str]) -> Gateway {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    command.args(arguments);
    Gateway::spawn(&(config(origin().0) + more), command)
}

/// The message of the next log line, which must have this level.
fn logged(gateway: &mut Gateway, level: &str) -> String {
    let start = format!(" {level} weir-gateway[{}]: ", gateway.process.as_raw_nonzero());
    let line = gateway.message();
    let (time, said) = line.split_once(&start).unwrap_or_else(|| panic!("{line:?} is none of {start:?}"));
    assert!(time.len() == 24 && time.ends_with('Z') && said.ends_with('\n'), "{line:?}");
    said.trim_end().to_owned()
}

fn level(gateway: &Gateway) -> String {
    body(&gateway.admin("/log_level")).to_owned()
}

/// Sends a malformed request, and waits for the response.
fn ask_nonsense(address: SocketAddr) {
    let mut client = connect(address);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[test]
fn lines_of_standard_output_are_also_logged() {
    let mut gateway = start("", &["--log-level", "info"]);
    assert_eq!(logged(&mut gateway, "info"), format!("listening on {}", gateway.address));
    assert_eq!(logged(&mut gateway, "info"), format!("admin on {}", gateway.admin));
    assert_eq!(logged(&mut gateway, "info"), "ready");
    gateway.signal(Signal::TERM);
    assert_eq!(logged(&mut gateway, "info"), "draining");
    assert_eq!(logged(&mut gateway, "info"), "drained");
    assert_eq!(gateway.finish().1, "");
}

#[test]
fn the_level_changes_at_run_time() {
    let mut gateway = start("", &[]);
    assert_eq!(level(&gateway), "{\"level\":\"warn\"}\n");
    gateway.reload();
    assert_eq!(body(&post(&gateway, "/log_level?level=info", "")), "{\"level\":\"info\"}\n");
    gateway.reload();
    let said = logged(&mut gateway, "info");
    assert!(said.starts_with("reloaded ") && said.ends_with("gateway.yaml, version 3"), "{said}");
    assert_eq!(level(&gateway), "{\"level\":\"info\"}\n", "a reload without a changed level keeps it");
    let wrong = post(&gateway, "/log_level?level=loud", "");
    let remedy = "\r\n\r\ninvalid query; use /log_level?level=LEVEL, with one of the levels error, warn, info, debug\n";
    assert!(wrong.starts_with("HTTP/1.1 400 ") && wrong.ends_with(remedy), "{wrong}");
    let of_a_page = post(&gateway, "/log_level?level=debug", "Origin: https://evil.example\r\n");
    assert!(of_a_page.starts_with("HTTP/1.1 403 "), "{of_a_page}");
    post(&gateway, "/log_level?level=error", "");
    gateway.reload();
    assert_eq!(gateway.stop(), "");
}

#[test]
fn the_configuration_sets_level_and_format() {
    let mut gateway = start("log: { level: info, format: json }\n", &[]);
    let line: Value = serde_json::from_str(&gateway.message()).expect("JSON");
    assert_eq!(
        (&line["level"], &line["process"]),
        (&"info".into(), &gateway.process.as_raw_nonzero().get().into())
    );
    assert_eq!(line["message"], format!("listening on {}", gateway.address));
    for _ in ["admin on", "ready"] {
        gateway.message();
    }
    gateway.configure(&(config(origin().0) + "log: { level: error }\n"));
    gateway.reload();
    assert!(gateway.message().contains(",\"message\":\"reloaded "), "with the previous settings");
    gateway.wait_for("the level", |g| level(g) == "{\"level\":\"error\"}\n");
    gateway.configure("nonsense");
    gateway.signal(Signal::HUP);
    let mut said = Vec::new();
    while said.last().is_none_or(|last| last != "the previous configuration stays active") {
        said.push(logged(&mut gateway, "error"));
    }
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(gateway.stop(), "");
}

#[test]
fn a_problem_and_its_remedy_are_logged_on_one_line() {
    let mut gateway = start("", &[]);
    gateway.configure(&config(origin().0).replace("backend: api ", "backend: apy "));
    gateway.signal(Signal::HUP);
    let said = logged(&mut gateway, "error");
    let expected = "gateway.yaml:3:30: routes[0].backend: unknown backend `apy`; help: did you mean `api`?";
    assert!(said.ends_with(expected), "{said}");
    assert_eq!(logged(&mut gateway, "error"), "the previous configuration stays active");
}

#[test]
fn the_command_line_overrides_the_configuration() {
    let mut gateway = start("log: { level: debug }\n", &["--log-level", "error"]);
    assert_eq!(level(&gateway), "{\"level\":\"error\"}\n");
    gateway.configure(&(config(origin().0) + "log: { level: info }\n"));
    gateway.reload();
    gateway.reload();
    assert_eq!(level(&gateway), "{\"level\":\"error\"}\n");
    assert_eq!(gateway.stop(), "");
    let (code, messages) = run(&config(origin().0), &["--log-level", "loud"]);
    assert_eq!(code, Some(2));
    assert!(messages.contains("unknown level `loud`; write error, warn, info or debug"), "{messages}");
}

#[test]
fn unhealthy_endpoints_are_logged() {
    let dead = SocketAddr::from(([127, 0, 0, 1], 1));
    let text = config(dead).replace("] } }", "], health: { interval: 10ms, unhealthy: 2 } } }");
    let mut gateway = Gateway::start(&text);
    let expected = format!(
        "backend `api`: endpoint {dead} is unhealthy; health checks failed in a row: 2; last failure: Connection refused"
    );
    assert_eq!(logged(&mut gateway, "warn"), format!("{expected} (os error 111)"));
}

#[test]
fn requests_are_logged_only_at_debug() {
    let mut gateway = start("", &[]);
    for level in ["info", "debug"] {
        post(&gateway, &format!("/log_level?level={level}"), "");
        ask_nonsense(gateway.address);
    }
    let said = logged(&mut gateway, "debug");
    let expected = ": malformed_request: malformed HTTP/1.1 request";
    assert!(
        said.starts_with(&format!("{}: 127.0.0.1:", gateway.address)) && said.ends_with(expected),
        "{said}"
    );
}

#[test]
fn failed_connections_are_logged_only_at_debug() {
    let plain = "listeners: [{ address: 127.0.0.1:0";
    let wants_header = config(origin().0).replace(plain, &format!("{plain}, proxy_protocol: true"));
    let sealed = "[{ hosts: [a.test], backend: api }]";
    let passes_on = config(origin().0).replace(plain, &format!("{plain}, passthrough: {sealed}"));
    for (text, cause) in [(wants_header, "proxy_header"), (passes_on, "handshake_failed")] {
        let mut gateway = Gateway::start(&text);
        for level in ["info", "debug"] {
            post(&gateway, &format!("/log_level?level={level}"), "");
            let mut client = connect(gateway.address);
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is read");
            assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "it is closed");
        }
        let said = logged(&mut gateway, "debug");
        assert!(said.starts_with(&format!("{}: 127.0.0.1:", gateway.address)), "{said}");
        assert!(said.contains(&format!(": {cause}: ")), "{said}");
        assert_eq!(gateway.stat(cause), 2);
    }
}

/// Logs more lines than a pipe holds.
#[test]
fn a_log_that_nobody_reads_blocks_nothing() {
    let gateway = start("", &["--log-level", "debug"]);
    for _ in 0..1100 {
        ask_nonsense(gateway.address);
    }
    assert!(ask(&mut connect(gateway.address)).is_some());
    assert_eq!(gateway.stat("malformed_request"), 1100);
}
