//! The access log: the content of its lines. Each request is logged, or counted as dropped.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::Value;

use crate::setup::{Client, Origin, Proxy, recompile_with};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A gateway that logs into a file, with the directory of the file.
struct Logged {
    proxy: Proxy,
    dir: tempfile::TempDir,
}

impl Logged {
    fn to(origin: &Origin, settings: &str, more: &str) -> Logged {
        let dir = tempfile::tempdir().unwrap();
        let text = configuration(origin, &dir.path().join("access.log"), settings, more);
        Logged { proxy: Proxy::with(&text), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("access.log")
    }

    /// The lines of the log; waits until there are `count` of them.
    fn lines(&self, count: u64) -> Vec<String> {
        self.proxy.wait_for("the lines", |stats| stats.access_log.lines == count);
        lines(&self.path())
    }

    fn json(&self, count: u64) -> Vec<Value> {
        self.lines(count).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn configuration(origin: &Origin, file: &Path, settings: &str, more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 1\n\
         routes:\n- {{ path: /, backend: b }}\n- {{ path: /moved, redirect: {{ path: / }} }}\n{more}\
         backends: {{ b: {{ endpoints: ['{}'] }}, dead: {{ endpoints: [] }} }}\n\
         access_log: {{ file: '{}'{settings} }}\n",
        origin.address,
        file.display()
    )
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "lines must be complete: {text:?}");
    text.lines().map(str::to_owned).collect()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}

#[test]
fn logs_request_and_response() {
    let origin = Origin::answering(OK);
    let logged = Logged::to(&origin, "", "");
    let mut client = logged.proxy.connect();
    let request = "GET /a?b=c HTTP/1.1\r\nHost: Example.org\r\nUser-Agent: one \"two\"\r\n\r\n";
    let answer = client.ask(request);
    let head_bytes = answer.head.len();
    client.ask("GET /moved HTTP/1.1\r\nHost: h\r\n\r\n");
    let (lines, upstream) = (logged.json(2), origin.address.to_string());
    let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
    for (field, expected) in [
        ("listener", "main"),
        ("client", "127.0.0.1"),
        ("scheme", "http"),
        ("method", "GET"),
        ("host", "Example.org"),
        ("target", "/a?b=c"),
        ("protocol", "HTTP/1.1"),
        ("route", "routes[0]"),
        ("group", "b"),
        ("backend", "b"),
        ("upstream", upstream.as_str()),
        ("user_agent", "one \"two\""),
    ] {
        assert_eq!(first[field], *expected, "{field}");
    }
    assert_eq!(first["status"], 200);
    assert_eq!(first["bytes_sent"], head_bytes + 2);
    assert_eq!((&first["upstream_status"], &first["upstream_tries"]), (&200.into(), &1.into()));
    assert_eq!(first["bytes_received"], request.len());
    assert!(first["cause"].is_null());
    let [whole, upstream] = ["seconds", "upstream_seconds"].map(|field| first[field].as_f64().unwrap());
    assert!(0.0 < upstream && upstream <= whole, "{first}");
    let time = first["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    assert_eq!((&second["status"], &second["route"]), (&302.into(), &"routes[1]".into()));
    for absent in ["backend", "group", "upstream", "upstream_seconds", "cause", "user_agent", "tls"] {
        assert!(second[absent].is_null(), "{absent}: {second}");
    }
}

#[test]
fn logs_attempts_and_received_bytes() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.starts_with("POST") {
                served.read_until("0\r\n\r\n");
            }
            let is_first = served.number == 0 && request.starts_with("GET /busy ");
            served.number += 1;
            served.send(if is_first { BUSY } else { OK });
        }
    });
    let format =
        ", format: '$request_uri $upstream_tries $upstream_status $status $request_length $ssl_protocol $$'";
    let more = "- { path: /busy, backend: b, retries: { attempts: 2, on: [503] } }\n- { path: /dead, backend: dead }\n";
    let logged = Logged::to(&origin, format, more);
    let mut client = logged.proxy.connect();
    let [busy, moved, dead] =
        ["/busy", "/moved", "/dead"].map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    for request in [&busy, &moved, &dead] {
        client.ask(request);
    }
    let head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(&format!("{head}2\r\nhi\r\n"));
    assert_eq!(client.ask("1\r\n!\r\n0\r\n\r\n").body, "ok");
    let expected = [
        format!("/busy 2 200 200 {} - $", busy.len()),
        format!("/moved - - 302 {} - $", moved.len()),
        format!("/dead 1 - 503 {} - $", dead.len()),
        format!("/a 1 200 200 {} - $", head.len() + 7 + 11),
    ];
    assert_eq!(logged.lines(4), expected);
}

