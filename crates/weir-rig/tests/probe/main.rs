//! What the integration tests launch: a guard, a lab to be killed, and processes that behave badly on demand.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use weir_results::Role;
use weir_rig::{Binary, Limits, ProcessSpec, Ready, Rig, RigOptions, run_guard};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["guard", ledger] => run_guard(Path::new(ledger)),
        ["lab", state_dir, temp_dir, cgroups] => lab(state_dir, temp_dir, cgroups == "cgroups"),
        ["listen", address] => listen(address),
        ["tree"] => tree(),
        ["away"] => away(),
        ["shout", bytes] => shout(bytes.parse().expect("a number of bytes")),
        ["eat", bytes] => eat(bytes.parse().expect("a number of bytes")),
        ["burn"] => loop {
            std::hint::spin_loop();
        },
        ["die", text, code] => {
            println!("{text}");
            return ExitCode::from(code.parse::<u8>().expect("an exit code"));
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

/// Two children: one in this process group, one in another. And a process that is nobody's child any more.
fn tree() {
    let own = std::env::current_exe().expect("an executable");
    let mut near = Command::new(&own).arg("wait").spawn().expect("a child");
    let mut far = Command::new(&own).arg("wait").process_group(0).spawn().expect("a child");
    away();
    let _ = near.wait();
    let _ = far.wait();
}

/// Starts a process in a session of its own, which is left alone.
fn away() {
    let own = std::env::current_exe().expect("an executable");
    let forked = Command::new("setsid").arg("--fork").arg(own).arg("wait").status().expect("setsid");
    assert!(forked.success());
}

/// Fills its log, says that it is done, and waits.
fn shout(bytes: usize) {
    let line = "the same again and again\n".repeat(1 << 12);
    let mut output = io::stdout();
    for _ in 0..bytes / line.len() {
        output.write_all(line.as_bytes()).expect("a log");
    }
    println!("that was all");
    wait();
}

/// Takes memory page by page, then holds it.
fn eat(bytes: usize) {
    let mut held = vec![0u8; bytes];
    for page in held.chunks_mut(4096) {
        page[0] = 1;
    }
    println!("ate {}", std::hint::black_box(&held).len());
    wait();
}

/// Opens a rig, launches a tree in it, prints the work folder and the tree's process id, and waits to be killed.
fn lab(state_dir: &str, temp_dir: &str, cgroups: bool) {
    let own = std::env::current_exe().expect("an executable");
    let rig = Rig::open_with(&RigOptions {
        run_id: "killed".into(),
        state_dir: state_dir.into(),
        temp_dir: temp_dir.into(),
        guard: vec![own.display().to_string(), "guard".into()],
        cgroups,
        database: None,
        host_name: None,
    })
    .expect("a rig");
    let spec = ProcessSpec {
        name: "tree".into(),
        role: Role::Data,
        binary: Binary { path: own.clone(), version: String::new(), sha256: String::new() },
        config_sha256: None,
        command: vec![own.display().to_string(), "tree".into()],
        env: Vec::new(),
        dir: rig.work_dir().to_owned(),
        log: rig.work_dir().join("tree.log"),
        limits: Limits::default(),
        cpus: None,
        ready: Ready::None,
        ready_timeout: Duration::from_secs(10),
        listens: Vec::new(),
    };
    let tree = rig.launch(&spec).expect("a tree");
    let work_dir: PathBuf = rig.work_dir().to_owned();
    println!("{} {}", tree.pid(), work_dir.display());
    io::stdout().flush().expect("standard output");
    let _ = io::stdin().read(&mut [0]);
}
