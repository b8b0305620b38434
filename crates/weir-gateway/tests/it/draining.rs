//! A draining gateway still handles signals, and loses no log line of an answered request.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::{Signal, kill_process};

use crate::operations::program;
use crate::process::{GET, Gateway, ask, config, connect, origin};

/// A gateway that logs to a file. One exchange is in flight until the origin is dropped.
fn busy(drain: &str, runtime_dir: Option<&tempfile::TempDir>) -> (Gateway, TcpStream, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gateway = start(silent.local_addr().expect("its address"), drain, runtime_dir);
    let mut client = connect(gateway.address);
    client.write_all(GET.as_bytes()).expect("the gateway reads");
    gateway.wait_for("the exchange", |g| g.stat("connects") == 1);
    (gateway, client, silent)
}

fn start(origin: SocketAddr, drain: &str, runtime_dir: Option<&tempfile::TempDir>) -> Gateway {
    let mut command = program();
    if let Some(folder) = runtime_dir {
        command.arg("--runtime-dir").arg(folder.path());
    }
    let text = config(origin).replace("delay: 0s", drain)
        + "access_log: { file: access.log, format: $request_uri }\n";
    Gateway::spawn(&text, command)
}

/// Sends SIGUSR1 and SIGHUP, and checks that the gateway handles them.
fn check_signals(gateway: &mut Gateway, process: rustix::process::Pid) {
    let file = gateway.dir.path().join("access.log");
    std::fs::rename(&file, gateway.dir.path().join("access.log.1")).expect("a log");
    kill_process(process, Signal::USR1).expect("it runs");
    gateway.line("access log reopened");
    assert!(file.exists());
    kill_process(process, Signal::HUP).expect("it runs");
    let message = gateway.message();
    let expected = format!(
        " error weir-gateway[{}]: cannot reload: the gateway is shutting down\n",
        process.as_raw_nonzero()
    );
    assert!(message.ends_with(&expected), "{message}");
}

#[test]
fn signals_are_handled_while_the_gateway_drains() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut gateway, _client, _silent) = busy("delay: 0s, timeout: 1h", Some(&folder));
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    let process = gateway.process;
    check_signals(&mut gateway, process);
    assert_eq!(gateway.stat("refused"), 1);
    gateway.signal(Signal::USR2);
    assert!(gateway.message().ends_with("]: cannot upgrade: this process is shutting down\n"));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().0.code(), Some(1));
}

#[test]
fn signals_are_handled_while_an_old_process_drains() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut gateway, client, silent) = busy("delay: 0s, timeout: 1h", Some(&folder));
    let former = gateway.process;
    gateway.upgrade();
    assert_ne!(gateway.process, former);
    check_signals(&mut gateway, former);
    // The signals to the old process did not affect the new one, which keeps serving.
    gateway.signal(Signal::HUP);
    gateway.line("reloaded ");
    // Dropping the origin ends the exchange, so the old process exits.
    drop(silent);
    gateway.signal(Signal::TERM);
    let (status, messages) = gateway.finish();
    assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
    drop(client);
}

#[test]
fn a_second_stop_loses_no_line_of_answered_requests() {
    let (origin, _) = origin();
    let gateway = start(origin, "delay: 50m, timeout: 1h", None);
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let linked = dir.path().join("access.log");
    std::fs::hard_link(gateway.dir.path().join("access.log"), &linked).expect("a link beside its folder");
    for _ in 0..20 {
        assert!(ask(&mut connect(gateway.address)).is_some());
    }
    gateway.signal(Signal::TERM);
    let (status, messages) = gateway.finish();
    assert_eq!(status.code(), Some(1));
    assert!(messages.contains("second stop signal (SIGTERM): stopping at once"), "{messages}");
    assert_eq!(std::fs::read_to_string(&linked).expect("a log"), "/\n".repeat(20));
}