/// Every error response of the gateway names its cause, and the log line names the same cause.
#[test]
fn logs_every_rejected_request() {
    let origin = Origin::start(|served| {
        served.request();
    });
    let more = "- { path: /dead, backend: dead }\n- { path: /token, backend: b, tokens: t }\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let text = configuration(&origin, &file, "", more).replace("- { path: /,", "- { path: /up,")
        + "timeouts: { head: 100ms }\nlimits: { body: 10B }\n";
    let proxy = Proxy::with_files(&text, &[("t", "abc\n")]);
    let requests = [
        get("/up"),
        get("/none"),
        get("/dead"),
        get("/token"),
        "nonsense\r\n\r\n".to_owned(),
        "GET /up HTTP/1.1\r\nHost:".to_owned(),
        "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
        "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n".to_owned(),
        "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n".to_owned(),
    ];
    let answers: Vec<(u16, String)> = requests
        .iter()
        .map(|request| {
            let answer = proxy.ask(request);
            let (status, cause) = answer.error();
            assert_ne!(cause, "none", "{}", answer.head);
            (status, cause.to_owned())
        })
        .collect();
    proxy.wait_for("the lines", |stats| stats.access_log.lines == requests.len() as u64);
    let reported: Vec<(u16, String)> = lines(&file)
        .iter()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["status"].as_u64().unwrap() as u16, line["cause"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(reported, answers);
}

/// The log line of a malformed request contains its parsed part, escaped: no byte of the request can end the line.
#[test]
fn logs_client_and_request_line_of_malformed_requests() {
    let origin = Origin::answering(OK);
    let format = ", format: '$remote_addr $remote_addr_source \"$request\" $request_uri $host $status'";
    let more = "- { path: /none, backend: dead }\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let text = configuration(&origin, &file, format, more)
        + "forwarding: { trusted_hops: 1 }\ntimeouts: { head: 100ms }\nlimits: { head: 4KiB }\n";
    let proxy = Proxy::with(&text);
    const FOR: &str = "X-Forwarded-For: 6.6.6.6, 192.0.2.7\r\n";
    let long = "x".repeat(3000);
    let cases = [
        // The headers are complete and well-formed.
        (
            format!("GET /a HTTP/1.1\r\nHost: h\r\n{FOR}\r\n"),
            "192.0.2.7 forwarded \"GET /a HTTP/1.1\" /a h 200",
        ),
        (
            format!("GET /a HTTP/1.1\r\nHost: a..\r\n{FOR}\r\n"),
            "192.0.2.7 forwarded \"GET /a HTTP/1.1\" /a a.. 400",
        ),
        (format!("GET /a HTTP/1.1\r\n{FOR}\r\n"), "192.0.2.7 forwarded \"GET /a HTTP/1.1\" /a - 400"),
        (
            format!("GET /a HTTP/1.1\r\nHost: h\r\nExpect: x\r\n{FOR}\r\n"),
            "192.0.2.7 forwarded \"GET /a HTTP/1.1\" /a h 417",
        ),
        (
            format!("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n{FOR}\r\n"),
            "192.0.2.7 forwarded \"POST /a HTTP/1.1\" /a h 501",
        ),
        // The headers are incomplete or malformed, so the trusted proxy's header may be missing. The line has the
        // peer's address.
        (
            format!("GET /a HTTP/1.1\r\nHost: h\r\n{FOR}X Y: 1\r\n\r\n"),
            "127.0.0.1 peer \"GET /a HTTP/1.1\" /a - 400",
        ),
        (
            format!("GET /a HTTP/1.1\r\nHost: h\r\n{FOR}X: {long}\r\nX: {long}\r\n\r\n"),
            "127.0.0.1 peer \"GET /a HTTP/1.1\" /a - 431",
        ),
        (format!("GET /a HTTP/1.1\r\nHost: h\r\n{FOR}"), "127.0.0.1 peer \"GET /a HTTP/1.1\" /a - 408"),
        (
            "GET /\x1b[31m\"\\ HTTP/1.1\r\n\r\n".to_owned(),
            "127.0.0.1 peer \"GET /\\x1B[31m\\x22\\x5C HTTP/1.1\" /\\x1B[31m\\x22\\x5C - 400",
        ),
        ("GET /a HTTP/2.0\r\n\r\n".to_owned(), "127.0.0.1 peer \"GET /a HTTP/2.0\" /a - 505"),
        ("GET /a".to_owned(), "127.0.0.1 peer \"GET\" - - 408"),
        ("\x16\x03\x01\r\n\r\n".to_owned(), "127.0.0.1 peer \"-\" - - 400"),
    ];
    for (request, _) in &cases {
        proxy.connect().ask(request);
    }
    proxy.wait_for("the lines", |stats| stats.access_log.lines == cases.len() as u64);
    let expected: Vec<&str> = cases.iter().map(|(_, line)| *line).collect();
    assert_eq!(lines(&file), expected);
}

#[test]
fn logs_joined_field_lines_but_no_dropped_fields() {
    let origin = Origin::answering(OK);
    let logged = Logged::to(&origin, ", format: '[$http_x_a] [$http_proxy] [$http_cookie]'", "");
    let fields = "X-A: 1\r\nX_A: 2\r\nCookie: a=1\r\nx-a: 3\r\nProxy: evil\r\nCookie: b=2\r\n";
    logged.proxy.connect().ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    assert_eq!(logged.lines(1), ["[1, 3] [-] [a=1; b=2]"]);
}

#[test]
fn logs_truncated_responses() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    });
    let logged = Logged::to(&origin, ", sample: 0%", "");
    assert!(!logged.proxy.ask(&get("/")).whole);
    let line = &logged.json(1)[0];
    assert_eq!((&line["status"], &line["cause"]), (&200.into(), &"upstream_truncated".into()));
}

