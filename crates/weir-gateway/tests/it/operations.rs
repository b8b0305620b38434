//! A gateway under a service manager: files watched, sockets passed, readiness told, descriptors that run out.

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

/// Routes that answer by themselves.
fn answering(more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, respond: {{ body: ok }} }}]\n\
         drain: {{ delay: 0s }}\n{more}"
    )
}

#[test]
fn a_watched_file_comes_into_force_by_itself() {
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
fn without_being_asked_it_watches_no_configuration() {
    let gateway = Gateway::start(&config(origin().0));
    gateway.configure("nonsense");
    // The watch settles within a tenth of a second; what nobody waits for never comes.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(gateway.stat("refused"), 0);
}

/// One connection with one exchange, to its end; `None` where it is refused.
fn exchange(gateway: &Gateway) -> Option<String> {
    let mut stream = TcpStream::connect(gateway.address).ok()?;
    stream.write_all(GET.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and the end, no reset");
    Some(answer)
}

#[test]
fn clients_are_let_in_during_the_delay() {
    let gateway = Gateway::start(&answering("").replace("delay: 0s", "delay: 1h, timeout: 2h"));
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    for _ in 0..10 {
        let answer = exchange(&gateway).expect("it is let in");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("Connection: close"), "{answer:?}");
    }
    assert_eq!(gateway.stat("2xx"), 10);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().0.code(), Some(1));
}

#[test]
fn who_is_not_served_at_the_end_is_refused_and_never_reset() {
    let gateway = Gateway::start(&answering("").replace("delay: 0s", "delay: 300ms"));
    gateway.signal(Signal::TERM);
    while let Some(answer) = exchange(&gateway) {
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
    }
    let (status, messages) = gateway.finish();
    assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
}

/// As systemd passes a socket: the third descriptor. The shell takes it from standard input.
fn with_passed_socket(socket: &TcpListener) -> Command {
    let mut command = Command::new("sh");
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_weir-gateway")]);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().expect("a copy"))));
    command
}

#[test]
fn a_socket_of_the_service_manager_is_served_and_left_as_it_was() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("its address");
    let early = connect(address);
    let text = answering("").replace("127.0.0.1:0", &address.to_string()).replace("workers: 1", "workers: 3");
    let gateway = Gateway::spawn(&text, with_passed_socket(&socket));
    assert_eq!(gateway.address, address);
    let mut early = early;
    assert!(ask(&mut early).is_some(), "who came before the gateway is served");
    drop(early);
    for _ in 0..20 {
        assert!(ask(&mut connect(address)).is_some());
    }
    assert_eq!((gateway.stat("accepted"), gateway.stat("requests")), (21, 21));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().1, "");
    let late = connect(address);
    let (_, from) = socket.accept().expect("the socket listens on");
    assert_eq!(from, late.local_addr().expect("an address"));
}

#[test]
fn a_socket_that_no_listener_wants_is_told() {
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
fn the_service_manager_is_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let manager = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let next = || {
        let mut bytes = [0; 512];
        let length = manager.recv(&mut bytes).expect("it is told");
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
    assert!(next().starts_with("READY=1\n"), "it serves on");
    gateway.configure(&answering(""));
    gateway.upgrade();
    let followed = next();
    assert!(followed.starts_with("MAINPID=") && followed.contains("\nREADY=1\n"), "{followed:?}");
    assert!(next().starts_with("READY=1\n"), "the next process says so itself");
    gateway.signal(Signal::TERM);
    assert!(next().starts_with("STOPPING=1\n"));
    assert!(gateway.finish().0.success());
}

/// With fewer descriptors than clients: those that have one are served, one that waits is told now and then, and the
/// admin server is there all the time.
#[test]
fn without_descriptors_clients_are_told_and_nothing_spins() {
    const CLIENTS: usize = 80;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir-gateway")]);
    let began = Instant::now();
    let gateway = Gateway::spawn(&answering(""), command);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(gateway.address)).collect();
    for client in &mut clients {
        client.write_all(GET.as_bytes()).expect("it is queued");
    }
    // They are told one by one: where a second one is, the first has its answer.
    gateway.wait_for("clients that are told", |g| g.stat("out_of_sockets") > 1);
    let pauses = gateway.stat("accept_pauses");
    let most = began.elapsed().as_millis() / 100 + 1;
    assert!(pauses > 0 && u128::from(pauses) <= most, "{pauses} pauses of 100 ms, {most} at most");
    let served = gateway.stat("2xx");
    let told = clients.iter().filter(|client| {
        client.set_nonblocking(true).expect("it does not wait");
        let mut bytes = [0; 512];
        let mut client: &TcpStream = client;
        let length = client.read(&mut bytes).unwrap_or_default();
        bytes[..length].starts_with(b"HTTP/1.1 503 ")
            && String::from_utf8_lossy(&bytes).contains("out_of_sockets")
    });
    assert!(told.count() > 0 && served > 0 && (served as usize) < CLIENTS);
    drop(clients);
    gateway.wait_for("the clients' end", |g| g.stat("open") == 0);
    assert!(ask(&mut connect(gateway.address)).is_some(), "it goes on as before");
}

#[test]
fn an_idle_upstream_connection_gives_its_descriptor_to_one_that_is_wanted() {
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
    assert_eq!(gateway.stat("connect_failures"), 0, "it is one connection that came about");
    drop(others);
}

/// Whether an endpoint is well is not told by a gateway that could not ask it.
#[test]
fn a_check_without_a_descriptor_puts_no_endpoint_out() {
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
    let is_told = |line: String| line.contains("health checks paused: no file descriptors");
    // Between them stands that accepting pauses.
    assert!((0..20).any(|_| is_told(gateway.message())));
    assert_eq!(endpoints(&gateway, &fields), json!([["in", 0]]));
    let before = passed(&gateway);
    drop(clients);
    gateway.wait_for("a good check behind it", |g| passed(g) > before);
    assert_eq!(endpoints(&gateway, &fields), json!([["in", 0]]));
}

#[test]
fn an_overload_is_told_to_whoever_balances() {
    let mut gateway = Gateway::start(&answering("overload: { memory: 1MiB }\n"));
    gateway.wait_for("the overload", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(gateway.admin("/readyz").ends_with("\r\n\r\noverloaded: memory\n"));
    assert!(gateway.admin("/healthz").starts_with("HTTP/1.1 200 "), "a restart would not help");
    let told = gateway.message();
    let (start, end) =
        ("]: overloaded: memory use is ", "`overload.memory` allows 1048576; new requests get 503\n");
    assert!(told.contains(" warn weir-gateway[") && told.contains(start) && told.ends_with(end), "{told}");
    gateway.configure(&answering(""));
    gateway.reload();
    gateway.wait_for("its end", |g| g.admin("/readyz").ends_with("\r\n\r\nready\n"));
}
