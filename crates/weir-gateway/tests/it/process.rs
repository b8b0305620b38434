//! The program from the command line: arguments, signals, exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A running gateway, with the addresses that it printed. Dropping it kills the process.
pub(crate) struct Gateway {
    child: Child,
    /// The serving process. After an upgrade, this is no longer `child`.
    pub(crate) process: Pid,
    out: BufReader<ChildStdout>,
    messages: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) dir: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start(config: &str) -> Gateway {
        Gateway::start_with(config, &[])
    }

    /// Starts a gateway, with these further files next to its configuration.
    pub(crate) fn start_with(config: &str, files: &[(&str, &str)]) -> Gateway {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("a file");
        }
        Gateway::spawn_in(dir, config, Command::new(env!("CARGO_BIN_EXE_weir-gateway")))
    }

    pub(crate) fn spawn(config: &str, command: Command) -> Gateway {
        Gateway::spawn_in(tempfile::tempdir().expect("a temporary folder"), config, command)
    }

    /// Starts a gateway in a folder that already has the other files.
    pub(crate) fn spawn_in(dir: tempfile::TempDir, config: &str, mut command: Command) -> Gateway {
        std::fs::write(dir.path().join("gateway.yaml"), config).expect("a configuration file");
        let mut child = command
            .arg("--config")
            .arg(dir.path().join("gateway.yaml"))
            .args(["--admin", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the gateway starts");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let address = line(&mut out, "listening on ").parse().expect("an address");
        let mut next = line(&mut out, "");
        while next.starts_with("listening on ") {
            next = line(&mut out, "");
        }
        let admin = next.strip_prefix("admin on ").and_then(|a| a.parse().ok()).expect("an address");
        line(&mut out, "ready");
        let process = Pid::from_raw(child.id().cast_signed()).expect("a pid");
        let messages = BufReader::new(child.stderr.take().expect("its messages"));
        Gateway { child, process, out, messages, address, admin, dir }
    }

    pub(crate) fn configure(&self, config: &str) {
        self.write("gateway.yaml", config);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("a file");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.process, signal).expect("it runs");
    }

    pub(crate) fn reload(&mut self) {
        self.signal(Signal::HUP);
        line(&mut self.out, "reloaded ");
    }

    /// The next line on standard error.
    pub(crate) fn message(&mut self) -> String {
        let mut line = String::new();
        self.messages.read_line(&mut line).expect("its messages are text");
        line
    }

    pub(crate) fn admin(&self, path: &str) -> String {
        let mut stream = connect(self.admin);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the admin server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the admin server answers");
        answer
    }

    /// The value in `/stats` with this name.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = self.admin("/stats");
        let rest = stats.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("no {name} in {stats}"))
    }

    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&Gateway) -> bool) {
        for _ in 0..6000 {
            if condition(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{what} never came: {}", self.admin("/stats"));
    }

    /// Reads the next line of standard output, which must begin with `start`. Returns the text after `start`.
    pub(crate) fn line(&mut self, start: &str) -> String {
        line(&mut self.out, start)
    }

    /// The resident memory of the process in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib * 1024
    }

    /// Stops the gateway, and returns what it wrote to standard error.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.finish().1
    }

    /// Waits until the gateway exits. Returns its exit code, and what it wrote to standard error.
    pub(crate) fn wait(self) -> (Option<i32>, String) {
        let (status, messages) = self.finish();
        (status.code(), messages)
    }

    /// Waits until all processes of the gateway exit, because they share standard error.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        let mut messages = String::new();
        self.messages.read_to_string(&mut messages).expect("its messages are text");
        (status, messages)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The processes may have exited already.
        let _ = kill_process(self.process, Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the next line, and returns the rest after `start`.
fn line(out: &mut BufReader<ChildStdout>, start: &str) -> String {
    let mut line = String::new();
    out.read_line(&mut line).expect("its output is text");
    let rest = line.strip_prefix(start).unwrap_or_else(|| panic!("{line:?} does not begin with {start:?}"));
    rest.trim().to_owned()
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// Reads the headers of a response and the first two bytes of its body. Returns the headers, or `None` if reading fails.
pub(crate) fn response(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0; 1];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let mut body = [0; 2];
    stream.read_exact(&mut body).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn ask(stream: &mut TcpStream) -> Option<String> {
    stream.write_all(GET.as_bytes()).ok()?;
    response(stream)
}

/// An origin that always responds with `ok`, and counts the responses.
pub(crate) fn origin() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let answered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&answered);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut chunk = [0; 4096];
                while stream.read(&mut chunk).is_ok_and(|bytes| bytes > 0) {
                    count.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, answered)
}

pub(crate) fn config(origin: SocketAddr) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 2\nroutes: [{{ path: /, backend: api }}]\n\
         backends: {{ api: {{ endpoints: ['{origin}'] }} }}\ndrain: {{ delay: 0s }}\n"
    )
}