#[test]
fn logs_client_disconnects() {
    let origin = Origin::start(|served| {
        served.request();
        served.stall();
    });
    let logged = Logged::to(&origin, "", "");
    for (count, by_reset) in [(1, false), (2, true)] {
        let mut client = logged.proxy.connect();
        client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        logged.proxy.wait_for("the request", |_| origin.requests().len() == count as usize);
        client.leave(by_reset);
        let line = &logged.json(count)[count as usize - 1];
        assert_eq!((&line["target"], &line["cause"]), (&"/slow".into(), &"client_closed".into()));
        assert_eq!((&line["upstream"], &line["bytes_sent"]), (&origin.address.to_string().into(), &0.into()));
        assert!(line["status"].is_null() && line["upstream_seconds"].is_null(), "{line}");
    }
    let stats = logged.proxy.gateway.stats();
    assert_eq!((stats.requests, stats.responses, stats.errors["client_closed"]), (2, 0, 2));
}

#[test]
fn logs_clients_above_the_connection_limit() {
    let origin = Origin::answering(OK);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let text = configuration(&origin, &file, "", "") + "limits: { connections: 1 }\n";
    let proxy = Proxy::with(&text);
    let held = proxy.connect();
    proxy.wait_for("the first client", |stats| stats.connections.open == 1);
    assert_eq!(proxy.ask("").error(), (503, "connection_limit"));
    proxy.wait_for("the line", |stats| stats.access_log.lines == 1);
    let line: Value = serde_json::from_str(&lines(&file)[0]).unwrap();
    assert_eq!((&line["cause"], &line["client"]), (&"connection_limit".into(), &"127.0.0.1".into()));
    assert!(line["method"].is_null());
    drop(held);
}

