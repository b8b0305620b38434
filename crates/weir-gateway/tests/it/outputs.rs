//! Outputs that nobody reads do not block signal handling.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;

use crate::process::{Gateway, config, connect, origin, response};

#[test]
fn a_full_standard_output_blocks_no_signal() {
    // Number of requests, more than enough to block the access log. Standard output is a pipe that this test no longer
    // reads, and four log lines of 20,000 bytes fill it.
    const REQUESTS: u64 = 12;
    let gateway = Gateway::start(&(config(origin().0) + "access_log: {}\n"));
    let mut client = connect(gateway.address);
    let path = "x".repeat(20_000);
    for _ in 0..REQUESTS {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n");
        client.write_all(request.as_bytes()).expect("the gateway reads");
        assert!(response(&mut client).is_some());
    }
    gateway.wait_for("the first lines", |g| g.stat("lines") > 0);
    assert!(gateway.stat("lines") < REQUESTS, "the pipe is full");
    for reload in 1..=3 {
        gateway.signal(Signal::HUP);
        gateway.wait_for("the reload", |g| g.stat("applied") == reload);
    }
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait().0, Some(0));
}

#[test]
fn a_log_without_a_reader_blocks_no_signal() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let open = || OpenOptions::new().read(true).custom_flags(nonblocking).open(&pipe).expect("its reader");
    let reader = open();
    let text = config(origin().0) + "access_log: { file: pipe }\n";
    let mut gateway = Gateway::spawn_in(dir, &text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")));
    drop(reader);
    gateway.signal(Signal::USR1);
    let message = gateway.message();
    let expected = "/pipe: no process reads from this pipe; still writing to the previous file\n";
    assert!(message.contains(" error weir-gateway[") && message.ends_with(expected), "{message}");
    let _reader = open();
    gateway.signal(Signal::USR1);
    gateway.line("access log reopened");
    assert_eq!(gateway.stop(), "");
}