/// The path of a program that `make peers` installs.
pub(crate) fn peer(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let mut places = own.ancestors().map(|folder| folder.join("target/peers/bin").join(name));
    places.find(|path| path.exists()).unwrap_or_else(|| panic!("no {name}; `make peers` fetches it"))
}

/// Runs the gateway with this configuration until it exits. Returns its exit code and messages.
pub(crate) fn run(file: &str, more: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("gateway.yaml"), file).expect("a configuration file");
    run_in(dir.path(), "gateway.yaml", more)
}

fn run_in(dir: &Path, file: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway"))
        .current_dir(dir)
        .args(["--config", file])
        .args(more)
        .output()
        .expect("the gateway starts");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), messages)
}

#[test]
fn an_invalid_configuration_is_rejected_with_line_and_column() {
    let good = config(SocketAddr::from(([127, 0, 0, 1], 1)));
    let misspelt = good.replace("backend: api ", "backend: apy ");
    let expected =
        "gateway.yaml:3:30: routes[0].backend: unknown backend `apy`\n  help: did you mean `api`?\n";
    assert_eq!(run(&misspelt, &[]), (Some(2), expected.to_owned()));
    let expected = "gateway.yaml:2:1: unknown field `worker`\n  help: did you mean `workers`?\n";
    assert_eq!(run(&good.replace("workers", "worker"), &[]), (Some(2), expected.to_owned()));
    assert_eq!(run(&good, &["--check"]), (Some(0), String::new()));
    let (code, messages) = run_in(Path::new("/"), "no-such-file.yaml", &[]);
    assert_eq!((code, messages.starts_with("no-such-file.yaml: cannot read")), (Some(2), true));
}

#[test]
fn an_address_in_use_exits_with_code_3() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = held.local_addr().expect("its address");
    let taken = config(address).replace("127.0.0.1:0", &address.to_string());
    let (code, messages) = run(&taken, &[]);
    assert_eq!(code, Some(3));
    assert!(messages.contains(&format!("cannot listen on {address}")), "{messages}");
    let remedy = format!("run `ss -ltnp 'sport = :{}'` to see the process", address.port());
    assert!(messages.contains(&remedy), "{messages}");
    let elsewhere = config(address).replace("127.0.0.1:0", "192.0.2.1:80");
    let (code_elsewhere, reported) = run(&elsewhere, &[]);
    assert!(
        code_elsewhere == Some(3) && reported.contains("no network interface has this address"),
        "{reported}"
    );
    let (code, messages) = run(&config(address), &["--admin", &address.to_string()]);
    assert_eq!(code, Some(3));
    assert!(messages.contains(&format!("cannot start the admin server on {address}")), "{messages}");
    assert!(messages.contains(&remedy), "{messages}");
}

#[test]
fn the_admin_server_reports_health_and_counters() {
    let (origin, _) = origin();
    let gateway = Gateway::start(&config(origin));
    assert!(ask(&mut connect(gateway.address)).is_some());
    assert!(gateway.admin("/healthz").starts_with("HTTP/1.1 200 "));
    assert!(gateway.admin("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(gateway.admin("/nothing").starts_with("HTTP/1.1 404 "));
    let metrics = gateway.admin("/metrics");
    let sample = format!("\nweir_responses_total{{listener=\"{}\",status=\"2xx\"}} 1\n", gateway.address);
    assert!(metrics.contains(&sample), "{metrics}");
    assert_eq!((gateway.stat("requests"), gateway.stat("2xx")), (1, 1));
}

#[test]
fn reloads_lose_no_request() {
    let (first, second) = (origin(), origin());
    let mut gateway = Gateway::start(&config(first.0));
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (stop, address) = (Arc::clone(&stop), gateway.address);
            std::thread::spawn(move || {
                let mut kept = connect(address);
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    if number % 2 == 0 {
                        kept = connect(address);
                    }
                    assert!(ask(&mut kept).is_some_and(|head| head.starts_with("HTTP/1.1 200 ")));
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    for turn in 0..20 {
        gateway.configure(&config(if turn % 2 == 0 { second.0 } else { first.0 }));
        gateway.reload();
    }
    gateway.configure("nonsense");
    gateway.signal(Signal::HUP);
    stop.store(true, Ordering::SeqCst);
    let answered: u64 = clients.into_iter().map(|c| c.join().expect("no request is lost")).sum();
    assert_eq!((gateway.stat("requests"), gateway.stat("2xx")), (answered, answered));
    let retries = gateway.stat("retries");
    assert_eq!(first.1.load(Ordering::SeqCst) + second.1.load(Ordering::SeqCst), answered + retries);
    assert!(second.1.load(Ordering::SeqCst) > 0, "the reloads did something");
    assert!(ask(&mut connect(gateway.address)).is_some(), "the previous configuration stays active");
    gateway.signal(Signal::TERM);
    let (status, messages) = gateway.finish();
    assert!(status.success());
    assert!(messages.contains("the previous configuration stays active"), "{messages}");
}

#[test]
fn a_stop_responds_to_every_request_first() {
    let (origin, _) = origin();
    let gateway = Gateway::start(&config(origin));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut kept = connect(gateway.address);
            assert!(ask(&mut kept).is_some());
            std::thread::spawn(move || {
                let mut answered = 1;
                loop {
                    let head = ask(&mut kept).expect("an answer to each request");
                    answered += 1;
                    if head.contains("Connection: close") {
                        return answered;
                    }
                }
            })
        })
        .collect();
    gateway.signal(Signal::TERM);
    let answered: u64 = clients.into_iter().map(|c| c.join().expect("no request is lost")).sum();
    assert!(answered >= 8);
    let (status, messages) = gateway.finish();
    assert_eq!((status.code(), messages.as_str()), (Some(0), ""));
}

#[test]
fn a_draining_gateway_closes_connections_after_the_response() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the gateway connects");
        wait.recv().expect("the test continues");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("the gateway reads");
    });
    let gateway = Gateway::start(&config(address));
    let mut client = connect(gateway.address);
    client.write_all(GET.as_bytes()).expect("the gateway reads");
    gateway.wait_for("the exchange", |g| g.stat("connects") == 1);
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    assert!(gateway.admin("/healthz").starts_with("HTTP/1.1 200 "));
    release.send(()).expect("the origin waits");
    assert!(response(&mut client).expect("the answer").contains("Connection: close"));
    assert!(gateway.finish().0.success());
}

