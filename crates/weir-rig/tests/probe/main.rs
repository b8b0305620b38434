//! Helper program of the integration tests. Its arguments choose its role: guard, lab, or a process that misbehaves on
//! demand.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use weir_results::Role;
use weir_rig::{Binary, Limits, ProcessSpec, Ready, Rig, RigOptions, Running, run_guard};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["guard", ledger] => run_guard(Path::new(ledger)),
        ["lab", state_dir, temp_dir, how] => lab(state_dir, temp_dir, how),
        ["limited", state_dir, temp_dir, ref asked @ ..] => limited(state_dir, temp_dir, asked),
        ["listen", address] => listen(address),
        ["work", address] => work(address),
        ["give", address, bytes] => give(address, bytes.parse().expect("a number of bytes")),
        ["take", address] => take(address),
        ["tree"] => tree(),
        ["away"] => away(),
        ["shout", bytes] => shout(bytes.parse().expect("a number of bytes")),
        ["escape"] => escape(),
        ["eat", bytes] => eat(bytes.parse().expect("a number of bytes")),
        ["cache", file, bytes] => cache(file, bytes.parse().expect("a number of bytes")),
        ["burn"] => loop {
            std::hint::spin_loop();
        },
        ["die", text, code] => {
            println!("{text}");
            return ExitCode::from(code.parse::<u8>().expect("an exit code"));
        }
        ["die-after", sign] => {
            while !Path::new(sign).exists() {
                thread::sleep(Duration::from_millis(1));
            }
            return ExitCode::FAILURE;
        }
        ["wait"] => wait(),
        _ => panic!("unknown arguments {words:?}"),
    }
    ExitCode::SUCCESS
}

