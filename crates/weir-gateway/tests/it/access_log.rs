//! The access log of a running gateway: files, standard output, rotation, shutdown.

use std::io::Write as _;

use rustix::process::Signal;

use crate::process::{Gateway, config, connect, origin, response, run};

fn ask(gateway: &Gateway, path: &str) {
    let mut client = connect(gateway.address);
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("it reads");
    assert!(response(&mut client).expect("an answer").starts_with("HTTP/1.1 200 "));
}

fn with_log(log: &str) -> String {
    format!("{}access_log: {{ {log} }}\n", config(origin().0))
}

#[test]
fn a_signal_reopens_the_file() {
    let mut gateway = Gateway::start_with(&with_log("file: access.log, format: $request_uri"), &[]);
    let [file, renamed] = ["access.log", "access.log.1"].map(|name| gateway.dir.path().join(name));
    ask(&gateway, "/1");
    gateway.wait_for("the first line", |g| g.stat("lines") == 1);
    std::fs::rename(&file, &renamed).expect("a file beside the configuration");
    ask(&gateway, "/2");
    gateway.wait_for("the second line", |g| g.stat("lines") == 2);
    gateway.signal(Signal::USR1);
    gateway.line("access log reopened");
    ask(&gateway, "/3");
    gateway.wait_for("the third line", |g| g.stat("lines") == 3);
    let read = |path| std::fs::read_to_string(path).expect("a log");
    assert_eq!((read(&renamed).as_str(), read(&file).as_str()), ("/1\n/2\n", "/3\n"));
}

#[test]
fn a_file_that_cannot_be_reopened_keeps_the_previous_one() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(dir.path().join("logs")).expect("a folder");
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    let log = with_log("file: logs/access.log, format: $request_uri");
    let gateway = Gateway::spawn_in(dir, &log, command);
    let [logs, renamed] = ["logs", "renamed"].map(|name| gateway.dir.path().join(name));
    std::fs::rename(&logs, &renamed).expect("a folder");
    gateway.signal(Signal::USR1);
    ask(&gateway, "/1");
    gateway.wait_for("the line", |g| g.stat("lines") == 1);
    let text = std::fs::read_to_string(renamed.join("access.log")).expect("a log");
    assert_eq!(text, "/1\n");
    let messages = gateway.stop();
    assert!(messages.ends_with("still writing to the previous file\n"), "{messages}");
}

#[test]
fn an_output_that_cannot_be_reopened_is_reported() {
    let of_output = "cannot reopen the access log: it goes to standard output\n";
    let of_none = "cannot reopen the access log: none is configured (`access_log`)\n";
    for (text, expected) in [(with_log(""), of_output), (config(origin().0), of_none)] {
        let mut gateway = Gateway::start(&text);
        gateway.signal(Signal::USR1);
        let message = gateway.message();
        assert!(message.contains(" warn ") && message.ends_with(expected), "{message}");
        assert_eq!(gateway.stop(), "");
    }
}

#[test]
fn lines_go_to_standard_output() {
    let mut gateway = Gateway::start_with(&with_log(""), &[]);
    ask(&gateway, "/a");
    let line = gateway.line("{\"time\":\"");
    assert!(line.contains("\"target\":\"/a\"") && line.contains("\"status\":200"), "{line}");
    assert_eq!(gateway.stop(), "");
}

#[test]
fn a_stop_writes_queued_lines() {
    let gateway = Gateway::start_with(&with_log("file: access.log, format: $request_uri"), &[]);
    let file = gateway.dir.path().join("access.log");
    for number in 0..20 {
        ask(&gateway, &format!("/{number}"));
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let linked = dir.path().join("access.log");
    std::fs::hard_link(&file, &linked).expect("a link beside its folder");
    assert_eq!(gateway.stop(), "");
    let text = std::fs::read_to_string(&linked).expect("a log");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.trim_start_matches('/').parse::<u32>().ok());
    assert_eq!(lines, (0..20).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

#[test]
fn a_log_that_cannot_be_written_is_reported() {
    let (code, messages) = run(&with_log("file: nowhere/access.log"), &[]);
    assert_eq!(code, Some(3));
    assert!(
        messages.contains("cannot write the access log to ") && messages.contains("nowhere"),
        "{messages}"
    );
    let text = with_log("format: $statuss");
    let (code, messages) = run(&text, &[]);
    let line = text.lines().count();
    let expected = format!(
        "gateway.yaml:{line}:23: access_log.format: unknown variable `$statuss`\n  help: did you mean `$status`?\n"
    );
    assert_eq!((code, messages), (Some(2), expected));
}

#[test]
fn a_reload_to_a_log_that_cannot_be_written_changes_nothing() {
    let good = with_log("file: access.log, format: $request_uri");
    let gateway = Gateway::start_with(&good, &[]);
    let file = gateway.dir.path().join("access.log");
    gateway.configure(&good.replace("file: access.log", "file: nowhere/access.log"));
    gateway.signal(Signal::HUP);
    gateway.wait_for("the refusal", |g| g.stat("refused") == 1);
    ask(&gateway, "/1");
    gateway.wait_for("the line", |g| g.stat("lines") == 1);
    assert_eq!(std::fs::read_to_string(file).expect("a log"), "/1\n");
    let messages = gateway.stop();
    assert!(messages.contains("cannot write the access log to "), "{messages}");
    assert!(messages.ends_with("the previous configuration stays active\n"), "{messages}");
}