#[test]
fn format_escapes_client_values() {
    let origin = Origin::answering(OK);
    let format = "'$remote_addr \"$request\" $status [$http_x_a] $cause ${http_x_b}s'";
    let logged = Logged::to(&origin, &format!(", format: {format}"), "");
    let mut client = logged.proxy.connect();
    client.ask("GET /a\"b HTTP/1.1\r\nHost: h\r\nX-A: \\ \"\tz\r\n\r\n");
    client.ask("GET /b HTTP/1.1\r\nHost: h\r\nX-B: 1\r\n\r\n");
    assert_eq!(
        logged.lines(2),
        [
            "127.0.0.1 \"GET /a\\x22b HTTP/1.1\" 200 [\\x5C \\x22\\x09z] - -s",
            "127.0.0.1 \"GET /b HTTP/1.1\" 200 [-] - 1s",
        ]
    );
}

#[test]
fn logs_a_sample_of_successes_and_all_errors() {
    let origin = Origin::answering(OK);
    let more = "- { path: /dead, backend: dead }\n";
    let logged = Logged::to(&origin, ", sample: 10%, format: $status", more);
    let mut client = logged.proxy.connect();
    for _ in 0..100 {
        client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    for _ in 0..5 {
        assert_eq!(client.ask("GET /dead HTTP/1.1\r\nHost: h\r\n\r\n").status, 503);
    }
    let lines = logged.lines(15);
    let count = |status: &str| lines.iter().filter(|line| *line == status).count();
    assert_eq!((count("200"), count("503")), (10, 5));
}

#[test]
fn logs_to_the_file_of_the_active_configuration() {
    let origin = Origin::answering(OK);
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first.log", "second.log"].map(|name| dir.path().join(name));
    let settings = ", format: $request_uri";
    let mut proxy = Proxy::with(&configuration(&origin, &first, settings, ""));
    proxy.ask(&get("/1"));
    proxy.wait_for("the line", |stats| stats.access_log.lines == 1);
    let table = recompile_with(&mut proxy.state, &configuration(&origin, &second, settings, ""), &[]);
    proxy.gateway.apply(table).unwrap();
    proxy.ask(&get("/2"));
    proxy.wait_for("the line", |stats| stats.access_log.lines == 2);
    let nowhere = configuration(&origin, Path::new("/nowhere/access.log"), settings, "");
    let table = recompile_with(&mut proxy.state, &nowhere, &[]);
    let error = proxy.gateway.apply(table).unwrap_err().to_string();
    assert!(error.starts_with("cannot write the access log to /nowhere/access.log: No such file"), "{error}");
    proxy.ask(&get("/3"));
    proxy.wait_for("the line", |stats| stats.access_log.lines == 3);
    assert_eq!(
        (lines(&first), lines(&second)),
        (vec!["/1".to_owned()], vec!["/2".to_owned(), "/3".to_owned()])
    );
}

#[test]
fn reopens_a_renamed_file() {
    let origin = Origin::answering(OK);
    let logged = Logged::to(&origin, ", format: $request_uri", "");
    let renamed = logged.dir.path().join("access.log.1");
    let mut client = logged.proxy.connect();
    for number in 0..30 {
        client.ask(&format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        if number == 14 {
            std::fs::rename(logged.path(), &renamed).unwrap();
            logged.proxy.gateway.reopen_access_log().unwrap();
        }
    }
    let after = logged.lines(30);
    let all: Vec<String> = lines(&renamed).into_iter().chain(after).collect();
    assert_eq!(all, (0..30).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

/// A reader that stops reading does not delay requests. Lines that do not fit into the buffers are counted as dropped.
#[test]
fn slow_log_reader_drops_lines_but_no_requests() {
    const REQUESTS: u64 = 300;
    let origin = Origin::answering(OK);
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe).unwrap();
    let proxy = Proxy::with(&configuration(&origin, &pipe, ", format: $request_uri", ""));
    let mut client = proxy.connect();
    let path = format!("/{}", "x".repeat(20_000));
    for _ in 0..REQUESTS {
        assert_eq!(client.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).body, "ok");
    }
    proxy.wait_for("dropped lines", |stats| stats.access_log.dropped > 0);
    let mut read = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    let accounted = || {
        let stats = proxy.gateway.stats().access_log;
        stats.lines + stats.dropped
    };
    while accounted() < REQUESTS {
        match reader.read(&mut chunk) {
            Ok(bytes) => read.extend_from_slice(&chunk[..bytes]),
            Err(_) => std::thread::yield_now(),
        }
    }
    while let Ok(bytes @ 1..) = reader.read(&mut chunk) {
        read.extend_from_slice(&chunk[..bytes]);
    }
    let stats = proxy.gateway.stats().access_log;
    assert_eq!((stats.lines + stats.dropped, stats.failed), (REQUESTS, 0));
    let lines: Vec<&str> = std::str::from_utf8(&read).unwrap().lines().collect();
    assert_eq!(lines.len() as u64, stats.lines);
    assert!(lines.iter().all(|line| *line == path), "lines must be complete");
    // The queue holds 1 MiB, the pipe 64 KiB, and the writer one block.
    assert!((40..=60).contains(&lines.len()), "{}", lines.len());
}

#[test]
fn full_disk_fails_lines_but_no_requests() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&configuration(&origin, Path::new("/dev/full"), "", ""));
    for _ in 0..3 {
        assert_eq!(proxy.ask(&get("/")).body, "ok");
    }
    proxy.wait_for("lost lines", |stats| stats.access_log.failed == 3);
    assert_eq!(proxy.gateway.stats().access_log.lines, 0);
}