/// A gateway with one exchange in flight to an upstream that never responds.
fn busy_gateway(drain: &str) -> (Gateway, TcpStream, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("its address");
    let gateway = Gateway::start(&config(address).replace("delay: 0s", drain));
    let mut client = connect(gateway.address);
    client.write_all(GET.as_bytes()).expect("the gateway reads");
    gateway.wait_for("the exchange", |g| g.stat("connects") == 1);
    (gateway, client, silent)
}

#[test]
fn an_expired_drain_reports_the_connections_it_closed() {
    let (gateway, mut client, _silent) = busy_gateway("delay: 0s, timeout: 100ms");
    gateway.signal(Signal::TERM);
    let (status, messages) = gateway.finish();
    assert_eq!(status.code(), Some(0));
    assert!(messages.ends_with("`drain.timeout` expired; active connections closed: 1\n"), "{messages:?}");
    let head = response(&mut client).expect("an answer");
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nX-Weir-Error: drained\r\n"), "{head}");
}

#[test]
fn a_second_stop_exits_at_once() {
    let (gateway, _client, _silent) = busy_gateway("delay: 0s, timeout: 1h");
    gateway.signal(Signal::TERM);
    gateway.wait_for("the drain", |g| g.admin("/readyz").starts_with("HTTP/1.1 503 "));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.finish().0.code(), Some(1));
}

#[test]
fn the_admin_server_survives_misbehaving_clients() {
    let gateway = Gateway::start(&config(origin().0));
    // One less than the number of clients that the admin server serves at a time.
    let slow: Vec<TcpStream> = (0..63).map(|_| connect(gateway.admin)).collect();
    for (nonsense, status) in [
        ("\0\x01\x02\r\n\r\n", "400"),
        ("GET /stats HTTP/1.1\r\n\r\n", "400"),
        ("POST /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "405"),
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
    ] {
        let mut client = connect(gateway.admin);
        client.write_all(nonsense.as_bytes()).expect("the admin server reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("the admin server answers");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer:?}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD\r\n"), status == "405", "{answer:?}");
    }
    let mut endless = connect(gateway.admin);
    // The server may close the connection before the test has sent everything.
    let _ = endless.write_all("X".repeat(1 << 20).as_bytes());
    drop(endless);
    drop(slow);
    assert_eq!(gateway.stat("requests"), 0);
}

#[test]
fn without_descriptors_it_pauses_and_recovers() {
    let (origin, _) = origin();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 48; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir-gateway")]);
    let gateway = Gateway::spawn(&config(origin), command);
    // The admin server also needs a descriptor per connection, so the test reads its counters only after these clients
    // have disconnected.
    let clients: Vec<TcpStream> = (0..80).map(|_| connect(gateway.address)).collect();
    std::thread::sleep(Duration::from_millis(300));
    drop(clients);
    assert!(ask(&mut connect(gateway.address)).is_some());
    assert!(gateway.stat("accept_pauses") > 0);
    gateway.wait_for("the clients' close", |g| g.stat("open") == 0);
}