fn wait() {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn listen(address: &str) {
    let listener =
        TcpListener::bind(address.parse::<SocketAddr>().expect("an address")).expect("a free address");
    for stream in listener.incoming() {
        drop(stream);
    }
}

/// Accepts connections. For each, it waits in short-lived threads, writes to the disk, and closes the connection.
fn work(address: &str) {
    let listener =
        TcpListener::bind(address.parse::<SocketAddr>().expect("an address")).expect("a free address");
    let mut file = File::create("work").expect("a file");
    for stream in listener.incoming() {
        for _ in 0..16 {
            let waiting = thread::spawn(|| thread::sleep(Duration::from_millis(1)));
            waiting.join().expect("a thread that ends");
            file.write_all(&[1; 4096]).expect("a page");
            file.sync_all().expect("a disk");
        }
        drop(stream);
    }
}

/// Accepts connections. Sends `bytes` bytes on each, then closes it.
fn give(address: &str, bytes: usize) {
    let listener =
        TcpListener::bind(address.parse::<SocketAddr>().expect("an address")).expect("a free address");
    for mut stream in listener.incoming().flatten() {
        // Ignore errors: a readiness check closes its connection early.
        let _ = stream.write_all(&vec![1; bytes]);
    }
}

/// Waits until the file `go` exists, then connects to `address` and reads until the connection closes.
fn take(address: &str) {
    while !Path::new("go").exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let mut stream = TcpStream::connect(address).expect("a connection");
    println!("took {}", io::copy(&mut stream, &mut io::sink()).expect("bytes"));
    wait();
}

/// Fills the page cache with a file. Reading the file several times makes its pages active.
fn cache(file: &str, bytes: usize) {
    fs::write(file, vec![1; bytes]).expect("a file");
    File::open(file).and_then(|file| file.sync_all()).expect("a disk");
    for _ in 0..3 {
        io::copy(&mut File::open(file).expect("the file"), &mut io::sink()).expect("its bytes");
    }
    println!("cached");
    wait();
}

/// Starts a child in its own session, so that signals to this session do not reach the child.
fn escape() {
    let own = std::env::current_exe().expect("an executable");
    let mut child = Command::new("setsid").arg(&own).arg("wait").spawn().expect("a child");
    let _ = child.wait();
}

/// Starts a child in this process group, a child in another process group, and an orphan.
fn tree() {
    let own = std::env::current_exe().expect("an executable");
    let mut near = Command::new(&own).arg("wait").spawn().expect("a child");
    let mut far = Command::new(&own).arg("wait").process_group(0).spawn().expect("a child");
    away();
    let _ = near.wait();
    let _ = far.wait();
}

/// Starts a process in its own session. The parent of the process exits at once.
fn away() {
    let own = std::env::current_exe().expect("an executable");
    let forked = Command::new("setsid").arg("--fork").arg(own).arg("wait").status().expect("setsid");
    assert!(forked.success());
}

/// Prints about `bytes` bytes to its log, then a last line, and waits.
fn shout(bytes: usize) {
    let line = "the same again and again\n".repeat(1 << 12);
    let mut output = io::stdout();
    for _ in 0..bytes / line.len() {
        output.write_all(line.as_bytes()).expect("a log");
    }
    println!("that was all");
    wait();
}

/// Allocates memory page by page, then holds it.
fn eat(bytes: usize) {
    let mut held = vec![0u8; bytes];
    for page in held.chunks_mut(4096) {
        page[0] = 1;
    }
    println!("ate {}", std::hint::black_box(&held).len());
    wait();
}

/// Opens a rig and launches one part for each element of `asked`, which contains the limits of the part (`CPUS:BYTES`,
/// `-` for none). Prints how each part was limited, and which CPUs it can use.
fn limited(state_dir: &str, temp_dir: &str, asked: &[&str]) {
    let rig = open("limited", state_dir, temp_dir, true);
    let parts: Vec<Running> = asked
        .iter()
        .enumerate()
        .map(|(index, asked)| {
            let (cpus, memory) = asked.split_once(':').expect("CPUS:BYTES");
            let limits = Limits { cpus: cpus.parse().ok(), memory_bytes: memory.parse().ok() };
            rig.launch(&own_process(&rig, &format!("part-{index}"), "wait", limits)).expect("a part")
        })
        .collect();
    let reported: Vec<Value> = parts.iter().map(tell).collect();
    println!("{}", json!({ "cgroups": rig.cgroups().err(), "parts": reported }));
}

fn tell(running: &Running) -> Value {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("a living process");
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its CPUs");
    json!({ "part": running.part(), "cpus": cpus.trim() })
}

fn open(run_id: &str, state_dir: &str, temp_dir: &str, cgroups: bool) -> Rig {
    let own = std::env::current_exe().expect("an executable");
    Rig::open_with(&RigOptions {
        run_id: run_id.into(),
        state_dir: state_dir.into(),
        temp_dir: temp_dir.into(),
        guard: vec![own.display().to_string(), "guard".into()],
        cgroups,
        database: None,
        host_name: None,
    })
    .expect("a rig")
}

/// The specification of a process that runs this program with the argument `part`.
fn own_process(rig: &Rig, name: &str, part: &str, limits: Limits) -> ProcessSpec {
    let own = std::env::current_exe().expect("an executable");
    ProcessSpec {
        name: name.into(),
        role: Role::Data,
        binary: Binary {
            path: own.clone(),
            version: String::new(),
            sha256: String::new(),
            ..Binary::default()
        },
        config_sha256: None,
        command: vec![own.display().to_string(), part.into()],
        env: Vec::new(),
        dir: rig.work_dir().to_owned(),
        log: rig.work_dir().join(format!("{name}.log")),
        input: None,
        limits,
        is_urgent: false,
        cpus: None,
        ready: Ready::None,
        ready_timeout: Duration::from_secs(10),
        listens: Vec::new(),
        namespace: None,
    }
}

/// Opens a rig and launches a process tree. If `how` is `namespaces`, it launches no tree, but a process in a network
/// namespace, with a child in another session. Prints the process ID and the work folder, and waits to be killed.
fn lab(state_dir: &str, temp_dir: &str, how: &str) {
    let rig = open("killed", state_dir, temp_dir, how == "cgroups");
    let namespace = (how == "namespaces").then(|| {
        let (one, other) = (rig.namespace().expect("a namespace"), rig.namespace().expect("another"));
        rig.link(&one, &other).expect("a link");
        one
    });
    let kind = if namespace.is_some() { "escape" } else { "tree" };
    let spec = ProcessSpec { namespace, ..own_process(&rig, "tree", kind, Limits::default()) };
    let tree = rig.launch(&spec).expect("a tree");
    println!("{} {}", tree.pid(), rig.work_dir().display());
    io::stdout().flush().expect("standard output");
    let _ = io::stdin().read(&mut [0]);
}
