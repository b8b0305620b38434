//! A gateway under a service manager: watched files, passed sockets, readiness, exhausted descriptors.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::admin::endpoints;
use crate::process::{GET, Gateway, ask, config, connect, origin, response};

pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir-gateway"))
}

/// A configuration that responds without a backend.
fn answering(more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, respond: {{ body: ok }} }}]\n\
         drain: {{ delay: 0s }}\n{more}"
    )
}

#[test]
fn a_changed_file_takes_effect_with_watch() {
    let (first, second) = (origin(), origin());
    let mut command = program();
    command.arg("--watch");
    let mut gateway = Gateway::spawn(&config(first.0), command);
    let replace = |gateway: &Gateway, text: &str| {
        gateway.write("next.yaml", text);
        let at = |name: &str| gateway.dir.path().join(name);
        std::fs::rename(at("next.yaml"), at("gateway.yaml")).expect("it is replaced");
    };
    replace(&gateway, &config(second.0));
    gateway.line("reloaded ");
    assert!(ask(&mut connect(gateway.address)).is_some());
    assert_eq!(second.1.load(std::sync::atomic::Ordering::SeqCst), 1);
    replace(&gateway, "nonsense");
    gateway.wait_for("the refusal", |g| g.stat("refused") == 1);
    assert!(ask(&mut connect(gateway.address)).is_some(), "the previous configuration stays active");
    replace(&gateway, &config(first.0));
    gateway.line("reloaded ");
    assert_eq!((gateway.stat("applied"), gateway.stat("refused")), (2, 1), "each was read once");
    let messages = gateway.stop();
    assert_eq!(messages.matches("the previous configuration stays active").count(), 1, "{messages}");
}

#[test]
fn without_watch_a_changed_file_takes_no_effect() {
    let gateway = Gateway::start(&config(origin().0));
    gateway.configure("nonsense");
    // With `--watch`, the gateway would react within 100 ms.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(gateway.stat("refused"), 0);
}

/// Sends a request on a new connection, and reads until the gateway closes the connection. `None` if the connection is
/// refused.
fn exchange(gateway: &Gateway) -> Option<String> {
    let mut stream = TcpStream::connect(gateway.address).ok()?;
    stream.write_all(GET.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response and a close, no reset");
    Some(answer)
}

#[test]
fn clients_are_accepted_during_the_delay() {
    let gateway = Gateway::start(&answering("").replace("delay: 0s", "delay: 1h, timeout: 2h"));
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    for _ in 0..10 {
        let answer = exchange(&gateway).expect("it is accepted");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("Connection: close"), "{answer:?}");
    }
    assert_eq!(gateway.stat("2xx"), 10);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().0.code(), Some(1));
}

#[test]
fn clients_after_a_drain_are_refused_and_never_reset() {
    let gateway = Gateway::start(&answering("").replace("delay: 0s", "delay: 300ms"));
    gateway.signal(Signal::TERM);
    while let Some(answer) = exchange(&gateway) {
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    }
    let (status, messages) = gateway.finish();
    assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
}

/// Passes a socket as systemd does, as descriptor 3. The shell moves it there from standard input.
fn with_passed_socket(socket: &TcpListener) -> Command {
    let mut command = Command::new("sh");
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_weir-gateway")]);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().expect("a copy"))));
    command
}

#[test]
fn a_socket_of_the_service_manager_is_served_and_stays_open() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("its address");
    let early = connect(address);
    let text = answering("").replace("127.0.0.1:0", &address.to_string()).replace("workers: 1", "workers: 3");
    let gateway = Gateway::spawn(&text, with_passed_socket(&socket));
    assert_eq!(gateway.address, address);
    let mut early = early;
    assert!(ask(&mut early).is_some(), "a client that connected before the start is served");
    drop(early);
    for _ in 0..20 {
        assert!(ask(&mut connect(address)).is_some());
    }
    assert_eq!((gateway.stat("accepted"), gateway.stat("requests")), (21, 21));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().1, "");
    let late = connect(address);
    let (_, from) = socket.accept().expect("the socket still listens");
    assert_eq!(from, late.local_addr().expect("an address"));
}

#[test]
fn a_socket_without_a_listener_is_reported() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gateway = Gateway::spawn(&answering(""), with_passed_socket(&socket));
    let messages = gateway.stop();
    let address = socket.local_addr().expect("its address");
    assert!(
        messages.contains(&format!("LISTEN_FDS has a socket for `{address}`, but no listener")),
        "{messages}"
    );
}

#[test]
fn the_service_manager_is_notified() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let next = || {
        let mut bytes = [0; 512];
        let length = manager.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = program();
    command.env("NOTIFY_SOCKET", dir.path().join("notify")).arg("--runtime-dir").arg(dir.path());
    let mut gateway = Gateway::spawn(&answering(""), command);
    assert!(next().starts_with("READY=1\n"));
    gateway.reload();
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading:?}");
    assert!(next().starts_with("READY=1\n"));
    gateway.configure("nonsense");
    gateway.signal(Signal::HUP);
    assert!(next().starts_with("RELOADING=1\n"));
    assert!(next().starts_with("READY=1\n"), "it keeps serving");
    gateway.configure(&answering(""));
    gateway.upgrade();
    let handed_over = next();
    assert!(handed_over.starts_with("MAINPID=") && handed_over.contains("\nREADY=1\n"), "{handed_over:?}");
    assert!(next().starts_with("READY=1\n"), "the new process reports it too");
    gateway.signal(Signal::TERM);
    assert!(next().starts_with("STOPPING=1\n"));
    assert!(gateway.finish().0.success());
}

