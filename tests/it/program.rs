//! Starts `weir` and reads its output.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// Timeout of every program that a test starts.
const PATIENCE: Duration = Duration::from_secs(120);

/// `weir` with these arguments, in `folder`, which also contains the user data folder.
pub fn weir(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder).env("XDG_DATA_HOME", folder.join("data"));
    // A separate folder for the lock: other runs on the host, such as tests of another checkout, must not block it.
    command.env("WEIR_STATE_DIR", folder.join("state"));
    command
}

/// Maximum number of concurrent runs. Each has its own state folder and so its own lock.
const RUNS: u32 = 2;

static RUNNING: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

/// Permission to run on this host, released on drop.
pub struct Host(u32);

/// Waits until one of the [`RUNS`] permissions is free. Tests that hold the other permissions can run at the same time.
pub fn the_host() -> Host {
    take(1)
}

/// Waits until no other test runs anything, for tests that inspect the whole host.
pub fn the_host_alone() -> Host {
    take(RUNS)
}

fn take(runs: u32) -> Host {
    let running = RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut running = RUNNING
        .1
        .wait_while(running, |running| *running + runs > RUNS)
        .unwrap_or_else(PoisonError::into_inner);
    *running += runs;
    Host(runs)
}

impl Drop for Host {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        RUNNING.1.notify_all();
    }
}

/// Runs the command until it exits.
pub fn finish(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait(child)
}

/// Waits until `child` exits and returns its output. Panics after [`PATIENCE`].
pub fn wait(mut child: Child) -> Output {
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let out = reader(stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let err = reader(stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("a program did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Parses standard output as JSON. If this fails, panics with standard error in the message.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("no JSON on standard output ({error}); standard error:\n{}", text(&output.stderr))
    })
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A free port of loopback.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until `condition` holds. Panics with `what` after [`PATIENCE`].
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "timed out while waiting for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running `weir origin`, killed when dropped.
pub struct Origin {
    child: Child,
    /// Listen address.
    pub address: SocketAddr,
}

impl Origin {
    /// Starts an origin on `port` and waits until it listens.
    pub fn start(folder: &Path, port: u16, arguments: &[&str]) -> Self {
        let listen = format!("127.0.0.1:{port}");
        let mut all = vec!["origin", "--listen", &listen];
        all.extend(arguments);
        let mut child = weir(folder, &all).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening on"), "the origin printed {line:?}");
        Self { child, address: listen.parse().unwrap() }
    }

    /// Reads its counters.
    pub fn stats(&self) -> Value {
        let body = get(self.address, "/__weir/stats");
        serde_json::from_str(&body).unwrap()
    }

    /// Sends a signal, waits for the exit and returns the exit code.
    pub fn end_by(&mut self, signal: Signal) -> Option<i32> {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Kills the origin, like a crash.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The response body of a GET over a new connection.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A scenario for `gateways`, with short phases; `more` is appended.
pub fn scenario(folder: &Path, gateways: &str, more: &str) -> PathBuf {
    let path = folder.join("scenario.yaml");
    let scenario = format!(
        "name: end-to-end\nquestion: Does it hold together?\ngateways: {gateways}\n\
         limits: {{ data: {{ cpus: 0.5, memory: 256MiB }} }}\n\
         topology: {{ domains: 1, paths: [/ping] }}\norigin: {{ body: 64B }}\n\
         loads:\n  full: {{ model: closed, connections: 4 }}\n  tail: {{ model: open, rate: 300/s }}\n\
         warmup: 100ms\nduration: 400ms\nrepeats: 2\nretries: 0\n{more}"
    );
    std::fs::write(&path, scenario).unwrap();
    path
}