#[test]
fn loses_no_line_while_files_and_formats_change() {
    const CLIENTS: usize = 4;
    const REQUESTS_EACH: usize = 100;
    let origin = Origin::answering(OK);
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first.log", "second.log"].map(|name| dir.path().join(name));
    let forms = [(&first, "$request_uri one"), (&second, "$request_uri two")].map(|(file, format)| {
        configuration(&origin, file, &format!(", format: '{format}'"), "").replace("workers: 1", "workers: 2")
    });
    let mut proxy = Proxy::with(&forms[0]);
    let address = proxy.gateway.addresses()[0];
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for turn in 0..REQUESTS_EACH {
                    let path = number * REQUESTS_EACH + turn;
                    assert_eq!(client.ask(&format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n")).body, "ok");
                }
            })
        })
        .collect();
    let mut turn = 0;
    while clients.iter().any(|client| !client.is_finished()) {
        turn += 1;
        let table = recompile_with(&mut proxy.state, &forms[turn % 2], &[]);
        proxy.gateway.apply(table).unwrap();
        proxy.gateway.reopen_access_log().unwrap();
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    proxy.gateway.drain();
    assert!(proxy.gateway.join());
    let all = [lines(&first), lines(&second)].concat();
    let mut paths: Vec<usize> = all
        .iter()
        .map(|line| {
            let path = line.strip_suffix(" one").or_else(|| line.strip_suffix(" two")).unwrap();
            path.trim_start_matches('/').parse().unwrap()
        })
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, (0..CLIENTS * REQUESTS_EACH).collect::<Vec<_>>());
}