/// Fewer descriptors than clients: accepted clients are served, waiting clients get 503 now and then, and the admin
/// server stays available.
#[test]
fn without_descriptors_clients_get_503_and_no_worker_spins() {
    const CLIENTS: usize = 80;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir-gateway")]);
    let began = Instant::now();
    let gateway = Gateway::spawn(&answering(""), command);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(gateway.address)).collect();
    for client in &mut clients {
        client.write_all(GET.as_bytes()).expect("it is queued");
    }
    // Only one client at a time gets a 503. So when a second client gets one, the first has its complete response.
    gateway.wait_for("rejected clients", |g| g.stat("out_of_sockets") > 1);
    let pauses = gateway.stat("accept_pauses");
    let most = began.elapsed().as_millis() / 100 + 1;
    assert!(pauses > 0 && u128::from(pauses) <= most, "{pauses} pauses of 100 ms, {most} at most");
    let served = gateway.stat("2xx");
    let rejected = clients.iter().filter(|client| {
        client.set_nonblocking(true).expect("it does not wait");
        let mut bytes = [0; 512];
        let mut client: &TcpStream = client;
        let length = client.read(&mut bytes).unwrap_or_default();
        bytes[..length].starts_with(b"HTTP/1.1 503 ")
            && String::from_utf8_lossy(&bytes).contains("out_of_sockets")
    });
    assert!(rejected.count() > 0 && served > 0 && (served as usize) < CLIENTS);
    drop(clients);
    gateway.wait_for("the clients' close", |g| g.stat("open") == 0);
    assert!(ask(&mut connect(gateway.address)).is_some(), "it serves as before");
}

#[test]
fn an_idle_upstream_connection_is_closed_for_a_new_one() {
    let (first, second) = (origin(), origin());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir-gateway")]);
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\ndrain: {{ delay: 0s }}\n\
         routes: [{{ path: /, backend: a }}, {{ path: /second, backend: b }}]\n\
         backends: {{ a: {{ endpoints: ['{}'] }}, b: {{ endpoints: ['{}'] }} }}\n",
        first.0, second.0
    );
    let gateway = Gateway::spawn(&text, command);
    let mut client = connect(gateway.address);
    assert!(ask(&mut client).is_some());
    let others: Vec<TcpStream> = (0..80).map(|_| connect(gateway.address)).collect();
    gateway.wait_for("no descriptor is left", |g| g.stat("accept_pauses") > 1);
    client.write_all(GET.replace("/ ", "/second ").as_bytes()).expect("it reads");
    let answer = response(&mut client).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(gateway.stat("connect_failures"), 0, "no connection attempt failed");
    drop(others);
}

/// If the gateway cannot run a health check, it must not mark the endpoint as unhealthy.
#[test]
fn a_check_without_a_descriptor_makes_no_endpoint_unhealthy() {
    let origin = origin().0;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir-gateway")]);
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\ndrain: {{ delay: 0s }}\n\
         routes: [{{ path: /, backend: api }}]\n\
         backends: {{ api: {{ endpoints: ['{origin}'], health: {{ path: /, interval: 10ms, unhealthy: 1 }} }} }}\n"
    );
    let mut gateway = Gateway::spawn(&text, command);
    let fields = ["state", "checks_failed"];
    let passed = |gateway: &Gateway| endpoints(gateway, &["checks_passed"])[0][0].as_u64();
    gateway.wait_for("a good check", |g| passed(g) > Some(0));
    let clients: Vec<TcpStream> = (0..80).map(|_| connect(gateway.address)).collect();
    let is_logged = |line: String| line.contains("health checks paused: no file descriptors");
    // The log has other lines in between, such as those about pauses in accepting clients.
    assert!((0..20).any(|_| is_logged(gateway.message())));
    assert_eq!(endpoints(&gateway, &fields), json!([["in", 0]]));
    let before = passed(&gateway);
    drop(clients);
    gateway.wait_for("another good check", |g| passed(g) > before);
    assert_eq!(endpoints(&gateway, &fields), json!([["in", 0]]));
}

#[test]
fn readyz_reports_an_overload() {
    let mut gateway = Gateway::start(&answering("overload: { memory: 1MiB }\n"));
    gateway.wait_for("the overload", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(gateway.admin("/readyz").ends_with("\r\n\r\noverloaded: memory\n"));
    assert!(gateway.admin("/healthz").starts_with("HTTP/1.1 200 "), "a restart would not help");
    let message = gateway.message();
    let (start, end) =
        ("]: overloaded: memory use is ", "`overload.memory` allows 1048576; new requests get 503\n");
    assert!(
        message.contains(" warn weir-gateway[") && message.contains(start) && message.ends_with(end),
        "{message}"
    );
    gateway.configure(&answering(""));
    gateway.reload();
    gateway.wait_for("the end of the overload", |g| g.admin("/readyz").ends_with("\r\n\r\nready\n"));
}
